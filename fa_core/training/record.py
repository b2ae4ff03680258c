"""What one epoch leaves in the trace."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.data import DataSet
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
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
    """Γ_l = mean over samples of cos(a_l, g_l) on one batch, in float64, without any clamp.

    Args:
        net: the network.
        method: gives a_l.
        x: inputs (B, ...).
        y: labels (B,).

    Returns:
        One cosine per layer, l = 0..L; None where there is no credit or where a norm is 0 or not finite.

    Source: PROTOCOL §4.
    """
    was_training = net.training
    net.eval()
    try:
        device = next(net.parameters()).device
        x, y = x.to(device), y.to(device)
        with torch.enable_grad():
            logits, stream = net(x, return_hidden=True)
            gradients = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), stream, allow_unused=True)
        credit = method.credit(net, [h.detach() for h in stream], logits.detach(), y)
        return [_mean_cosine(a, g) for a, g in zip(credit, gradients, strict=True)]
    finally:
        net.train(was_training)


def _mean_cosine(a: Tensor | None, g: Tensor | None) -> float | None:
    if a is None or g is None:
        return None
    a, g = a.detach().double().flatten(1), g.detach().double().flatten(1)
    norms = a.norm(dim=1) * g.norm(dim=1)
    if not bool((norms > 0).all()) or not bool(torch.isfinite(norms).all()):
        return None
    return float(((a * g).sum(1) / norms).mean())


def trace_entry(
    epoch: int, loss: float, report: DiagnosticReport, gamma: list[float | None] | None, lr: float, seconds: float
) -> dict[str, Any]:
    """One line of ``trace.jsonl``.

    Args:
        epoch: 1, 2, ...
        loss: mean cross entropy over the epoch's steps.
        report: measured after it.
        gamma: Γ_l per layer.
        lr: learning rate of its last step.
        seconds: training and measuring.
    """
    return {
        "epoch": epoch,
        "loss": loss,
        "test_acc": report.headline_acc,
        "residual_norms": report.residual_norms,
        "bp_grad_norms": report.bp_grad_norms,
        "cross_batch_stability": report.cross_batch_stability,
        "gamma": gamma,
        "error_norm": report.error_norm,
        "lr": lr,
        "seconds": round(seconds, 4),
    }
