"""Methods by name, from this package and from others; saved and restored."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from fa_core import plugins
from fa_core.errors import MeasureError, UsageError
from fa_core.facts.controls import CONTROLS
from fa_core.methods import METHODS, Credit, Method, make_method, method_class, restore_method
from fa_core.methods.forward_only import ForwardOnly
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch

ALL = [
    name
    for name, rule in METHODS.items()
    if name not in CONTROLS and not issubclass(rule, ForwardOnly)
]


class Zero(Method):
    """A rule of another package."""

    name = "zero"

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        return [torch.zeros_like(h) for h in stream]


def bring(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, plugins.METHODS)
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        lambda group: [point] if group == plugins.METHODS else [],
    )


def steps(
    net: StreamNet,
    method: Method,
    x: Tensor,
    y: Tensor,
    count: int,
    optimizer: torch.optim.Optimizer,
) -> None:
    for _ in range(count):
        loss, info = method.loss(net, x, y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.extra_step(net, info)


@pytest.mark.parametrize("name", ALL)
def test_credit_from_what_was_saved_is_the_credit_of_the_trained_method(
    name: str, net: StreamNet, batch: Batch, tmp_path: Path
) -> None:
    x, y = batch(net, 16)
    method = make_method(name, net, seed=4)
    steps(net, method, x, y, 5, torch.optim.AdamW(net.parameters(), lr=1e-3))
    save_file(method.state_dict(), tmp_path / "credit.safetensors")
    restored = restore_method(name, net, load_file(tmp_path / "credit.safetensors"))
    logits, stream = net(x, return_hidden=True)
    pairs = zip(
        method.credit(net, stream, logits, y), restored.credit(net, stream, logits, y), strict=True
    )
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", ["state_bridge", "credit_bridge", "random_targets"])
def test_a_resumed_run_ends_in_the_weights_of_an_uninterrupted_one(name: str, batch: Batch) -> None:
    ended = []
    for interrupted in (False, True):
        net = build("resmlp", input_dim=12, d=16, L=2, seed=0)
        x, y = batch(net, 16)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        method = make_method(name, net, seed=4)
        steps(net, method, x, y, 3, optimizer)
        if interrupted:
            saved, state = method.state_dict(), method.training_state()
            method = restore_method(name, net, saved, seed=4)
            method.load_training_state(state)
        steps(net, method, x, y, 3, optimizer)
        ended.append({**net.state_dict(), **method.state_dict()})
    assert all(torch.equal(value, ended[1][key]) for key, value in ended[0].items())


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("credit_brige", {}, r"did you mean credit_bridge.*bp, fa, dfa, state_bridge"),
        ("ep", {"betta": 1}, r"did you mean beta.*eta"),
        ("dfa", {"beta": 1}, "dfa has no option 'beta'"),
        ("credit_bridge", {"variant": "stabel"}, r"did you mean stable.*published"),
        ("ep", {"estimator": "odd"}, "unknown estimator of ep 'odd'; known: "),
    ],
)
def test_an_unknown_name_or_option_lists_the_known(
    name: str, args: dict[str, object], says: str, net: StreamNet
) -> None:
    with pytest.raises(UsageError, match=says):
        make_method(name, net, **args)


def test_any_spelling_of_a_name_is_taken(net: StreamNet) -> None:
    assert make_method("State Bridge", net).name == "state_bridge"


def test_saved_feedback_that_does_not_fit_is_named(net: StreamNet) -> None:
    tensors = make_method("dfa", net).state_dict()
    lacking = {key: value for key, value in tensors.items() if key != "B_2"}
    wide = build("resmlp", input_dim=12, d=20, L=3, seed=0)
    for network, found, says in (
        (wide, tensors, r"B_0 has shape \(10, 16\); this network needs \(10, 20\)"),
        (net, lacking, "B_2 is missing"),
        (net, {**tensors, "B_9": torch.zeros(1)}, r"B_9.*no such tensor"),
        (net, {}, "was not saved"),
    ):
        with pytest.raises(MeasureError, match=says):
            restore_method("dfa", network, found)


def test_another_package_brings_a_method(
    monkeypatch: pytest.MonkeyPatch, net: StreamNet, batch: Batch
) -> None:
    bring(monkeypatch, "zero", f"{__name__}:Zero")
    assert method_class("zero") is Zero
    loss, info = make_method("zero", net).loss(net, *batch(net, 6))
    assert torch.equal(loss.detach(), info.ce)
