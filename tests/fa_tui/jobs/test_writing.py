"""Exports as jobs: their progress, cancelled without a trace, whole or not at all."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.jobs.writing import Writings
from fa_tui.sharing.export import KINDS
from fa_tui.sharing.pieces import Shared
from fa_tui.sharing.writer import order_of
from tests.fa_tui.looks import screen_text
from tests.fa_tui.waiting import until

WRITER = "fa_tui.sharing.writer"
BY_KEY = {kind.key: kind for kind in KINDS}


def _nothing(job: object) -> None:
    pass


def _write(writings: Writings, key: str, path: Path, table: Path) -> None:
    rows = scan([table]).rows
    writings.start(WRITER, path, partial(order_of, BY_KEY[key], Shared([], rows, "runs")))
    writings._all[-1].join()


def test_a_report_and_its_figures_come_into_place_together(
    tmp_path: Path, published_table: Path
) -> None:
    said: list[str] = []
    seen: list[tuple[int, int]] = []
    writings = Writings(lambda job: seen.append((job._done, job._total)), said.append)
    _write(writings, "m", tmp_path / "out.md", published_table)
    (job,) = writings.listed()
    assert (job.state, job.done, job.doing) == ("done", job.total - 1, "writing")
    files = {file.name for file in tmp_path.iterdir()}
    assert "out.md" in files and len(files) == job.total + 1
    assert said == [f"saved {tmp_path / 'out.md'} and {job.total} more"]
    assert (job.done, job.total) in seen, "its progress is told"


def test_no_file_is_written_over(tmp_path: Path, published_table: Path) -> None:
    (tmp_path / "out-methods-1.svg").write_text("precious")
    writings = Writings(_nothing, _nothing)
    _write(writings, "m", tmp_path / "out.md", published_table)
    (job,) = writings.listed()
    assert job.state == "failed" and "out-methods-1.svg is there already" in job.error
    assert [file.name for file in tmp_path.iterdir()] == ["out-methods-1.svg"]
    assert (tmp_path / "out-methods-1.svg").read_text() == "precious"


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path, published_table: Path) -> None:
    writings = Writings(_nothing, _nothing)
    _write(writings, "c", tmp_path / "gone" / "out.csv", published_table)
    (job,) = writings.listed()
    assert job.state == "failed" and "gone" in job.error


def test_what_the_process_cannot_do_is_told_in_its_words(tmp_path: Path) -> None:
    writings = Writings(_nothing, _nothing)
    _write(writings, "c", tmp_path / "out.csv", tmp_path)
    (job,) = writings.listed()
    assert job.error == "no runs to export: the filter leaves none"
    assert not list(tmp_path.iterdir())


async def test_an_export_is_a_job_that_x_stops_without_a_trace(
    app: ExplorerApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.press("e", "h", "enter")
        await until(pilot, lambda: bool(app.jobs.listed()) and app.jobs.listed()[0].pid > 0)
        pid = app.jobs.listed()[0].pid
        await until(pilot, lambda: "writing fa-tui-report.html" in app.explorer.status.text)
        # the keys are answered meanwhile
        line = app.explorer.page.view.line
        await pilot.press("down")
        assert app.explorer.page.view.line == line + 1
        await pilot.press("J")
        await until(pilot, lambda: app.explorer.page.id == "Jobs")
        await until(pilot, lambda: "fa-tui-report.html" in screen_text(app))
        await pilot.press("x")
        await until(pilot, lambda: app.jobs.listed()[0].state == "cancelled")
        await until(pilot, lambda: not list(tmp_path.iterdir()))
        await until(pilot, lambda: not app.jobs.unfinished())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_leaving_stops_an_export(
    app: ExplorerApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.takes_keys)
        await pilot.press("e", "h", "enter")
        await until(pilot, lambda: app.jobs.unfinished() == 1)
    app.close_jobs()
    assert not list(tmp_path.iterdir())
