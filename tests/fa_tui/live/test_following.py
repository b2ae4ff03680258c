"""An explorer that follows its folders: what is new is shown and said, what is gone stays in sight."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import watchfiles

from fa_core.formats import load_audits, scan
from fa_core.formats.checkpoint_file import input_hashes, marked_changed
from fa_core.formats.frozen_runs import at_hand
from fa_core.formats.rows import Problem
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.manifest import AUDIT, MANIFEST, TRACE, WEIGHTS
from fa_tui import follow
from fa_tui.app import ExplorerApp
from fa_tui.follow import Reading, news_of
from fa_tui.options import Log
from fa_tui.session import Session, UnreadTraces, merged
from fa_tui.settings import Loaded, Settings, remember_places
from tests.fa_core.rows import row_of
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.looks import on_page, running, says
from tests.fa_tui.waiting import until
from tests.json_files import json_of, put_json


@pytest.fixture
def runs(sample_runs, tmp_path):
    """A folder with one measured run in it."""
    shutil.copytree(sample_runs / "main" / "dfa_s42", tmp_path / "runs" / "dfa_s42")
    return tmp_path / "runs"


def following(*paths, **settings):
    rows = scan(paths, run_traces=False).rows
    traces = UnreadTraces(lambda: scan(paths).traces)
    session = Session(rows, at_hand(rows), traces=traces)
    return ExplorerApp(
        session,
        title="runs",
        paths=[*paths],
        terminal=COLOURFUL,
        settings=Loaded(Settings(**settings)),
    )


async def test_runs_that_appear_and_go_while_open_are_shown(runs):
    app = following(runs)
    wrong = Problem(str(runs.parent / "settings.toml"), "out of range")
    app._complaints = [wrong]
    async with running(app) as pilot:
        shutil.copytree(runs / "dfa_s42", runs / "new")
        await says(pilot, "1 new: dfa s42")
        shutil.rmtree(runs / "dfa_s42")
        await says(pilot, "1 gone: dfa s42")
        assert app.explorer.matrix.line_count() > 0
        assert app.session.measurable([0]) == []
        runs.rename(runs.parent / "away")
        await until(pilot, lambda: len(app.session.gone) == 2)
        (runs.parent / "away").rename(runs)
        await until(pilot, lambda: app.session.gone == {0})
        assert app.session.problems == [wrong], "it belongs to no place"


async def test_a_current_folder_that_goes_ends_no_explorer_and_commands_in_one_line(
    runs, monkeypatch
):
    monkeypatch.chdir(runs)
    app = following(Path())
    async with running(app) as pilot:
        shutil.rmtree(runs)
        await says(pilot, "1 gone: dfa s42")
        await pilot.press("r", "T", "escape", "e")
    done = subprocess.run([sys.executable, "-m", "fa_tui", "doctor"], capture_output=True)
    wrong = b"fa-tui: the current folder is gone; change to one that is there\n"
    assert (done.returncode, done.stderr) == (3, wrong)


async def test_where_the_system_reports_nothing_it_is_said_and_r_looks_again(runs, monkeypatch):
    def no_events(*paths, **options):
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(watchfiles, "awatch", no_events)
    monkeypatch.setattr(follow, "EVERY_SECONDS", 1000.0)
    app = following(runs)
    async with running(app) as pilot:
        await says(pilot, "OS file watch limit reached")
        await pilot.press("r")
        await says(pilot, "looked again: nothing changed")
        shutil.copytree(runs / "dfa_s42", runs / "new")
        await pilot.press("r")
        await says(pilot, "1 new: dfa s42")


async def test_live_off_looks_at_the_weights_once_and_else_when_asked(runs, monkeypatch):
    monkeypatch.setattr("fa_tui.app._WATCH_SECONDS", 0.0)
    monkeypatch.setattr(follow, "HASHED", 0)
    shutil.copytree(runs / "dfa_s42", runs / "touched")
    (runs / "dfa_s42" / WEIGHTS).write_bytes(b"others")
    (runs / "touched" / WEIGHTS).touch()
    app = following(runs, live="off")
    async with running(app) as pilot:
        await until(pilot, lambda: app.session.rows[0].report.changed)
        await until(pilot, lambda: app.session.problems)
        assert "too large to be compared" in app.session.problems[0].message
        assert not [worker for worker in app.workers if worker.group == "follow"]
        shutil.copytree(runs / "dfa_s42", runs / "new")
        await pilot.press("r")
        await until(pilot, lambda: len(app.session) == 3)


@pytest.mark.parametrize("opened", ["", "dfa_s42"])
async def test_runs_are_judged_as_check_does_whenever_a_frozen_run_at_hand_changes(
    runs, sample_runs, opened, monkeypatch
):
    monkeypatch.setattr("fa_tui.app._WATCH_SECONDS", 1000.0)
    dfa, frozen = runs / "dfa_s42", runs / "frozen_s42"
    shutil.copytree(sample_runs / "main" / "frozen_s42", frozen)
    audits = [run / AUDIT for run in (dfa, frozen)]
    put_json(audits[0], json_of(audits[0]) | {"frozen_baseline_acc": None})
    whole = json_of(audits[1])
    app = following(runs / opened, live="off")

    def another_accuracy():
        put_json(audits[1], whole | {"headline_acc": 0.3})

    def another_record_beside():
        shutil.copytree(frozen, runs / "zeroth")
        put_json(audits[1], whole)

    def other_weights():
        shutil.rmtree(runs / "zeroth")
        (frozen / WEIGHTS).write_bytes(b"others")

    async with running(app) as pilot:
        for change in (another_accuracy, another_record_beside, other_weights):
            before = app.session.rows[0].report
            change()
            await pilot.press("r")
            await until(pilot, lambda seen=before: app.session.rows[0].report is not seen)
            await says(pilot, "changed: ")
            at_hand = load_audits(runs / opened).report(0)
            now = app.session.rows[0].report
            assert (now.margin_pp, now.unmeasured) == (at_hand.margin_pp, at_hand.unmeasured)
            assert (now.margin_pp, now.unmeasured) != (before.margin_pp, before.unmeasured)


@pytest.mark.parametrize("order", [1, -1])
async def test_two_records_of_one_measurement_that_are_not_alike_are_none(runs, tmp_path, order):
    run, table = paths = [runs / "dfa_s42", tmp_path / "table.json"]
    report = json_of(run / AUDIT)
    report["provenance"]["checkpoint"] = str(run)
    other = report | {"bp_grad_norms": [1e-9] * len(report["bp_grad_norms"])}
    other["intervals"] = {"growth": report["intervals"]["growth"]}

    def write(report):
        put_json(table, {"reports": {"dfa_s42": report}})

    write(report)
    app = following(*paths[::order], live="off")
    async with running(app):
        for now, count in ((report, 0), (other, 1), (report, 0)):
            write(now)
            await app.following.look()
            opened = following(*paths[::order]).session
            for session in (app.session, opened):
                assert len(session.scoped) == 1
                assert bool(session.scoped[0].no_claim) == bool(count)
                assert len(session.wrong) == count


def gone(run):
    (run / MANIFEST).unlink()


def broken(run):
    (run / MANIFEST).write_text("{")


def whole(run):
    (run / MANIFEST).write_bytes((run.parent.parent / MANIFEST).read_bytes())


def exploded(run):
    put_json(run / AUDIT, json_of(run / AUDIT) | {"residual_norms": [1.0, 1e9, 1e9]})


def longer(run):
    with (run / TRACE).open("a") as file:
        file.write('{"epoch": 30, "test_acc": 0.5, "residual_norms": [1.0, 9.0, 9.0]}\n')


def renamed(run):
    run.rename(run.with_name("run" if run.name == "dfa_s42" else "dfa_s42"))


@pytest.mark.parametrize(
    "steps",
    [
        (gone, exploded, longer, renamed, whole),
        (broken, exploded, longer, whole),
        (broken, gone, longer, renamed, broken),
    ],
    ids=lambda steps: "-".join(step.__name__ for step in steps),
)
async def test_what_is_read_on_opening_is_read_again(runs, sample_runs, steps, monkeypatch):
    monkeypatch.setattr(follow, "STILL_SECONDS", 0.0)
    shutil.copy(sample_runs / "main" / "dfa_s42" / MANIFEST, runs.parent)
    app = following(runs, live="off")
    assert list(app.session.traces)
    async with running(app) as pilot:
        for step in steps:
            step(next(runs.iterdir()))
            assert await app.following.look()
            await pilot.pause()
            now, found = app.session, scan([runs])
            there = [row for place, row in enumerate(now.rows) if place not in now.gone]
            traces = [trace for trace in now.traces if Path(trace.source).exists()]
            rows = [*marked_changed(found.rows)]
            for own, other in ((there, rows), (traces, found.traces)):
                assert sorted(map(told, own)) == sorted(map(told, other)), step
            assert {*now.problems} == {*found.problems}


def told(run):
    return run.source, run.key, run.report.cell() if hasattr(run, "report") else len(run.epochs)


async def test_weights_that_change_while_open_mark_their_record_and_are_no_run(runs, tmp_path):
    net, record = tmp_path / "nets" / "dfa_s42.safetensors", json_of(runs / "dfa_s42" / AUDIT)
    net.parent.mkdir()
    shutil.copy(runs / "dfa_s42" / WEIGHTS, net)
    record["provenance"] |= {"checkpoint": str(net), "hashes": input_hashes(net), "files": []}
    put_json(net.with_name("a.json"), {"reports": {"dfa_s42": record}})
    app, whole = following(net.parent, live="off"), net.read_bytes()
    async with running(app) as pilot:
        before = app.session.cell(0)
        for weights, mark in ((whole[:-1] + b"\1", "?"), (whole, before[0])):
            net.write_bytes(weights)
            assert await app.following.look()
            await pilot.pause()
            assert [*map(app.session.cell, range(len(app.session)))] == [mark + before[1:]]
        assert not await app.following.look()


async def test_news_are_told_on_every_page(runs):
    app = following(runs, live="off")
    async with running(app) as pilot:
        row = app.session.rows[0]
        await pilot.press("J")
        await on_page(pilot, "Jobs")
        app.post_call(app.folders_changed, [Reading(row.source, gone=True)])
        await says(pilot, "1 gone: dfa s42")


class TestMerging:
    def rows(self, *seeds, source="a.json", acc=0.5):
        return [row_of(f"dfa_s{seed}", source, axes={"acc": acc}) for seed in seeds]

    def test_rows_never_move(self):
        before = Session([*self.rows(1, 2), *self.rows(1, source="b.json")])
        session, news = merged(before, [Reading("a.json", rows=self.rows(2, 3))])
        assert [row.seed for row in session.rows] == [1, 2, 1, 3]
        assert (news.added, news.changed, news.gone) == ([3], [], [0])
        assert session.gone == {0}
        assert news_of(before, session, news) == "1 new: dfa s3   1 gone: dfa s1"

    def test_the_same_again_is_no_news(self):
        session = Session(self.rows(1, 2))
        now, news = merged(session, [Reading("a.json", rows=self.rows(1, 2))])
        assert not any(news) and now.runs is session.runs

    def test_what_is_back_is_told_and_no_longer_gone(self):
        session = Session(self.rows(1))
        session, _ = merged(session, [Reading("a.json", gone=True)])
        assert session.gone == {0}
        session, news = merged(session, [Reading("a.json", rows=self.rows(1))])
        assert news.back == [0]
        assert not session.gone

    def test_an_assumed_baseline_holds_for_what_comes_later(self, published_table):
        rows = [row for row in scan([published_table]).rows if row.method == "ep"]
        session = Session(rows[:1], baseline=FrozenBaseline(0.349))
        session, _ = merged(session, [Reading(rows[0].source, rows=rows)])
        assert session.counts().walked == 3
        session = session.but(baseline=FrozenBaseline())
        assert session.counts().walked == 0

    def test_a_problem_goes_when_its_file_can_be_read(self):
        session = Session([], problems=[Problem("a.json", "truncated"), Problem("b.json", "empty")])
        session, _ = merged(session, [Reading("a.json", rows=self.rows(1))])
        assert [problem.path for problem in session.problems] == ["b.json"]

    def test_a_folder_that_was_empty_is_no_problem_once_it_holds_a_run(self, tmp_path):
        session = Session([], problems=scan([tmp_path]).problems)
        locked = Problem(str(tmp_path / "locked"), "permission denied")
        session = session.but(problems=[*session.problems, locked])
        session, _ = merged(
            session,
            [
                Reading("elsewhere/a.json", rows=self.rows(1)),
                Reading(str(tmp_path / "b.json"), gone=True),
            ],
        )
        assert len(session.problems) == 2, "nothing is in it yet"
        session, _ = merged(session, [Reading(str(tmp_path / "a.json"), rows=self.rows(2))])
        assert session.problems == [locked]


async def test_a_name_that_is_no_utf_8_ends_nothing(runs):
    strange = runs / os.fsdecode(b"\xff\xfe_s42")
    shutil.copytree(runs / "dfa_s42", strange)
    remember_places([strange])
    app = following(runs)
    async with running(app) as pilot:
        shutil.copytree(strange, runs / os.fsdecode(b"\xfe_s43"))
        await says(pilot, "the system reports no changes here")


async def test_a_log_that_changes_is_read_by_the_columns_that_were_named(tmp_path):
    file, facts = tmp_path / "dfa_s1.json", Log(columns=["acc=val"])

    def write(*values):
        log = [{"epoch": epoch, "val": value} for epoch, value in enumerate(values, 1)]
        put_json(file, {"lam": 0.0, "log": log})

    write(0.3)
    found = scan([tmp_path], columns=facts.given)
    app = ExplorerApp(Session(found.rows, log=facts), paths=[tmp_path], terminal=COLOURFUL)
    async with running(app) as pilot:
        write(0.3, 0.6)
        await until(pilot, lambda: app.session.rows[0].report.headline_acc == 0.6)
        assert not app.session.problems
