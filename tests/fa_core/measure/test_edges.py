"""What every metric of a network answers at its edges: a number, zero, NaN, or nothing, and never a made-up one."""

import math

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.measure.credit import method_credit_quality, null_gamma
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from fa_core.report.beside import cause_of_floor, deepest_gain
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from tests.fa_core.measure.nets import Block, Stack, batches

NUMBER, ZERO, NAN, NOTHING = "number", "zero", "NaN", "nothing"


def network(blocks=2, kind=torch.float32, **filled):
    """A small ResMLP; the parts that are named are filled with one value."""
    net = build("resmlp", input_dim=8, d=16, L=blocks, num_classes=4, seed=0)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            for part, value in filled.items():
                if name.startswith(part):
                    parameter.fill_(value)
    return net.to(kind)


def kind(value):
    if value is None:
        return NOTHING
    return NAN if not math.isfinite(value) else ZERO if value == 0 else NUMBER


def kinds(values):
    """What a series holds, layer by layer, equal neighbours once."""
    return " ".join(dict.fromkeys(map(kind, values))) or NOTHING


def answers(net, size, dtype):
    """Every metric's name and what it answers."""
    data = batches(8, size=size, width=8)
    lenient = DiagnosticThresholds(stability_drift_ceiling=0.95)
    report = diagnose(net, data, frozen_baseline_acc=0.7, thresholds=lenient, dtype=dtype)
    yield "fires", "".join(sorted(report.flags))
    yield "measured", report.coverage
    yield "growth", kind(report.max_per_block_growth)
    yield "g_L", kind(report.g_L)
    yield "drift", kind(report.cross_batch_stability)
    yield "accuracy", kind(report.headline_acc)
    yield "gain", kind(deepest_gain(report))
    yield "cause", cause_of_floor(report) or NOTHING
    precision = reference_precision(net, data[0], PassOptions(dtype=dtype))
    yield "precision", kinds(precision.cosine)
    assert kinds(precision.norm_ratio) == kinds(precision.cosine)
    assert precision.lost == [0] * len(precision.lost)
    rule = make_method("dfa", net, 0)
    quality = method_credit_quality(net, rule, data[0], directions=4)
    for name in ("gamma", "rho", "nudge"):
        yield name, kinds(quality[name])
    yield "deep gamma", kind(quality["deep_gamma"])
    null = null_gamma(net, rule, data[0], draws=2)
    yield "null", kind(null.mean)
    yield "null's spread", kind(null.std)
    yield "null's rank", kind(null.rank)


USUAL = {
    "fires": "d",
    "measured": "abcd",
    **dict.fromkeys(("growth", "g_L", "drift", "accuracy", "gain"), NUMBER),
    "cause": NOTHING,
    **dict.fromkeys(("precision", "gamma", "rho", "nudge", "deep gamma"), NUMBER),
    **dict.fromkeys(("null", "null's spread", "null's rank"), NUMBER),
}
BROKEN = {
    **dict.fromkeys(USUAL, NAN),
    "fires": "abcd",
    "measured": "abcd",
    "accuracy": ZERO,
    "cause": "undetermined",
    "null's rank": NOTHING,
}
NO_GRADIENT = {
    "fires": "bd",
    "measured": "abd",
    "g_L": ZERO,
    "gain": ZERO,
    "cause": "cancelled",
    "nudge": ZERO,
    **dict.fromkeys(("drift", "precision", "gamma", "rho", "deep gamma"), NOTHING),
    **dict.fromkeys(("null", "null's spread", "null's rank"), NOTHING),
}
NO_BLOCK = {
    "measured": "bcd",
    **dict.fromkeys(("growth", "deep gamma"), NOTHING),
    **dict.fromkeys(("null", "null's spread", "null's rank"), NOTHING),
}
CASES = {
    "an ordinary network": ({}, {}),
    "a NaN in a block": ({"blocks.1": math.nan}, BROKEN),
    "an infinity in a block": ({"blocks.1": math.inf}, BROKEN),
    "no gradient anywhere": ({"out_head": 0.0}, NO_GRADIENT),
    "a stream that starts at zero": ({"embed": 0.0}, {}),
    "one sample": ({"size": 1}, {}),
    "one layer": ({"blocks": 0}, NO_BLOCK),
    "float16": ({"kind": torch.float16}, {}),
    "bfloat16": ({"kind": torch.bfloat16}, {}),
    "float16 as it runs": ({"kind": torch.float16, "dtype": "as-is"}, {}),
    "bfloat16 as it runs": ({"kind": torch.bfloat16, "dtype": "as-is"}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_metric_has_an_answer_for(case):
    made_of, unusual = CASES[case]
    options = {"size": 16, "dtype": None, **made_of}
    size, dtype = options.pop("size"), options.pop("dtype")
    assert dict(answers(network(**options), size, dtype)) == {**USUAL, **unusual}


def dead():
    """ReLUs that are all off: the stream is 0 behind h_0, and the head's bias alone decides."""
    blocks = [nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(2)]
    net = Stack(nn.Linear(5, 6), blocks, nn.Linear(6, 4))
    for block in blocks:
        nn.init.constant_(block[0].bias, -100.0)
    net.head.bias.data = torch.tensor([0.0, 0.0, 0.0, 1.0])
    return net


def test_a_dead_stream_a_gradient_that_does_not_arrive_and_one_class_are_said():
    data = batches(8)
    report = diagnose(dead(), data, taps="embed, blocks.*")
    assert report.residual_norms[1:] == [0, 0]
    for said in (
        "the stream is 0 from l = 1 on",
        "no gradient reaches the embedding: g_0 to g_1 are 0",
        "all 128 predictions are class 3",
    ):
        assert said in report.notes and said in str(report)
    assert "a" in report.undecided and report.judgement == "undecided"
    said = "(a) undecided: growth per block 0 (limit 50); ‖h_1‖, ‖h_2‖ are 0: no block has"
    assert said in str(report)
    few = diagnose(dead(), [(x[:2], y[:2]) for x, y in data], taps="embed, blocks.*")
    assert "predictions" not in few.notes


def test_c_of_logits_that_do_not_depend_on_the_states_does_not_pass():
    class Averages(Stack):
        def readout(self, h):
            return self.head(nn.functional.instance_norm(h.transpose(1, 2)).mean(2))

    torch.manual_seed(0)
    net = Averages(nn.Linear(5, 6), [Block(6, "gelu") for _ in range(3)], nn.Linear(6, 4)).double()
    data = [(torch.randn(16, 7, 5).double(), torch.randint(4, (16,))) for _ in range(10)]
    report = diagnose(net, data, taps="embed, blocks.*")
    assert report.cross_batch_stability < report.thresholds.stability_drift_ceiling
    assert report.states["c"] == "undecided"
    assert "have the same logits up to rounding: (c) may be rounding" in report.notes
    net.readout = lambda h: 1e-3 * net.head(h.mean(1))
    assert "the same logits" not in diagnose(net, data, taps="embed, blocks.*").notes
