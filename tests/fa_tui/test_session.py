"""The explorer's state: what a threshold changes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from fa_core.formats import scan
from fa_core.report import DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui import session as session_module
from fa_tui.session import Session, letters_of
from fa_tui.shell.options import FrozenBaseline
from fa_tui.views.overview import flip_text

EP_123, EP_456 = "ep_s123", "ep_s456"


def by_key(session: Session) -> dict[str, int]:
    return {row.key: index for index, row in enumerate(session.rows)}


def test_published_table_opens_with_nine_walk_backs(session: Session) -> None:
    assert session.walk_backs() == 9
    assert session.measured() == len(session) == 15


def test_lowering_a_to_five_flips_exactly_the_two_ep_seeds_above_it(session: Session) -> None:
    flips = session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0))
    assert {session.rows[flip.row].key for flip in flips} == {EP_123, EP_456}
    assert all((letters_of(flip.before), letters_of(flip.after)) == ("", "a") for flip in flips)
    assert session.walk_backs() == 11


def test_going_back_flips_the_same_runs_back(session: Session) -> None:
    there = session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0))
    back = session.set_thresholds(DiagnosticThresholds())
    assert [(flip.row, flip.after, flip.before) for flip in there] == list(map(tuple, back))


def test_same_thresholds_change_nothing(session: Session) -> None:
    assert session.set_thresholds(DiagnosticThresholds()) == []


@pytest.mark.parametrize("ratio", [0.5, 5.0, 700.0, 1e9])
def test_columns_and_single_reports_judge_alike(
    session: Session, ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds = DiagnosticThresholds(h_norm_explosion_ratio=ratio, g_norm_floor=1e-4, stability_drift_ceiling=0.1)
    session.set_thresholds(thresholds)
    monkeypatch.setattr(session_module, "SCALAR_LIMIT", 0)
    by_columns = Session(session.rows, thresholds=thresholds)
    assert (list(by_columns.flags), list(by_columns.coverage)) == (list(session.flags), list(session.coverage))
    for letter in "abcd":
        assert by_columns.values(letter) == pytest.approx(session.values(letter))


def test_frozen_baseline_fires_d_on_every_ep_seed_and_no_bp(published_rows: Iterable[AuditRow]) -> None:
    session = Session(published_rows, baseline=FrozenBaseline(0.349))
    fired = {row.key for index, row in enumerate(session.rows) if "d" in letters_of(session.flags[index])}
    assert {key for key in fired if key.startswith(("bp", "ep"))} == {"ep_s42", EP_123, EP_456}


def test_a_measured_row_takes_the_place_of_the_old_one(session: Session) -> None:
    row = msgspec.structs.replace(session.rows[0], report=DiagnosticReport(residual_norms=[1.0, 1000.0]))
    session.replace_rows({0: row})
    assert (letters_of(session.flags[0]), letters_of(session.coverage[0])) == ("a", "a")


def test_flips_are_told_in_words_and_the_rest_counted(session: Session) -> None:
    flips = session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=0.5))
    assert flip_text(session, flips, limit=2) == "bp +a on 3, ep +a on 3"
    assert flip_text(session, flips, limit=1) == "bp +a on 3, 3 more"
    back = session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0))
    assert "bp s42 −a" in flip_text(session, back, limit=9)


def test_a_run_that_loses_a_letter_but_not_its_walk_back_is_told_apart_and_last(session: Session) -> None:
    flips = session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0, stability_drift_ceiling=0.5))
    assert flip_text(session, flips, limit=9).endswith(
        "ep s456 +a, credit_bridge s42 −c (still ✗), dfa s123 −c (still ✗)"
    )


def test_traces_are_read_only_when_they_are_wanted_and_only_once(sample_runs: Path) -> None:
    calls = []
    session = Session([], traces=lambda: calls.append(1) or scan([sample_runs]).traces)
    assert not calls
    assert len(session.traces) == len(session.traces) > 0
    assert calls == [1]


def test_marks_toggle(session: Session) -> None:
    assert session.toggle_mark(3)
    assert session.marked == {3}
    assert not session.toggle_mark(3)


@pytest.fixture
def published_rows(session: Session) -> list[AuditRow]:
    return session.rows


def test_a_recorded_verdict_differs_by_its_letters_and_not_by_its_words() -> None:
    report = DiagnosticReport(residual_norms=[1.0, 100.0], recorded_verdict="walk-back: (a)")
    session = Session([AuditRow(source="s", key="k", method="m", report=report)])
    assert not session.recorded_differs(0)
    session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=200.0))
    assert session.recorded_differs(0)
