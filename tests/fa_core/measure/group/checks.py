"""Comparing a group with its members measured one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.group import Member, measure_together

Batches = list[tuple[Tensor, Tensor]]

NUMBERS = ("residual_norms", "bp_grad_norms", "cross_batch_stability", "error_norm")


def samples(shape: Sequence[int], k: int, size: int, classes: int = 4, seed: int = 0) -> Batches:
    """k batches of Gaussian inputs with random labels."""
    draw = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(size, *shape, generator=draw), torch.randint(classes, (size,), generator=draw))
        for _ in range(k)
    ]


def assert_same(
    member: Member, network: nn.Module, batches: Any, test: Any, rel: float = 1e-5, **options: Any
) -> None:
    """A member's numbers and everything its report carries are those of the ordinary path."""
    assert member.error is None, member.error
    assert member.diagnosis is not None
    chosen = {name: options[name] for name in ("taps", "dtype") if name in options}
    diagnosis = run_diagnosis(network, batches, **options)
    for given in ({}, {"headline_acc": 0.5, "frozen_baseline_acc": 0.4, "method_name": "DFA"}):
        ours, theirs = member.diagnosis.report(**given), diagnosis.report(**given)
        # differences of states err by a share of the states
        size = rel * max(filter(math.isfinite, theirs.residual_norms), default=1.0)
        blocks = pytest.approx(theirs.block_norms, rel=rel, abs=size, nan_ok=True)
        assert ours.block_norms == blocks
        assert ours.verdict == theirs.verdict
        found, expected = ours.to_dict(), theirs.to_dict()
        found.pop("block_norms", None)
        expected.pop("block_norms", None)
        mean_errors = found.pop("mean_error", {}), expected.pop("mean_error", {})
        assert mean_errors[0] == pytest.approx(mean_errors[1], rel=100 * rel, abs=100 * rel)
        for name in NUMBERS:
            assert found.pop(name) == pytest.approx(
                expected.pop(name), rel=rel, abs=1e-300, nan_ok=True
            ), name
        mine, other = found.pop("intervals", {}), expected.pop("intervals", {})
        assert mine.keys() == other.keys()
        for name, ends in mine.items():
            # a bound of an interval is a sample's norm or follows from a spread, whose digits cancel
            assert ends == pytest.approx(other[name], rel=100 * rel, abs=100 * rel, nan_ok=True), (
                name
            )
        assert found == expected
    assert member.acc == accuracy(network, test, **chosen)
    ours, theirs = member.diagnosis.samples(), diagnosis.samples()
    for name in ("residual_norms", "bp_grad_norms", "error_norms"):
        torch.testing.assert_close(
            getattr(ours, name), getattr(theirs, name), rtol=rel, atol=1e-6, equal_nan=True
        )
    # two vectors that are each ε off have a cosine that is 2ε off, of 1 and not of itself
    torch.testing.assert_close(
        ours.drift_cosines, theirs.drift_cosines, rtol=0, atol=2 * rel, equal_nan=True
    )
    assert all(map(torch.equal, ours.right, theirs.right))


def assert_all_same(
    networks: Sequence[nn.Module], batches: Any, test: Any, rel: float = 1e-5, **options: Any
) -> None:
    """Every member of a group equals itself measured alone."""
    members = measure_together(networks, batches, test, **options)
    assert len(members) == len(networks)
    for member, network in zip(members, networks, strict=True):
        assert_same(member, network, batches, test, rel, **options)


def bits(member: Member) -> tuple[Any, ...]:
    """Everything a member's numbers hold, to the last bit."""
    assert member.diagnosis is not None
    report, found = member.diagnosis.report(), member.diagnosis.samples()
    tensors = [
        *found.residual_norms,
        *found.bp_grad_norms,
        *found.error_norms,
        *found.right,
        found.drift_cosines,
    ]
    return member.acc, repr(report.to_dict()), [tensor.numpy().tobytes() for tensor in tensors]
