"""What one epoch leaves in the trace."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fa_core.data import DataSet
from fa_core.measure.accuracy import accuracy
from fa_core.measure.alignment import gamma
from fa_core.measure.borrow import borrow
from fa_core.measure.diagnose import diagnose
from fa_core.measure.fused import fused_pass
from fa_core.measure.method_credit import credit_in_float64
from fa_core.measure.per_sample import choose_flatten, vectors
from fa_core.measure.taps import resolve_taps
from fa_core.methods import Method
from fa_core.models import StreamNet
from fa_core.report import DiagnosticReport

TEST_BATCH = 1000
"""Samples per forward pass when only the accuracy is wanted."""

Batches = list[tuple[Tensor, Tensor]]


def accuracy_on_test_part(net: StreamNet, data: DataSet) -> float:
    """Accuracy on the whole test part, a fraction."""
    parts = -(-len(data.test_y) // TEST_BATCH)
    return accuracy(net, list(zip(data.test_x.chunk(parts), data.test_y.chunk(parts), strict=True)))


def measure_epoch(net: StreamNet, data: DataSet, batches: Batches, **given: Any) -> DiagnosticReport:
    """The four diagnostics on the evaluation batches, with the accuracy on the whole test part."""
    return diagnose(net, batches, headline_acc=accuracy_on_test_part(net, data), **given)


def alignment(net: StreamNet, method: Method, x: Tensor, y: Tensor) -> list[float | None]:
    """Γ_l of one batch, l = 0..L, from float64 copies of network and method (see `gamma`).

    Args:
        net: the network.
        method: gives a_l.
        x: inputs (B, ...).
        y: labels (B,).

    Source: PROTOCOL §4.
    """
    credit = credit_in_float64(net, method, x, y)
    with borrow(net, "float64") as borrowed:
        x, y = x.to(borrowed.device, torch.float64), y.to(borrowed.device)
        done = fused_pass(resolve_taps(borrowed.model), borrowed.model, x, y)
    flatten = choose_flatten(done.hidden, done.gradients[-1])
    pairs = zip(credit, done.gradients, strict=True)
    return [gamma(None if a is None else vectors(a, flatten), vectors(g, flatten)) for a, g in pairs]
