"""Reports as jobs of the command: saved, failed in its words, ended without a trace."""

import os

import pytest

from fa_tui.jobs.writing import Writings
from tests.fa_tui.looks import jobs_end, on_page, running, shows
from tests.fa_tui.waiting import until


def test_a_report_and_its_figures_are_saved(tmp_path, published_table):
    said = []
    writings = Writings(lambda: None, said.append)
    path = tmp_path / "out.md"
    writings.start(path, ["report", str(published_table), "--out", str(path)])
    writings._all[0].join()
    (job,) = writings.listed()
    assert (job.state, job.doing, job.can_retry) == ("done", "writing", False)
    assert said == [f"saved {path} and 1 more"]
    assert {file.name for file in tmp_path.iterdir()} == {"out.md", "out-methods-1.svg"}


def test_what_the_command_cannot_do_is_told_in_its_words(tmp_path):
    writings = Writings(lambda: None, lambda text: None)
    writings.start(tmp_path / "out.md", ["report", str(tmp_path), "--out", str(tmp_path / "a.md")])
    writings._all[0].join()
    (job,) = writings.listed()
    assert job.state == "failed" and "no run to analyse" in job.error
    assert not list(tmp_path.iterdir())


async def test_a_report_is_a_job_that_x_ends_without_a_trace(
    app, published_table, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    app.paths = [published_table]
    async with running(app) as pilot:
        await pilot.press("e", *"out.html", "enter", "J")
        await on_page(pilot, "Jobs")
        await shows(pilot, "out.html")
        pid = app.jobs.listed()[0].pid
        await pilot.press("x", "y")
        await until(pilot, lambda: app.jobs.listed()[0].state == "cancelled")
        await jobs_end(pilot)
        await until(pilot, lambda: app.jobs.writings._all[0]._process.poll() is not None)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    app.jobs.close()
    assert not list(tmp_path.iterdir())
