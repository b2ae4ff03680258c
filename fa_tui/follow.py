"""Folders that change while they are open: events of the system, and a look at everything.

A look walks the open paths as `fa_core.formats.scan` does, and reads the places again whose files
have other sizes or times. Events only say when to look; where the system reports none, as for what
another machine writes on a network drive, the look now and then finds it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from fa_core.errors import FaError
from fa_core.files.opening import exists, is_file, is_folder, real_path
from fa_core.formats import Trace, run_folder, scan_again
from fa_core.formats.checkpoint_file import HASHED, marked_changed
from fa_core.formats.frozen_runs import at_hand
from fa_core.formats.log_columns import Given
from fa_core.formats.rows import AuditRow, Identity, Problem
from fa_core.formats.run_folder import RunProgress, look_at
from fa_core.formats.scan import NOTHING_HERE, places
from fa_core.report.manifest import CREDIT, HUB_FILES, PROGRESS, RUN_FILES, is_run
from fa_core.report.names import one_per_run, run_place
from fa_core.report.numbers import listed
from fa_tui.session import News, Session, with_rows

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class Reading(msgspec.Struct, frozen=True):
    """Current contents of a file or run folder.

    Attributes:
        place: its path, as named by `scan`.
        rows, traces, problems: its contents.
        gone: whether it was removed.
    """

    place: str
    rows: Sequence[AuditRow] = []
    traces: list[Trace] = []
    problems: list[Problem] = []
    gone: bool = False

    def owns(self, path: str) -> bool:
        """Whether a source path belongs to this place."""
        return self.place in (path, run_place(path))

    def settles(self, problem: Problem) -> bool:
        """Whether this reading replaces a problem: of its place, or of a folder above that had
        nothing in it."""
        is_above = Path(problem.path) in Path(self.place).parents
        had_nothing = is_above and NOTHING_HERE in problem.message
        return self.owns(problem.path) or (had_nothing and not self.gone)


STILL_SECONDS = 2.0
"""Age from which an unreadable file counts as broken, not as being written."""

EVERY_SECONDS = 5.0
"""At least so often everything is looked at."""

_SHARE = 10
"""Looks take at most one of so many seconds."""

_CHUNK, _PAUSE_SECONDS = 64, 0.002
"""Number of places after which the screen's thread gets a turn."""

_CLOCKS_SECONDS = 2.0
"""Tolerance between the clocks of files and of this machine."""

_Stamp: TypeAlias = tuple[tuple[str, int, float], ...]
"""Name, size and time of the files of a place."""


def _youngest(stamp: _Stamp) -> float:
    return max((written for _, _, written in stamp), default=0.0)


class Folders:
    """The open paths as they were at the last look. Not thread-safe.

    Args:
        paths: files and folders.
        known: sources that were read and hold runs.
        since: when the first scan began (`time.time`): what is younger is read again.
        columns: of logs, as for `fa_core.formats.scan`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        known: Iterable[str],
        *,
        since: float = 0.0,
        columns: Given | None = None,
    ) -> None:
        self._paths, self._columns = paths, columns
        self._since: float | None = since - _CLOCKS_SECONDS
        self._stamps: dict[str, _Stamp] = dict.fromkeys(known, ())
        self._work: dict[str, RunProgress] = {}

    def look(self) -> tuple[list[Reading], dict[str, RunProgress | None]]:
        """The places that changed since the last look, and the runs on which work began, went on
        or ended."""
        now: dict[str, _Stamp] = {}
        working = set(self._work)
        for number, place in enumerate(self._places()):
            if number % _CHUNK == 0:
                time.sleep(_PAUSE_SECONDS)
            stamp = _stamp(place)
            now[place] = tuple(each for each in stamp if each[0] != PROGRESS)
            if len(now[place]) < len(stamp):
                working.add(place)
        for other in chain.from_iterable(one_per_run(now).values()):
            del now[other]
        readings, work = [], self._changed_work(working)
        # an unmeasured run says how far its training got
        again = {place for place, one in work.items() if one is None or one.ended}
        for place, stamp in now.items():
            # with a folder of which no run can be read, each file of it
            if again.isdisjoint((place, run_place(place))) and self._is_as_read(place, stamp):
                self._stamps[place] = stamp
            elif reading := self._reading(place, stamp):
                again.add(place)
                readings.append(reading)
        for place in self._stamps.keys() - now.keys():
            # what became part of a run is none by itself
            if run_place(place) in now or not (is_file(place) or is_run(Path(place))):
                del self._stamps[place]
                readings.append(Reading(place, gone=True))
        self._since = None
        return readings, work

    def _places(self) -> Iterator[str]:
        """The files and run folders in the open paths, named as by `scan`."""
        seen: set[Identity] = set()
        for path in self._paths:
            for place in places(str(path), seen):
                if isinstance(place, Problem):
                    continue
                if not place.is_folder:
                    yield place.path
                    continue
                place.skip = frozenset({CREDIT})
                with suppress(FaError):
                    if not _is_run(place.path, _stamp(place.path)):
                        continue
                    place.skip = RUN_FILES | HUB_FILES
                # one that cannot be read is a place, as is each of its files
                yield str(Path(place.path))

    def _is_as_read(self, place: str, stamp: _Stamp) -> bool:
        """Whether a place is as it was when it was read last."""
        if self._since is None:
            return self._stamps.get(place) == stamp
        return _youngest(stamp) < self._since

    def _reading(self, place: str, stamp: _Stamp) -> Reading | None:
        """A place read again; None while it is written, and where nothing is in it."""
        root = next(filter(Path(place).is_relative_to, self._paths), "")
        found = scan_again(place, str(root), self._columns)
        if found.problems and 0 <= time.time() - _youngest(stamp) < STILL_SECONDS:
            # without its stamp it is read again at the next look
            self._stamps.setdefault(place, ())
            return None
        known = place in self._stamps
        self._stamps[place] = stamp
        if not (found.rows or found.traces or found.problems or known):
            return None
        return Reading(place, found.rows, found.traces, found.problems)

    def _changed_work(self, folders: Iterable[str]) -> dict[str, RunProgress | None]:
        now = {folder: look_at(Path(folder)) for folder in folders}
        changed = {folder: one for folder, one in now.items() if one != self._work.get(folder)}
        self._work = {folder: one for folder, one in now.items() if one}
        return changed


@lru_cache(maxsize=1 << 14)
def _is_run(folder: str, _of: _Stamp) -> bool:
    """Whether `scan` takes a folder with files of this stamp for a run.

    Raises:
        UnreadableInput: its manifest cannot be read.
    """
    return next(run_folder.read(Path(folder), trace=False), None) is not None


def _stamp(place: str) -> _Stamp:
    """The stamp of a file, or of a run folder's own files."""
    try:
        if not is_folder(place):
            files = [("", Path(place).stat())]
        else:
            with os.scandir(place) as listing:
                files = [(each.name, each.stat()) for each in listing if each.name in RUN_FILES]
    except OSError:
        return ()
    # a copy may keep the time of its original, but not that of its entry in the folder
    return tuple(
        (name, status.st_size, max(status.st_mtime, status.st_ctime))
        for name, status in sorted(files)
    )


class Following:
    """Follows the open paths of an explorer.

    Args:
        app: the explorer; its session takes the changes.
        since: start of reading its paths (`time.time`).
    """

    def __init__(self, app: ExplorerApp, since: float) -> None:
        self._app = app
        session = app.session
        self._folders = Folders(
            app.paths,  # grows as paths are opened beside others
            [row.source for row in session.read],
            since=since,
            columns=session.log.given if session.log else None,
        )
        self._looks = asyncio.Lock()
        self._took = 0.0

    async def look(self) -> bool:
        """Look at everything once; returns whether something changed."""
        app = self._app
        async with self._looks:
            began = time.monotonic()
            readings, work = await asyncio.to_thread(self._folders.look)
            if readings and app.is_running:
                app.folders_changed(readings)
            if work and app.is_running:
                app.work_changed(work)
            judged = await self.judge()
            self._took = time.monotonic() - began
            return judged or bool(readings)

    async def judge(self) -> bool:
        """Judge the runs by their files and the frozen runs at hand as they are now; whether these
        are others."""
        app, before = self._app, self._app.session
        there = [row for place, row in enumerate(before.read) if place not in before.gone]
        unmarked = (row.marked("") if row.report.changed else row for row in before.read)
        rows = await asyncio.to_thread(list, marked_changed(unmarked, HASHED))
        frozen = await asyncio.to_thread(at_hand, there)
        read = app.session.read
        other = {n: row for n, row in enumerate(rows) if row != before.read[n] is read[n]}
        if not app.is_running or (not other and frozen == before.frozen):
            return False
        now = with_rows(app.session, other).but(frozen=frozen)
        app.changed(now, News([], [*range(len(before))], [], []))
        if touched := [row.key for row in rows if row.touched]:
            what = "files of another time than at their audit are too large to be compared here"
            app.add_problems([Problem("", f"{listed(touched)}: {what}; `fa-tui show` does")])
        return True

    async def run(self) -> None:
        """Look whenever the system reports a change, and now and then."""
        said = False
        while True:
            await self.look()
            try:
                await self._watch()
            # watchfiles raises groups of its own errors, as of a name that is no UTF-8
            except Exception as error:
                if not said and all(map(exists, self._app.paths)):
                    said = True
                    self._app.say(
                        f"the system reports no changes here ({error}): "
                        f"looking every {EVERY_SECONDS:g} s, r looks at once",
                        "warn",
                    )
                await asyncio.sleep(max(EVERY_SECONDS, _SHARE * self._took))

    async def _watch(self) -> None:
        """Wait for changes and look, until an open folder is another one."""
        from watchfiles import awatch  # after the first paint

        paths = self._app.paths
        folders = [path for path in paths if is_folder(path)]
        # of a replaced file only its folder knows
        watched = folders or {real_path(path).parent for path in paths}
        before = list(map(_identity, folders))
        looked, is_due = time.monotonic(), False
        async for changes in awatch(
            *watched,
            watch_filter=None,
            debounce=400,
            step=100,
            rust_timeout=1000,
            yield_on_timeout=True,
            recursive=bool(folders),
            ignore_permission_denied=True,
        ):
            waited = time.monotonic() - looked
            is_due = is_due or bool(changes) or waited >= EVERY_SECONDS
            if is_due and waited >= _SHARE * self._took:
                await self.look()
                looked, is_due = time.monotonic(), False
            if before != list(map(_identity, folders)):
                return


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder it is: one that was made again is another one."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def news_of(before: Session, now: Session, news: News) -> str:
    """``2 new: dfa s42, dfa s43   1 gone: ep s42``.

    Args:
        before: the snapshot before the news.
        now: the one after them.
        news: the merged changes.
    """
    parts = []
    for word, rows in (
        ("new", news.added),
        ("changed", [row for row in news.changed if before.cell(row) != now.cell(row)]),
        ("back", news.back),
        ("gone", news.gone),
    ):
        if rows:
            parts.append(f"{len(rows)} {word}: {listed([*map(now.label, rows)], 3)}")
    return "   ".join(parts)
