"""Networks and batches of many kinds: measured rightly, or refused in one line that names the remedy."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fa_core import diagnose
from fa_core.errors import FaError, MeasureError
from fa_core.measure.accuracy import accuracy
from fa_core.measure.isolate import eval_mode
from tests.fa_core.measure.nets import Hookable, Residual, batches

TAPS = "embed, blocks.*"


def odd(forward):
    """A network whose forward is another one."""

    class Odd(Hookable):
        def forward(self, x):
            return forward(self, x)

    return Odd(Residual(kind="gelu", out_ln=True))


def states(net, x):
    return net.states(x)[0]


def plain(net, x):
    return net.readout(states(net, x))


def checkpointed(reentrant):
    def forward(net, x):
        h = net.embed(x)
        for block in net.blocks:
            h = checkpoint(block, h, use_reentrant=reentrant)
        return net.readout(h)

    return forward


ASKS_ABOUT_DATA = "do these data belong to this network"
RAISED = r"its forward raised it: run model\(x\) on this batch by itself"
NOT_YET = "hold no values yet; load them"
REFUSED = {
    "reentrant checkpoints": (checkpointed(True), "use_reentrant=False, or switch checkpoint"),
    "a dict of other names": (lambda net, x: {"scores": plain(net, x)}, r"\['logits'\]: wrap"),
    "features first": (lambda net, x: (states(net, x), plain(net, x)), "wrap the network in a"),
    "one score per sample": (lambda net, x: plain(net, x)[:, 0], "wrap the network in a module"),
    "one logit": (lambda net, x: plain(net, x)[:, :1], r"returns torch\.cat"),
    "taps beside the path": (
        lambda net, x: (states(net, x), net.head(x.requires_grad_() @ torch.ones(5, 6)))[1],
        "tap the tensor that the next block reads",
    ),
    "another argument": (lambda net, x: (lambda x, mask: x)(x), "a module whose forward takes x"),
    "a dict of inputs": (lambda net, x: plain(net, {}["x"]), "whose forward takes x alone"),
    "a failed assertion": (lambda net, x: _fail(), r"run model\(x\) on this batch by itself"),
    "a forward that casts": (lambda net, x: plain(net, x.double()), RAISED),
    "layers that do not fit": (lambda net, x: net.embed(plain(net, x)), RAISED),
    "an error of its own": (lambda net, x: _fail(ValueError("a bad size")), RAISED),
    "a lazy network": (nn.Sequential(nn.LazyLinear(6), nn.Linear(6, 4)), f"{NOT_YET}; run a lazy"),
    "weights on no device": (Hookable(Residual().to("meta")), NOT_YET),
    "TorchScript": (torch.jit.trace(nn.Linear(5, 4), torch.ones(1, 5)), r"give the nn\.Module"),
}


def _fail(error=None):
    raise error or AssertionError("bad")


@pytest.mark.parametrize("case", REFUSED)
def test_a_network_that_cannot_be_measured_is_refused_with_the_remedy(case):
    net, remedy = REFUSED[case]
    if not isinstance(net, nn.Module):
        net = odd(net)
    with pytest.raises(FaError, match=remedy) as caught:
        diagnose(net, batches(8), taps=TAPS)
    # where shapes or dtypes do not fit, either may be the cause
    assert remedy == RAISED or ASKS_ABOUT_DATA not in str(caught.value)


MEASURED = {
    "checkpoints": checkpointed(False),
    "a dict with logits": lambda net, x: {"logits": plain(net, x)},
    "logits and attention weights": lambda net, x: (plain(net, x), [torch.ones(16, 2, 3, 3)]),
    "compiled": plain,
    "in data parallel": plain,
}
NUMBERS = ("residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc")


@pytest.mark.parametrize("case", MEASURED)
def test_a_network_of_an_odd_kind_has_the_numbers_of_the_plain_one(case):
    net, model = odd(plain), odd(MEASURED[case])
    expected = diagnose(net, batches(8), taps=TAPS)
    model.load_state_dict(net.state_dict())
    taps = ["embed", "blocks.*"]
    if case == "compiled":
        model = torch.compile(model, backend="eager")
    if case == "in data parallel":
        model, taps = nn.DataParallel(model), [f"module.{tap}" for tap in taps]
    report = diagnose(model, (batch for batch in batches(8)), taps=taps)
    for name in NUMBERS:
        assert getattr(report, name) == pytest.approx(getattr(expected, name), rel=1e-6), name


@pytest.mark.parametrize(
    ("net", "kind"),
    [
        (Residual, "the class Residual"),
        (plain, "a function"),
        (Residual().state_dict(), "a OrderedDict"),
        (None, "a None"),
    ],
)
@pytest.mark.parametrize("measure", [diagnose, accuracy])
def test_what_is_no_network_is_refused_with_the_remedy(net, kind, measure):
    said = rf"the network is {kind}.*nn\.Module instance.*load_state_dict"
    with pytest.raises(MeasureError, match=said):
        measure(net, batches(1))


def test_of_several_devices_in_parallel_the_first_runs_alone():
    parallel = nn.DataParallel(Residual())
    parallel.device_ids = [0, 1]
    with eval_mode(parallel) as net:
        assert net.model.device_ids == [0]
    assert parallel.device_ids == [0, 1]
