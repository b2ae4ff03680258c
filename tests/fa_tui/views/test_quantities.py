"""Quantities and recorded verdicts of a session are those of the reports."""

from __future__ import annotations

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.quantities import BY_NAME
from fa_tui.session import Session, with_rows
from fa_tui.settings import Quantity
from fa_tui.views.columns import CELLS, value_of
from fa_tui.views.filters import meant
from tests.fa_core.strategies import audit_rows


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(audit_rows(), min_size=1, max_size=4),
    recorded=st.sampled_from(
        [
            None,
            "trustworthy",
            "not measured",
            "walk-back: (a)",
            "walk-back: (a), (d)",
            "???",
            "needs walk-back: residual stream exploded",
        ]
    ),
)
def test_a_recorded_verdict_differs_as_the_report_says(
    rows: list[AuditRow], recorded: str | None
) -> None:
    rows = [replace(row, report=replace(row.report, recorded_verdict=recorded)) for row in rows]
    session = Session(rows)
    for index, row in enumerate(rows):
        assert session.rows[index].report.recorded_verdict == recorded
        assert session.judged(index).recorded_differs == (
            recorded != row.report.verdict and row.report.recorded_differs
        )


def run(*norms: float) -> AuditRow:
    return AuditRow(
        source="", key=str(norms), method="bp", report=DiagnosticReport(residual_norms=list(norms))
    )


def test_a_row_measured_anew_shows_its_new_number() -> None:
    session = Session([run(1.0, 2.0), run(1.0, 3.0)])
    assert value_of(BY_NAME["h_L"], session, 1) == 3.0
    session = with_rows(session, {1: run(1.0, 4.0)})
    assert value_of(BY_NAME["h_L"], session, 1) == 4.0


def test_the_matrix_can_begin_with_every_quantity_and_with_their_older_names() -> None:
    names = {*get_args(Quantity)} - {"letters", "stability"}
    assert names == {*CELLS} - {"null"}
    typed = {"accuracy": "acc", "‖g_L‖": "g_L", "stability": "drift", "c": "drift", "Γ": "gamma"}
    assert {name: meant(name, names) for name in typed} == typed
