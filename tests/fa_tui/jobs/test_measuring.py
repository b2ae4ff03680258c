"""Measuring from the explorer: real worker processes with a fake measure."""

from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from fa_core.analysis.record_comparison import compare
from fa_core.errors import FaError
from fa_core.formats import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, MANIFEST, RESULTS
from fa_tui.app import ExplorerApp
from fa_tui.jobs.control import again_words
from fa_tui.jobs.measuring import Measured, Results
from fa_tui.screens.questions import SureScreen
from fa_tui.session import Session, with_rows
from fa_tui.views.glyphs import UNICODE
from tests.fa_tui.looks import on_screen, running, screen_text, set_a_to, shows, walked
from tests.fa_tui.waiting import until
from tests.json_files import put_json


async def test_marked_runs_are_measured_shown_and_saved_as_they_finish(measuring_app, tmp_path):
    (tmp_path / "one").touch()
    app = measuring_app("one", "two")
    async with running(app) as pilot:
        await shows(pilot, "2 not measured")
        await pilot.press("asterisk", "m")
        await walked(pilot, 2)
        await shows(pilot, "2 of 2 need walk-back")
        assert "✗a--·" in screen_text(app)
        await shows(pilot, RESULTS)
        # at once again: the record is what the file says
        await pilot.press("m")
        await until(pilot, lambda: bool(app.jobs.again))
        (again,) = app.jobs.again.values()
        assert again.comparison.agrees, again.comparison.lines()
    app.jobs.close()
    assert [job.state for job in app.jobs.listed()] == ["done", "done"]
    assert sorted(row.method for row in scan([tmp_path / RESULTS]).rows) == ["one", "two"]


def test_what_is_not_checked_is_no_agreement():
    again = DiagnosticReport(residual_norms=[1.0, 2.0])
    known = {"frozen_baseline_acc": 0.3, "recorded_verdict": "trustworthy"}
    compared = compare(msgspec.structs.replace(again, **known), again)
    assert again_words(compared, UNICODE).startswith("? agrees in")


async def test_a_run_with_an_audit_is_compared_with_it_and_its_audit_stays(measuring_app, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    manifest = {
        "format": "fa-run/1",
        "method": "run",
        "arch": "resmlp",
        "data": "synthetic",
        "seed": 42,
    }
    put_json(run / MANIFEST, manifest)
    old = DiagnosticReport(
        method_name="run",
        residual_norms=[1.0, 2.0],
        frozen_baseline_acc=0.3,
        provenance={"checkpoint": "run"},
    )
    put_json(run / AUDIT, old.to_dict())
    before = (run / AUDIT).read_bytes()
    app = measuring_app("run")
    app.history.now = with_rows(app.session, dict(enumerate(scan([run]).rows)))
    async with running(app) as pilot:
        await pilot.press("m")
        await until(pilot, lambda: app.session.states == {0: "deviates"})
        await shows(pilot, "measured again: ≠ verdict ")
        assert "≠" in screen_text(app).splitlines()[3]
        assert "≠ verdict trustworthy → needs " in app.jobs.listed()[0].words
        lines = [text for text, _ in app.jobs.lines_on(0)]
        assert lines[0].endswith("residual stream exploded, 5 more")
        assert (run / AUDIT).read_bytes() == before and app.session.counts().walked == 0


async def test_the_slider_answers_while_a_run_is_measured(measuring_app, tmp_path):
    app = measuring_app("wait")
    async with running(app) as pilot:
        await pilot.press("m")
        await shows(pilot, "measuring wait s42 1/3")
        await set_a_to(pilot, "5")
        assert app.session.thresholds.h_norm_explosion_ratio == 5.0
        (tmp_path / "go").touch()
        await walked(pilot, 1)


async def test_a_failed_job_says_why_and_can_be_tried_again(measuring_app, tmp_path):
    app = measuring_app("broken")
    async with running(app) as pilot:
        await pilot.press("m", "J")
        await shows(pilot, "the weights are empty")
        [(said, _)] = app.jobs.lines_on(0)
        assert "the weights are empty" in said
        (tmp_path / "go").touch()
        await pilot.press("R")
        await walked(pilot, 1)


@pytest.mark.parametrize("keys", [("q", "y"), ("ctrl+c", "enter")])
async def test_leaving_while_jobs_run_asks_first(measuring_app, keys):
    app = measuring_app("wait")
    async with running(app) as pilot:
        await pilot.press("m", "q")
        await on_screen(pilot, SureScreen)
        assert "1 job not finished. Leave?" in screen_text(app)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.screen is app.explorer)
        assert app.is_running
        await pilot.press(*keys)
        await pilot.pause()
    assert app.return_value == 0


@pytest.mark.parametrize("error", [FaError("no room"), MemoryError()])
async def test_a_file_that_cannot_be_written_is_told_and_the_numbers_are_kept(
    measuring_app, monkeypatch, error
):
    monkeypatch.setattr(Results, "save", Mock(side_effect=error))
    app = measuring_app("one")
    async with running(app) as pilot:
        await pilot.press("m")
        await shows(pilot, f"not saved: {str(error) or 'MemoryError'}")
        assert app.session.counts().walked == 1


async def test_runs_that_come_together_are_one_change_of_the_screen(measuring_app, monkeypatch):
    app = measuring_app(*(f"net{number}" for number in range(6)))
    shown = []
    async with running(app) as pilot:
        real = app.show

        def show(now):
            before, after = app.session.rows, now.rows
            changed = [old is not new for old, new in zip(before, after, strict=True)]
            if any(changed):
                shown.append(sum(changed))
            real(now)

        monkeypatch.setattr(app, "show", show)
        report = DiagnosticReport(residual_norms=[1.0, 100.0])
        for index, row in enumerate(app.session.rows):
            app.jobs.arrived(Measured(index, replace(row, report=report), saved="results.json"))
        await walked(pilot, 6)
        assert shown == [1, 5]
        await shows(pilot, "5 more measured")


async def test_the_frozen_run_of_a_recorded_margin_is_measured_again_with_it(
    sample_runs, monkeypatch
):
    names = ("bp_s42", "frozen_of-bp_s42", "bp_s123")
    rows = scan([sample_runs / "main" / name for name in names]).rows
    facts = {**rows[0].report.provenance, "frozen_baseline_from": "of another name"}
    rows[0] = replace(rows[0], report=replace(rows[0].report, provenance=facts))
    app = ExplorerApp(Session(rows))
    chosen = []
    async with app.run_test():
        monkeypatch.setattr(app.jobs.measuring, "start", lambda rows, _: chosen.extend(rows) or [])
        app.jobs.measure([0])
    assert [row.key for _, row in chosen] == ["bp_s42", "frozen_of-bp_s42"]
