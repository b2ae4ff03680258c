"""`diagnose`: the four diagnostics of one network from one fused pass per eval batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from fa_core.errors import UsageError
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.measure.accumulator import Accumulator
from fa_core.measure.accuracy import AccuracyMeter, Progress
from fa_core.measure.batch_input import as_batches, predicts_next, to_device
from fa_core.measure.batches import BatchLog
from fa_core.measure.diagnosed import Diagnosed
from fa_core.measure.isolate import DREW, eval_mode
from fa_core.measure.microbatches import microbatches
from fa_core.measure.passes import PassRunner
from fa_core.measure.resolve import GuessedTaps, guess_note, resolve_taps
from fa_core.measure.taps import Taps
from fa_core.numbers import as_float
from fa_core.report import DiagnosticReport


def diagnose(  # noqa: PLR0913 (the contract of the library)
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float | None = None,
    frozen_baseline_acc: float | None = None,
    method_name: str = "",
    notes: str = "",
    thresholds: DiagnosticThresholds | None = None,
    taps: Taps = None,
    device: str | torch.device | None = None,
    stability_layer: int | None = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    on_batch: Progress | None = None,
    largest_pass: int | None = None,
) -> DiagnosticReport:
    """Measure the four diagnostics of a network.

    One forward and one backward pass per batch, to the activations only, give
        (a) median_i ‖h_l,i‖₂ and (b) median_i ‖g_l,i‖₂, l = 0..L, over the first `norm_batches`,
        (c) the mean pairwise cosine of the batch-mean gradients at one layer, over all K batches,
        the accuracy over all batches, and median_i ‖e_T,i‖₂ over those of (a).

    Args:
        model: any network whose stream can be tapped. It comes back as it went in.
        eval_batches: (x, y) pairs, or mappings of ``labels`` and what the network is called with by
            name, in a list, a DataLoader or any iterable; (c) needs 8 or more, disjoint, of 128
            samples. Labels are (B,) class indices, or (B, T), one per token, -100 where none counts
            (see `fa_core.measure.batch_input.to_device`).
        headline_acc: the accuracy claimed, a fraction; None = measured on the eval batches and
            marked so.
        frozen_baseline_acc: the accuracy with blocks frozen at init; None leaves (d) unmeasured.
        method_name: for the report.
        notes: for the report.
        thresholds: what the verdict is judged by; None = the defaults.
        taps: None = ``model(x, return_hidden=True)``, or, where it has none, a guess that the notes
            and the provenance say; patterns of modules whose outputs are the states, ``["embed",
            "blocks.*"]``, or, with ``:in``, whose inputs are: ``["blocks.*:in", "head:in"]`` where
            the network adds ``h + block(h)`` itself; or a function (model, x) -> (logits,
            [h_0..h_L]).
        device: where to measure; None = where the network is.
        stability_layer: where (c) is measured; None = L//2.
        norm_batches: how many batches (a) and (b) pool their samples from.
        dtype: None = float32 for half-precision networks, others as they are; or ``"float32"``,
            ``"float64"``, ``"as-is"``.
        on_batch: called with (done, total) after every batch.
        largest_pass: samples per forward and backward pass, where a whole batch does not fit into
            memory; the numbers stay the same.

    Returns:
        A report; norms in the stream's unit and in nats per that unit (with CE's 1/B).

    Raises:
        TapError: the stream cannot be tapped.
        MeasureError: data that do not fit the network, no data, or the same samples in two batches.
        UsageError: an argument that cannot be meant.

    Source: docs/protocol.md §3; README, "From Python".

    >>> class Doubling(nn.Module):
    ...     def forward(self, x, return_hidden=False):
    ...         h = x + x
    ...         return (h, [x, h]) if return_hidden else h
    >>> report = diagnose(Doubling(), [(torch.eye(2), torch.tensor([0, 1]))])
    >>> report.residual_norms, report.headline_acc, report.coverage
    ([1.0, 2.0], 1.0, 'ab')
    """
    check_accuracies(headline_acc=headline_acc, frozen_baseline_acc=frozen_baseline_acc)
    return run_diagnosis(
        model,
        eval_batches,
        taps,
        device,
        stability_layer,
        norm_batches,
        dtype,
        on_batch,
        largest_pass,
    ).report(
        headline_acc=headline_acc,
        frozen_baseline_acc=frozen_baseline_acc,
        method_name=method_name,
        notes=notes,
        thresholds=thresholds or DiagnosticThresholds(),
    )


def residual_norms(model: nn.Module, eval_batches: Iterable[Any], **options: Any) -> list[float]:
    """(a)'s numbers alone: the median over samples of ‖h_l‖₂, l = 0..L. Arguments, errors and
    source: `diagnose`."""
    return diagnose(model, eval_batches, **options).residual_norms


def bp_gradient_norms(model: nn.Module, eval_batches: Iterable[Any], **options: Any) -> list[float]:
    """(b)'s numbers alone: the median over samples of ‖g_l‖₂, l = 0..L, with CE's 1/B. The rest as
    for `diagnose`."""
    return diagnose(model, eval_batches, **options).bp_grad_norms


def cross_batch_stability(
    model: nn.Module, eval_batches: Iterable[Any], **options: Any
) -> float | None:
    """(c)'s number alone, a mean cosine in [-1, 1]; None where `diagnose` would not measure it. The
    rest as there."""
    return diagnose(model, eval_batches, **options).cross_batch_stability


def depth_utility(
    model: nn.Module, eval_batches: Iterable[Any], frozen_baseline_acc: float, **options: Any
) -> float | None:
    """(d)'s number alone: the margin over frozen blocks, in percentage points. The rest as for
    `diagnose`."""
    return diagnose(
        model, eval_batches, frozen_baseline_acc=frozen_baseline_acc, **options
    ).margin_pp


def run_diagnosis(
    model: nn.Module,
    eval_batches: Iterable[Any],
    taps: Taps = None,
    device: str | torch.device | None = None,
    stability_layer: int | None = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    on_batch: Progress | None = None,
    largest_pass: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Diagnosed:
    """Measure every batch and keep what was measured: `diagnose` without the report.

    Arguments as there; `say` is called with taps that were guessed.
    """
    if norm_batches < 1:
        raise UsageError(
            f"norm_batches is {norm_batches}", hint="at least one batch gives the norms"
        )
    if largest_pass is not None and largest_pass < 1:
        raise UsageError(f"largest_pass is {largest_pass}", hint="a pass needs at least one sample")
    batches = as_batches(eval_batches)
    with eval_mode(model, dtype, device) as net:
        taps_found = resolve_taps(net.model, taps, say)
        runner = PassRunner(taps_found, net.model)
        accumulator = Accumulator(stability_layer, norm_batches)
        meter, log = AccuracyMeter(net, taps_found.logits), BatchLog()
        with net.rng.isolated_over(batches):
            for index, batch in enumerate(batches):
                x, y = to_device(batch, index, net)
                where = f"eval batch {index}"
                # before the pass, which reads the samples next
                log.add(x, y)
                with net.rng.isolated():
                    run = partial(runner.run, layers=accumulator.layers, where=where)
                    done = microbatches(run, x, y, largest_pass)
                    accumulator.add(done, where)
                    meter.update(x, y, done.logits)
                if on_batch is not None:
                    on_batch(index + 1, len(batches))
        moved = isinstance(batch, Mapping) and y.dim() == 2 and predicts_next(net.model)
        drew = DREW if net.rng.noticed else ""
        remarks = [log.judged(), drew, SHIFTED if moved else "", runner.remark]
        if isinstance(taps_found, GuessedTaps):
            accumulator.facts["guessed_taps"] = list(taps_found.taps)
            remarks.append(guess_note(taps_found.taps))
        found = accumulator.measured([right[None] for right in meter.right])[0]
        return replace(found, remarks=[*found.remarks, *remarks])


SHIFTED = "labels are of the tokens themselves: position t is judged by the label of t + 1"
"""What a report of a language model says, where the batches are mappings."""


def check_accuracies(**accuracies: float | None) -> None:
    """Refuse an accuracy that is no fraction, by name.

    Raises:
        UsageError: an accuracy outside [0, 1].
    """
    for name, acc in accuracies.items():
        if acc is None:
            number = math.nan
        else:
            number = as_float(acc, name)
        if math.isfinite(number) and not 0.0 <= number <= 1.0:
            raise UsageError(f"{name} is {number}", hint="accuracies are fractions in [0, 1]")
