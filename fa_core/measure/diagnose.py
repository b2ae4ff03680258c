"""`diagnose`: the four diagnostics of one network, from one fused pass per eval batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from msgspec import structs
from torch import Tensor, nn

from fa_core.errors import FaError, UsageError
from fa_core.files.decode import without
from fa_core.measure.accumulator import Accumulator
from fa_core.measure.batch_input import BatchLog, Progress, as_batches, label_note, to_device
from fa_core.measure.credit import credit_quality
from fa_core.measure.gradients import microbatches
from fa_core.measure.hooks import LogitsChoice, choosing_logits, plain_logits
from fa_core.measure.isolate import DREW, Device, eval_mode, is_built_in, to_float64
from fa_core.measure.loss import CE, AccuracyMeter, Loss, LossChoice
from fa_core.measure.norms import PER_TOKEN
from fa_core.measure.passes import (
    DEFAULTS,
    CreditFunction,
    PassOptions,
    PassRunner,
    as_pass_failed,
    check_logits,
)
from fa_core.measure.reference_precision import reference_precision
from fa_core.measure.taps import Tapped, Taps, resolve_taps
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.intervals import share_interval
from fa_core.report.provenance import LOSS, ReferencePrecision
from fa_core.report.report_facts import DiagnosticThresholds, as_float

WRITES = "the forward changes the network's weights: its numbers are of what it leaves there"
"""Said of a network with such a forward."""


@dataclass(frozen=True)
class Diagnosis:
    """The numbers of one network.

    Attributes:
        numbers: its report without the accuracy and the fields the caller gives.
        right: for every batch, (B,) bool: which labels are predicted correctly.
        notes: notes on the measurement.
        first_batch: the first batch as it was given.
        loss: the loss, as the first batch decided it.
    """

    numbers: DiagnosticReport
    right: Sequence[Tensor]
    notes: Sequence[str]
    first_batch: object
    loss: Loss

    def report(self, headline_acc: float | None = None, notes: str = "") -> DiagnosticReport:
        """The report: the measured numbers with an accuracy and notes, as for `diagnose`."""
        intervals = self.numbers.intervals
        source = "given"
        if headline_acc is None:
            right = torch.cat(list(self.right))
            hits = int(right.sum())
            headline_acc = hits / len(right)
            source = f"measured on {len(right)} eval labels"
            # the tokens of a sample are no independent draws
            if self.numbers.flatten != PER_TOKEN:
                source = f"measured on {len(right)} eval samples"
                intervals = {**intervals, "acc": share_interval(hits, len(right))}
        return structs.replace(
            self.numbers,
            headline_acc=headline_acc,
            headline_acc_source=source,
            notes="; ".join(filter(None, [notes, *self.notes])),
            intervals=intervals,
        )


def diagnose(  # noqa: PLR0913 (the contract of the library)
    model: nn.Module,
    eval_batches: Iterable[object],
    headline_acc: float | None = None,
    frozen_baseline_acc: float | None = None,
    method_name: str = "",
    notes: str = "",
    thresholds: DiagnosticThresholds | None = None,
    taps: Taps = None,
    device: Device = None,
    stability_layer: int | None = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    on_batch: Progress | None = None,
    largest_pass: int | None = None,
    precision: bool | None = None,
    logits: LogitsChoice = None,
    loss: LossChoice = "ce",
    credit: CreditFunction | None = None,
) -> DiagnosticReport:
    """Measure the four diagnostics of a network.

    One forward and one backward pass per batch, to the activations only, give
        (a) median_i ‖h_l,i‖₂ and (b) median_i ‖g_l,i‖₂, l = 0..L, over the first `norm_batches`,
        (c) the mean pairwise cosine of the batch-mean gradients at one layer, over all K batches,
        the accuracy over all batches, and median_i ‖e_T,i‖₂ over those of (a).

    Args:
        model: any network whose stream can be tapped. Its modes, parameters, buffers and gradients
            are as before afterwards; what its forward stores elsewhere stays.
        eval_batches: (x, y) pairs, or mappings of ``labels`` and the network's keyword arguments,
            in a list, a DataLoader or any iterable. (c) needs 8 or more disjoint batches of 128
            samples. Labels are (B,) class indices, or (B, T), one per token, -100 for ignored
            tokens (see `fa_core.measure.batch_input.to_device`).
        headline_acc: the accuracy claimed, a fraction; None = measured on the eval batches and
            marked so.
        frozen_baseline_acc: the accuracy with blocks frozen at init; None leaves (d) unmeasured.
        method_name: for the report.
        notes: for the report.
        thresholds: thresholds of the verdict; None = the defaults.
        taps: where the states are read. None = ``model(x, return_hidden=True)`` if the network has
            it, else a guess, given in the notes and the provenance. Patterns name modules by their
            outputs, ``["embed", "blocks.*"]``, or with ``:in`` by their inputs, ``["blocks.*:in",
            "head:in"]``, for a network that adds ``h + block(h)`` itself. A function is called as
            (model, x) -> (logits, [h_0..h_L]).
        device: where to measure; None = the network's device.
        stability_layer: the layer of (c); None = L//2.
        norm_batches: number of batches whose samples (a) and (b) pool.
        dtype: None = float32 for half-precision networks, and no change for others; or
            ``"float32"``, ``"float64"``, ``"as-is"``.
        on_batch: called with (done, total) after every batch.
        largest_pass: samples per forward and backward pass, if a whole batch does not fit into
            memory; the numbers stay the same.
        precision: whether to compare the first batch's gradients with float64 ones
            (`reference_precision`); None = where (b) fires.
        credit: the method's credit signal, where no backward pass of the network has it: a function
            (model, x, y) -> [a_0..a_L] of one batch, each shaped like h_l, per sample (no 1/B),
            None for a layer without. The report's ``credit`` is then that of `credit_quality`.
        logits: where the network's output has the logits: a place in a tuple, a key or attribute,
            or a function of the output; None = a tensor, ``.logits``, ``["logits"]`` or the first
            item.
        loss: whose gradients, errors and credit are measured: ``"ce"`` of logits, ``"bce"`` of
            logits or probabilities, ``"mse"``, the last two with one-hot targets, or a function
            (outputs (B, C), labels (B,)) -> losses per sample (B,); see `fa_core.measure.loss`.
            Accuracy is the argmax of the outputs in any case.

    Returns:
        A report; norms in the stream's unit and in the loss's per that unit, for CE nats (with the
        batch mean's 1/B).

    Raises:
        TapError: the stream cannot be tapped.
        MeasureError: data that do not fit the network, no data, or the same samples in two batches.
        UsageError: an invalid argument.

    Source: docs/protocol.md §3.

    >>> class Doubling(nn.Module):
    ...     def forward(self, x, return_hidden=False):
    ...         h = x + x
    ...         return (3 * h, [x, h]) if return_hidden else 3 * h
    >>> report = diagnose(Doubling(), [(torch.eye(2), torch.tensor([0, 1]))])
    >>> report.residual_norms, report.headline_acc, report.coverage
    ([1.0, 2.0], 1.0, 'ab')
    """
    check_accuracies(headline_acc=headline_acc, frozen_baseline_acc=frozen_baseline_acc)
    if logits is not None and callable(taps):
        raise UsageError("taps is a function, which returns the logits", hint="leave logits out")
    with choosing_logits(model, logits):
        how = PassOptions(
            taps,
            device,
            stability_layer,
            norm_batches,
            dtype,
            largest_pass,
            credit,
            loss=of_logits(loss, logits),
        )
        diagnosis = run_diagnosis(model, eval_batches, how, on_batch)
        report = structs.replace(
            diagnosis.report(headline_acc, notes),
            frozen_baseline_acc=frozen_baseline_acc,
            method_name=method_name,
            thresholds=thresholds or DiagnosticThresholds(),
        )
        how = replace(how, loss=diagnosis.loss)
        measure = partial(reference_precision, model, diagnosis.first_batch, how)
        return with_precision(report, precision, measure)


def of_logits(loss: LossChoice, logits: LogitsChoice) -> LossChoice:
    """The loss to measure: logits that the caller named are not taken for probabilities."""
    if loss == "ce" and logits is not None:
        return CE
    return loss


def with_precision(
    report: DiagnosticReport, asked: bool | None, measure: Callable[[], ReferencePrecision]
) -> DiagnosticReport:
    """The report with its reference precision, or the reason why there is none, where that was
    asked for; None: where (b)'s finite number is below the floor."""
    norms = report.bp_grad_norms
    if asked is None and norms and all(map(math.isfinite, norms)):
        asked = DIAGNOSTICS["b"].fires(norms[-1], report.thresholds)
    if not asked:
        return report
    return measured_as("reference_precision", report, measure)


def measured_as(
    name: str, report: DiagnosticReport, measure: Callable[[], object]
) -> DiagnosticReport:
    """The report with what is measured as the field of a name; with why not, if that fails."""
    try:
        found = measure()
    except FaError as error:
        return structs.replace(report, unmeasured={**report.unmeasured, name: str(error)})
    return structs.replace(report, **{name: found})


def run_diagnosis(
    model: nn.Module,
    eval_batches: Iterable[object],
    how: PassOptions = DEFAULTS,
    on_batch: Progress | None = None,
) -> Diagnosis:
    """Measure every batch: `diagnose` without the report.

    Args:
        model: as for `diagnose`.
        eval_batches: as for `diagnose`.
        how: the options.
        on_batch: as for `diagnose`.
    """
    how.check()
    batches = as_batches(eval_batches)
    with eval_mode(model, how.dtype, how.device) as net:
        taps_found = resolve_taps(net.model, how.taps)
        runner = PassRunner(taps_found, net.model, how.loss)
        accumulator = Accumulator(how)
        meter = AccuracyMeter(net, taps_found.logits)
        log = BatchLog()
        first_batch: object = None
        values = _values(net.model)
        with net.rng.isolated_over(batches):
            for index, batch in enumerate(batches):
                if index == 0:
                    first_batch = batch
                x, y = to_device(batch, index, net)
                where = f"eval batch {index}"
                # before the pass, which reads the same samples next
                log.add(x, y)
                layers, mean_error_at = accumulator.layers, accumulator.mean_error_at
                run = partial(runner.run, layers=layers, where=where, mean_error_at=mean_error_at)
                with net.rng.isolated():
                    done = microbatches(run, x, y, how.largest_pass)
                    accumulator.add(done, where)
                    meter.update(x, y, done.logits)
                if on_batch is not None:
                    on_batch(index + 1, len(batches))
                if not accumulator.takes_more:
                    break
            runner.prove_by_trial()
            compared = runner.compared() if callable(how.taps) else ""
        numbers, notes = accumulator.measured()
        notes += [log.note(), DREW * (net.rng.noticed or runner.drew)]
        wrote = WRITES * (_values(net.model) != values)
        notes += [label_note(batch, y, net.model), runner.loss.note, compared, wrote]
        if runner.loss.name != CE.name:
            numbers.provenance[LOSS] = runner.loss.name
        numbers = _with_stream(numbers, notes, runner, taps_found, net.model)
        numbers = _with_credit(numbers, net.model, first_batch, replace(how, loss=runner.loss))
        notes.append((numbers.credit or {}).get("note", ""))
        return Diagnosis(numbers, meter.right, notes, first_batch, runner.loss)


def _values(model: nn.Module) -> list[str]:
    """A sum over the entries of each parameter, and their norm; a forward may write into them."""
    parameters = [] if is_built_in(model) else model.parameters()
    own = (to_float64(p) for p in parameters if p.layout == torch.strided)
    # texts: NaN differs from itself
    return [f"{float(p.sum())!r} {float(p.norm())!r}" for p in own]


def run_accuracy(
    model: nn.Module,
    batches: Iterable[object],
    dtype: str | None = None,
    on_batch: Progress | None = None,
) -> list[Tensor]:
    """Which samples are classified correctly, (B,) bool per batch: `accuracy` before the division.

    Args:
        model: the network, which is left as `diagnose` leaves it.
        batches: (x, y) pairs.
        dtype: as for `diagnose`.
        on_batch: called with (done, total) after every batch.

    Raises:
        MeasureError: batches that cannot be used.
    """
    batches = as_batches(batches)
    with eval_mode(model, dtype) as net, net.rng.isolated_over(batches):
        meter = AccuracyMeter(net, plain_logits)
        for index, batch in enumerate(batches):
            where = f"eval batch {index}"
            x, y = to_device(batch, index, net)
            with net.rng.isolated():
                with as_pass_failed(x, where):
                    logits = plain_logits(net.model, x)
                check_logits(logits, y, where)
                meter.update(x, y, logits)
            if on_batch is not None:
                on_batch(index + 1, len(batches))
        return meter.right


def _with_credit(
    numbers: DiagnosticReport, model: nn.Module, batch: object, how: PassOptions
) -> DiagnosticReport:
    """The report with the quality of the caller's credit on the first batch."""
    if how.credit is None:
        return numbers
    found = credit_quality(model, how.credit, batch, how, directions=0)
    unmeasured = without(numbers.unmeasured, "gamma")
    return structs.replace(numbers, credit=found, unmeasured=unmeasured)


def _with_stream(
    numbers: DiagnosticReport,
    notes: list[str],
    runner: PassRunner,
    taps: Tapped,
    model: nn.Module,
) -> DiagnosticReport:
    """The report and its notes with what was guessed and proven of the stream."""
    assert runner.proof is not None, "the first batch proves the stream"
    if taps.guess:
        numbers.provenance["guessed_taps"] = list(taps.guess)
        notes.append(f"taps guessed: '{','.join(taps.guess)}'")
    # the zoo's tests say what its networks return
    if not is_built_in(model):
        notes.append(runner.proof.note)
    return structs.replace(numbers, partial_stream=runner.proof.left_out)


def check_accuracies(**accuracies: float | None) -> None:
    """Refuse accuracies that are no fractions; names are used in the message.

    Raises:
        UsageError: an accuracy outside [0, 1].
    """
    for name, acc in accuracies.items():
        if acc is None:
            continue
        number = as_float(acc, name)
        if math.isfinite(number) and not 0.0 <= number <= 1.0:
            raise UsageError(f"{name} is {number}", hint="accuracies are fractions in [0, 1]")
