"""Live folders: what appears, changes or goes is told; what is being written is waited for; nothing crashes."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from fa_core.formats import scan, scan_again
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.live import STILL_SECONDS, Follower, Watcher, roots_of
from fa_tui.reading import Reading

LIMIT = 30.0
"""Seconds after which a test gives up: much more than a loaded machine needs."""


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def report(growth: float = 2.0) -> str:
    return json.dumps(
        DiagnosticReport(method_name="dfa", seed=42, residual_norms=[1.0, growth]).to_dict()
    )


def run_folder(folder: Path, *, audit: bool = False) -> Path:
    folder.mkdir(parents=True)
    manifest = {
        "format": "fa-run/1",
        "method": "dfa",
        "arch": "resmlp",
        "data": "synthetic",
        "seed": 42,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if audit:
        (folder / "audit.json").write_text(report())
    return folder


def follower(paths: Sequence[Path], clock: Clock) -> Follower:
    return Follower([row.source for row in scan(list(paths)).rows], clock=clock)


def noted(follower: Follower, *paths: Path) -> list[Reading]:
    for path in paths:
        follower.note(str(path))
    return follower.take()


class TestFollower:
    def test_a_new_report_is_read(self, tmp_path: Path, clock: Clock) -> None:
        follows = Follower([], clock=clock)
        path = tmp_path / "a.json"
        path.write_text(report())
        (reading,) = noted(follows, path)
        assert (reading.place, len(reading.rows), reading.gone) == (str(path), 1, False)

    def test_a_file_of_a_run_folder_means_the_run(self, tmp_path: Path, clock: Clock) -> None:
        run = run_folder(tmp_path / "dfa_s42")
        follows = follower([tmp_path], clock)
        (run / "audit.json").write_text(report(7.0))
        (run / "model.safetensors").write_bytes(b"not looked into here")
        (reading,) = noted(follows, run / "audit.json", run / "model.safetensors")
        assert reading.place == str(run)
        (row,) = reading.rows
        assert row.report.max_per_block_growth == 7.0
        assert row.checkpoint == str(run)

    def test_feedback_and_unrelated_files_are_nothing(self, tmp_path: Path, clock: Clock) -> None:
        for name, content in (
            ("credit.safetensors", "x"),
            ("notes.txt", "x"),
            ("other.json", '{"x": 1}'),
        ):
            (tmp_path / name).write_text(content)
        assert noted(Follower([], clock=clock), *tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "whole", [report(), json.dumps([{"method": "dfa", "seed": 1, "acc": 0.5}])]
    )
    def test_a_file_being_written_is_read_when_it_is_whole(
        self, tmp_path: Path, clock: Clock, whole: str
    ) -> None:
        follows, path = Follower([], clock=clock), tmp_path / "a.json"
        for end in range(10, len(whole), len(whole) // 4):
            path.write_text(whole[:end])
            clock.now += STILL_SECONDS * 0.9
            assert noted(follows, path) == []
        path.write_text(whole)
        (reading,) = follows.take()
        assert len(reading.rows) == 1
        assert not reading.problems
        assert follows.take() == []

    def test_a_broken_file_that_stands_still_is_told_once(
        self, tmp_path: Path, clock: Clock
    ) -> None:
        follows, path = Follower([], clock=clock), tmp_path / "a.json"
        path.write_text(report()[:50])
        assert noted(follows, path) == []
        clock.now += STILL_SECONDS
        (reading,) = follows.take()
        assert str(path) in reading.problems[0].message
        assert follows.take() == []
        path.write_text(report())
        (mended,) = noted(follows, path)
        assert not mended.problems
        assert len(mended.rows) == 1

    def test_a_growing_trace_with_half_a_last_line_is_read_up_to_there(
        self, tmp_path: Path, clock: Clock
    ) -> None:
        run = run_folder(tmp_path / "dfa_s42")
        follows = follower([tmp_path], clock)
        line = json.dumps(
            {"epoch": 1, "test_acc": 0.5, "residual_norms": [1.0, 2.0], "bp_grad_norms": [0.1, 0.1]}
        )
        (run / "trace.jsonl").write_text(line + "\n" + line.replace("1", "2", 1)[:20])
        (reading,) = noted(follows, run / "trace.jsonl")
        (trace,) = reading.traces
        assert [epoch.epoch for epoch in trace.epochs] == [1]
        assert trace.unfinished

    def test_a_run_folder_that_goes_is_gone_and_can_come_back(
        self, tmp_path: Path, clock: Clock
    ) -> None:
        run = run_folder(tmp_path / "runs" / "dfa_s42")
        follows = follower([tmp_path], clock)
        shutil.move(run.parent, tmp_path / ".away")
        (reading,) = noted(follows, run.parent)
        assert (reading.place, reading.gone) == (str(run), True)
        shutil.move(tmp_path / ".away", run.parent)
        (back,) = noted(follows, run.parent)
        assert (back.place, back.gone, len(back.rows)) == (str(run), False, 1)

    def test_a_run_folder_half_deleted_is_gone(self, tmp_path: Path, clock: Clock) -> None:
        run = run_folder(tmp_path / "dfa_s42", audit=True)
        follows = follower([tmp_path], clock)
        (run / "manifest.json").unlink()
        (reading,) = noted(follows, run / "manifest.json")
        assert reading.gone

    def test_a_folder_that_appears_whole_is_searched(self, tmp_path: Path, clock: Clock) -> None:
        follows = follower([run_folder(tmp_path / "first")], clock)
        run_folder(tmp_path / "new" / "dfa_s1")
        (tmp_path / "new" / "table.json").write_text(report())
        places = {reading.place for reading in noted(follows, tmp_path / "new")}
        assert places == {str(tmp_path / "new" / "dfa_s1"), str(tmp_path / "new" / "table.json")}

    def test_thousands_of_files_let_the_screen_in_between(self, clock: Clock) -> None:
        pauses: list[int] = []
        follows = Follower([], clock=clock, pause=lambda: pauses.append(1))
        for number in range(5000):
            follows.note(f"/nowhere/{number}.txt")
        assert follows.take() == []
        assert len(pauses) > 100


def test_reading_again_takes_a_place_as_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert scan_again(str(tmp_path / "notes.txt")) == scan_again(str(tmp_path))
    assert scan_again(str(tmp_path / "missing.json")).problems
    run = run_folder(tmp_path / "dfa_s42", audit=True)
    (run / "more.json").write_text(report())
    assert [row.source for row in scan_again(str(run)).rows] == [str(run)]


class Told:
    """What a watcher told, to be waited for."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self.readings: list[Reading] = []
        self.notes: list[str] = []

    def changed(self, readings: list[Reading]) -> None:
        with self._turn:
            self.readings += readings
            self._turn.notify_all()

    def until(
        self, condition: Callable[[Reading], bool], again: Callable[[], object] = lambda: None
    ) -> None:
        """Wait for a reading that meets the condition.

        Args:
            condition: what it must meet.
            again: done now and then meanwhile: it may be too early for the watcher to see it.
        """
        for _ in range(int(LIMIT / 0.3)):
            again()
            with self._turn:
                if self._turn.wait_for(lambda: any(map(condition, self.readings)), 0.3):
                    return
        raise AssertionError(f"never told: {self.readings}")


@contextmanager
def watching(path: Path, *, polling: bool = False, ignore: Sequence[Path] = ()) -> Iterator[Told]:
    """A watcher that is surely watching: it has told of a file made for that."""
    told = Told()
    known = [row.source for row in scan([path]).rows]
    (group,) = roots_of([path])
    watcher = Watcher(
        group,
        known,
        told.changed,
        on_note=told.notes.append,
        polling=polling,
        poll_seconds=0.1,
        ignore=ignore,
    )
    watcher.start()
    try:
        if path.is_dir():
            # made anew each time: a probe older than the watch is no news
            names = (path / f"probe{number}.json" for number in count())
            told.until(lambda reading: True, again=lambda: next(names).write_text(report()))
        yield told
    finally:
        watcher.stop()
        watcher.join(LIMIT)
        assert not watcher.is_alive()


@pytest.mark.parametrize("polling", [False, True])
def test_a_watcher_tells_of_new_changed_and_vanished_runs(tmp_path: Path, polling: bool) -> None:
    run = run_folder(tmp_path / "runs" / "dfa_s42")
    with watching(tmp_path, polling=polling) as told:
        temporary = tmp_path / ".report.tmp"
        temporary.write_text(report(9.0))
        temporary.replace(run / "audit.json")
        told.until(
            lambda reading: (
                reading.place == str(run) and reading.rows[0].report.max_per_block_growth == 9.0
            )
        )
        new = run_folder(tmp_path / "runs" / "deep" / "dfa_s43")
        told.until(lambda reading: reading.place == str(new))
        shutil.rmtree(tmp_path / "runs")
        told.until(lambda reading: reading.place == str(run) and reading.gone)
        told.until(lambda reading: reading.place == str(new) and reading.gone)


def test_a_watched_file_may_be_written_by_rename_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(report())
    (tmp_path / "b.json").write_text(report())
    with watching(path) as told:
        for growth in (3.0, 4.0, 5.0):

            def write(growth: float = growth) -> None:
                (tmp_path / ".new").write_text(report(growth))
                (tmp_path / ".new").replace(path)

            def is_told(reading: Reading, growth: float = growth) -> bool:
                return bool(reading.rows) and reading.rows[0].report.max_per_block_growth == growth

            told.until(is_told, again=write)
        (tmp_path / "b.json").write_text(report(6.0))
        path.unlink()
        told.until(lambda reading: reading.gone)
        assert {reading.place for reading in told.readings} == {str(path)}


def test_a_folder_that_disappears_altogether_is_followed_again_when_it_is_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "open"
    run = run_folder(folder / "dfa_s42")
    with watching(folder) as told:
        shutil.rmtree(folder)
        told.until(lambda reading: reading.place == str(run) and reading.gone)
        told.readings.clear()
        run_folder(folder / "dfa_s42")
        told.until(lambda reading: reading.place == str(run) and not reading.gone)


def test_what_a_person_named_by_a_link_or_relatively_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder(tmp_path / "real" / "dfa_s42")
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    for named in (Path("link"), Path("real"), Path()):
        rows = scan([named]).rows
        with watching(named) as told:
            (tmp_path / "real" / "dfa_s42" / "audit.json").write_text(report())
            told.until(lambda reading: reading.place == rows[0].source)  # noqa: B023


def test_what_the_explorer_writes_itself_is_not_read(tmp_path: Path) -> None:
    own = tmp_path / "fa-tui-audit.json"
    with watching(tmp_path, ignore=[own]) as told:
        own.write_text(report())
        (tmp_path / "z.json").write_text(report())
        told.until(lambda reading: reading.place == str(tmp_path / "z.json"))
        assert str(own) not in {reading.place for reading in told.readings}


def test_where_the_system_tells_nothing_it_looks_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import watchfiles

    events = watchfiles.watch

    def no_events(*paths: str, force_polling: bool | None, **options: object) -> object:
        if not force_polling:
            raise OSError("OS file watch limit reached")
        return events(*paths, force_polling=True, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(watchfiles, "watch", no_events)
    with watching(tmp_path) as told:
        assert "OS file watch limit reached" in told.notes[0]


def test_what_was_written_between_the_scan_and_the_watch_is_read(tmp_path: Path) -> None:
    told = Told()
    path = tmp_path / "a.json"
    path.write_text(report())
    old = tmp_path / "old.json"
    old.write_text(report())
    os.utime(old, (1, 1))
    (group,) = roots_of([tmp_path])
    watcher = Watcher(group, [], told.changed, since=path.stat().st_mtime)
    watcher.start()
    told.until(lambda reading: reading.place == str(path))
    watcher.stop()
    watcher.join(LIMIT)
    assert [reading.place for reading in told.readings] == [str(path)]


@pytest.mark.parametrize("name", [".hidden.json", "audit.json.~1~"])
def test_what_a_search_leaves_out_is_no_news(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(report())
    (group,) = roots_of([tmp_path])
    assert not any(root.name_of(str((tmp_path / name).resolve())) for root in group)
    assert group[0].name_of(str((tmp_path / "a.json").resolve())) == str(tmp_path / "a.json")


def test_a_link_to_itself_is_followed_as_any_path_that_cannot_be_read(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    (group,) = roots_of([loop])
    assert [root.named for root in group] == [str(loop)]


def test_rows_compare_equal_when_nothing_changed(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "dfa_s42", audit=True)
    (row,) = scan([tmp_path]).rows
    (again,) = scan_again(str(run)).rows
    assert isinstance(row, AuditRow)
    assert row == again
