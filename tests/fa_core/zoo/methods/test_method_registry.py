"""Methods by name, from this package and from others; what they refuse; saved and restored."""

import math
from importlib.metadata import EntryPoint

import pytest
import torch
from safetensors.torch import load_file, save_file

from fa_core.errors import MeasureError, UsageError
from fa_core.report.method_style import CONTROLS
from fa_core.zoo.methods import METHODS, Method, make_method, method_class, restore_method
from fa_core.zoo.methods.forward_only import ForwardOnly
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.credits import batch, credit_of, same, train

ALL = [
    name
    for name, rule in METHODS.items()
    if name not in CONTROLS and not issubclass(rule, ForwardOnly)
]


class Zero(Method):
    """A rule of another package."""

    name = "zero"

    def credit(self, net, stream, logits, y):
        return [torch.zeros_like(h) for h in stream]


@pytest.mark.parametrize("name", ALL)
def test_credit_from_what_was_saved_is_the_credit_of_the_trained_method(name, net, tmp_path):
    method = make_method(name, net, seed=4)
    train(method, net, 5, 16)
    save_file(method.state_dict(), tmp_path / "credit.safetensors")
    restored = restore_method(name, net, load_file(tmp_path / "credit.safetensors"))
    ours, theirs = (credit_of(one, net, *batch(net, 16)) for one in (method, restored))
    same(ours, theirs, 0, 0)


REFUSED = [
    ("credit_brige", {}, r"did you mean credit_bridge.*bp, fa, dfa, state_bridge"),
    ("ep", {"betta": 1}, r"did you mean beta.*eta"),
    ("dfa", {"beta": 1}, "unknown option of dfa 'beta'"),
    ("credit_bridge", {"variant": "stabel"}, r"did you mean stable.*published"),
    ("ep", {"estimator": "odd"}, "unknown estimator of ep 'odd'; known: "),
    ("frozen", {"of": "shallow"}, "shallow"),
    ("random_targets", {"of": "random_init"}, "random_init"),
    ("shallow", {}, "L=3"),
    *(("ep", {"beta": value}, "beta is") for value in (0.0, math.nan)),
    ("ep", {"eta": -0.1}, "eta is"),
    ("ep", {"steps": 0}, "steps is"),
    *(("sparse_dfa", {"connections": many}, "connections is") for many in (0, 11, 1.5)),
]


@pytest.mark.parametrize(("name", "args", "says"), REFUSED)
def test_what_a_rule_cannot_take_is_refused_and_what_is_known_is_said(name, args, says, net):
    with pytest.raises(UsageError, match=says):
        make_method(name, net, **args)


def test_any_spelling_of_a_name_is_taken(net):
    assert make_method("State Bridge", net).name == "state_bridge"


def test_saved_feedback_that_does_not_fit_is_named(net):
    tensors = make_method("dfa", net).state_dict()
    lacking = {key: value for key, value in tensors.items() if key != "B_2"}
    wide = build("resmlp", input_dim=12, d=20, L=3, seed=0)
    for given, found, says in (
        (wide, tensors, r"size mismatch for B_0: .*\[10, 16\].*\[10, 20\]"),
        (net, lacking, r"Missing key.*B_2"),
        (net, {**tensors, "B_9": torch.zeros(1)}, r"Unexpected key.*B_9"),
        (net, {}, "was not saved"),
    ):
        with pytest.raises(MeasureError, match=says):
            restore_method("dfa", given, found)


def test_another_package_brings_a_method(monkeypatch, net):
    point = EntryPoint("zero", f"{__name__}:Zero", "fa_core.methods")
    found = {"fa_core.methods": [point]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.get(group, []))
    assert method_class("zero") is Zero
    loss, info = make_method("zero", net).loss(net, *batch(net))
    assert torch.equal(loss.detach(), info.ce)
