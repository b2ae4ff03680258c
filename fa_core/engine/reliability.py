"""How firm a run's numbers are, where that was asked for; where it cannot be told, the reason."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace
from torch import Tensor, nn

from fa_core.engine.jobs import MeasureOptions
from fa_core.engine.memory import halving
from fa_core.errors import FaError
from fa_core.measure import bootstrap, reference_precision
from fa_core.measure.measured import Diagnosed
from fa_core.report import DiagnosticReport

UNMEASURED = "reference_precision"
"""Where a report's ``unmeasured`` says why there is no reference precision."""


def with_reliability(
    report: DiagnosticReport,
    diagnosis: Diagnosed,
    network: nn.Module,
    batch: tuple[Tensor, Tensor],
    options: MeasureOptions,
    counted_on: int,
    note: Callable[[str], None],
) -> DiagnosticReport:
    """The report with its resamples and its gradients' distance from float64, as far as the options ask for them.

    Args:
        report: of `diagnosis`.
        diagnosis: what was measured, batch by batch.
        network: on its device.
        batch: (x, y) on the same device: the first eval batch, which (a) and (b) are measured on.
        options: what is asked for.
        counted_on: how many samples the report's accuracy was counted on.
        note: told where memory makes passes smaller.
    """
    if options.resamples:
        drawn = bootstrap(diagnosis.samples(), report, options.resamples, counted_on=counted_on)
        report = replace(report, resampling=drawn)
    if not options.precision:
        return report
    try:
        found = halving(
            lambda largest: reference_precision(network, batch, options.taps or None, options.dtype, largest),
            len(batch[1]),
            note,
        )
    except FaError as error:
        return replace(report, unmeasured={**report.unmeasured, UNMEASURED: str(error)})
    return replace(report, reference_precision=found)
