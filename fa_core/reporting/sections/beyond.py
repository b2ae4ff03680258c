"""What stands beside the verdict: the margin to flip, the backward gain, and why (b) fired."""

from __future__ import annotations

from collections.abc import Iterator

from fa_core.analysis.groups import run_names
from fa_core.analysis.margins import Margin, margins_to_flip
from fa_core.gain import backward_gain, cause_of_floor
from fa_core.report import ASSUMED, DiagnosticReport, DiagnosticThresholds
from fa_core.reporting.blocks import Block, Grid
from fa_core.reporting.numbers import MISSING, brief, significant
from fa_core.reporting.sections.runs import ROWS_AT_MOST
from fa_core.table import AuditTable


def beyond_table(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Per run: how far each diagnostic is from flipping, γ_L, the output error, and the cause of a fired (b)."""
    names = run_names(table)
    shown = range(min(len(table), ROWS_AT_MOST))
    yield Grid(
        headings=("run", "(a) room", "(b) room", "(c) room", "(d) room", "γ_L", "‖e_T‖", "(b) fired because"),
        rows=tuple(
            (
                names[i],
                *(_told(report, margin) for margin in margins_to_flip(table, i, thresholds).margins),
                *_gain(report.with_thresholds(thresholds)),
            )
            for i, report in ((i, table.report(i)) for i in shown)
        ),
        caption="Margin to flip: how far each number is from its threshold (+: passes with this room, −: fires by it; "
        "(a) and (b) as a factor). γ_L: backward gain at the deepest layer, ‖g_L‖·B/‖e_T‖; ‖e_T‖: median output error."
        + (" ?: by an assumed frozen baseline." if table.assumed[: len(shown)].any() else ""),
    )


def _told(report: DiagnosticReport, margin: Margin) -> str:
    text = _room(margin)
    return f"{text}?" if margin.value is not None and report.kinds.get(margin.letter) == ASSUMED else text


def _room(margin: Margin) -> str:
    if margin.room is None:
        return "fires always" if margin.fires else MISSING
    sign = "−" if margin.fires else "+"
    if margin.factor is not None:
        return f"{sign}{brief(margin.factor, 3)}x"
    return f"{sign}{brief(abs(margin.room), 3)}{' pp' if margin.unit == 'pp' else ''}"


def _gain(report: DiagnosticReport) -> tuple[str, str, str]:
    gains = backward_gain(report)
    return (
        significant(gains[-1] if gains else None, 3),
        significant(report.error_norm, 3),
        cause_of_floor(report) or "–",
    )
