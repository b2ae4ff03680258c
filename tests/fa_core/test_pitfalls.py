"""Each demonstration gives the wrong and the right number; 1 to 3 the published ones."""

import json
import math
from importlib.metadata import EntryPoint

import pytest
import torch

from fa_core.errors import MeasureError, UsageError
from fa_core.pitfalls import (
    PITFALLS,
    SAMPLE,
    Subject,
    aggregate,
    aggregations,
    cosine_eps,
    demonstrate,
    half_flush,
    missing_feedback,
    norm_axis,
)
from fa_core.zoo.methods import restore_method
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.conftest import one_thread  # noqa: F401 (a fixture)


def test_norm_axis_gives_the_published_numbers():
    shown = norm_axis()
    assert list(shown.wrong.values()) == [pytest.approx(1.142857, abs=5e-7)]
    assert list(shown.right.values()) == [[5.0, 10.0]]


def test_cosine_eps_comes_out_twenty_times_small():
    shown = cosine_eps()
    (wrong,), (right,) = shown.wrong.values(), shown.right.values()
    assert right == pytest.approx(0.0181, rel=1e-9)
    assert round(wrong, 4) == 0.0009
    assert right / wrong == pytest.approx(20.0)


def test_fp16_flushes_and_bf16_keeps():
    shown = half_flush()
    flushed, cosine = shown.wrong.values()
    assert flushed == 0.0 and math.isnan(cosine)
    assert shown.right["5e-10 in bf16"] == pytest.approx(5e-10, rel=0.01)
    assert shown.right["cos(g, g) in bf16"] == pytest.approx(1.0)


def random_stream():
    generator = torch.Generator().manual_seed(0)
    credit = [torch.randn(6, 5, generator=generator) for _ in range(4)]
    return credit, [torch.randn(6, 5, generator=generator) for _ in range(4)]


def test_the_four_aggregations_equal_a_loop_over_samples():
    credit, grads = random_stream()

    def cosine(a, g):
        a, g = a.double().flatten(), g.double().flatten()
        return float(a @ g / (a.norm() * g.norm()))

    pairs = [*zip(credit, grads, strict=True)]
    per_layer = [sum(cosine(x, y) for x, y in zip(a, g, strict=True)) / 6 for a, g in pairs]
    deep = pairs[1:]
    expected = [
        sum(per_layer) / 4,
        sum(per_layer[1:]) / 3,
        sum(cosine(a.double().mean(0), g.double().mean(0)) for a, g in deep) / 3,
        sum(
            cosine(torch.cat([a[i] for a, _ in deep]), torch.cat([g[i] for _, g in deep]))
            for i in range(6)
        )
        / 6,
    ]
    assert list(aggregate(credit, grads).values()) == pytest.approx(expected)
    shown = aggregations(Subject(None, None, None, credit, grads))
    assert list(shown.wrong.values()) == pytest.approx([min(expected), max(expected)])


def test_all_seven_run_in_order_and_are_json_ready(sample_runs):
    shown = demonstrate(PITFALLS, sample_runs / "main" / "dfa_s42")
    assert [one.number for one in shown] == [1, 2, 3, 4, 5, 6, 7]
    assert tuple(one.name for one in shown) == PITFALLS
    for one in shown:
        assert torch.__version__.startswith(one.versions["torch"])
        json.dumps(one.to_dict())


def test_names_and_numbers_choose_and_unknown_ones_are_refused(tmp_path):
    shown = demonstrate(["norm-axis", "2"], tmp_path)
    assert [one.name for one in shown] == ["norm-axis", "cosine-eps"]
    with pytest.raises(UsageError, match="norm-axis"):
        demonstrate(["norm"], tmp_path)


def test_the_sample_run_shows_what_4_to_6_say(sample_runs):
    null, means, layers = demonstrate(["4", "5", "6"], sample_runs / SAMPLE)
    assert null.ran_on == means.ran_on == layers.ran_on == "dfa_s42"
    (fresh, std), (trained,) = null.wrong.values(), null.right.values()
    assert abs(fresh) < std < trained / 3, "fresh feedback gives none of the alignment"
    lowest, highest = means.wrong.values()
    assert 0 < 4 * lowest < highest, "the same Γ, four aggregations"
    (mean,), gammas = layers.wrong.values(), layers.right["Γ_l"]
    assert min(gammas) < 0 < mean < max(gammas) / 2, "the mean of all layers is the Γ of none"


def test_a_method_named_by_a_file_is_never_imported(monkeypatch):
    imported = []

    class Point(EntryPoint):
        def load(self):
            imported.append(self.value)

    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [Point("theirs", "evil:Rule", group)]
    )
    net = build("resmlp", input_dim=16, d=32, L=3)
    for method, args in (("theirs", {}), ("frozen", {"of": "theirs"})):
        with pytest.raises(MeasureError, match="'theirs' is not built in"):
            restore_method(method, net, {"B_0": torch.ones(1)}, **args)
    assert imported == []


def test_missing_feedback_reads_one_when_careless_and_na_when_right():
    shown = missing_feedback(Subject(None, None, None, *random_stream()))
    assert list(shown.wrong.values()) == [pytest.approx(1.0)]
    assert list(shown.right.values()) == [None]
