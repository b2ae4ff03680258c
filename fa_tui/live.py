"""Live folders: detection and reading of changed places.

An unreadable file is tried again until it has not changed for a while, and only then reported as
broken. Places are named as in `fa_core.formats.scan`. A `Watcher` is a thread that waits for events
of the system, or polls; `Following` owns the watchers of an explorer and merges their findings into
its session.
"""

from __future__ import annotations

import math
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fa_core.files.opening import real_path
from fa_core.formats import Scan, scan_again
from fa_core.formats.rows import Problem
from fa_core.formats.run_folder import sniff
from fa_core.formats.run_progress import RunWork, look_at
from fa_core.formats.scan import places
from fa_core.report.manifest import CREDIT, MANIFEST, PROGRESS, RUN_FILES
from fa_tui.reading import Reading
from fa_tui.session import News, Session
from fa_tui.settings import FILE

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

STILL_SECONDS = 2.0
"""Seconds without change after which an unreadable file counts as broken, not as being written."""

LOOK_AGAIN_SECONDS = 5.0
"""How often to look whether the process that works on a run is still there."""

_CHUNK = 16
"""Number of files after which the screen's thread gets a turn."""

_Stamp: TypeAlias = tuple[int, float]


def _ignore(_: object) -> None:
    """A listener that does nothing."""


class Follower:
    """Decides which places to read again. Not thread-safe.

    Args:
        known: run folders and files that were read already.
        read: reads a place.
        clock: seconds; replaced in tests.
        pause: called now and then during long reading.
    """

    def __init__(
        self,
        known: Iterable[str],
        *,
        read: Callable[[str], Scan] = scan_again,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        self._read, self._clock, self._pause = read, clock, pause
        self._known = dict.fromkeys(known)
        self._vanished: set[Path] = set()
        self._due: dict[str, None] = {}
        self._waiting: dict[str, tuple[object, float]] = {}
        self._work: dict[str, RunWork] = {}
        self._work_due: dict[str, None] = {}
        self._looked = -math.inf

    def note(self, path: str) -> None:
        """Note that a file or folder was created, changed or removed."""
        at = Path(path)
        if at.is_dir():
            self._due.update(dict.fromkeys(_places(path)))
        elif at.name == PROGRESS:
            self._work_due[str(at.parent)] = None
        elif at.name in RUN_FILES and (str(at.parent) in self._known or sniff(at.parent)):
            self._due[str(at.parent)] = None
        elif at.name != CREDIT:
            self._due[path] = None
            # a removed folder removes everything in it
            if not at.exists():
                self._vanished.add(at)

    def note_known(self) -> None:
        """Note all known places: anything may have changed."""
        self._due.update(self._known)

    def note_work(self) -> None:
        """Processes may work on any of the run folders that were read."""
        for place in self._known:
            if (Path(place) / PROGRESS).exists():
                self._work_due[place] = None

    def take_work(self) -> dict[str, RunWork | None]:
        """Run folders on which work began, went on or ended since the last call."""
        if self._clock() >= self._looked + LOOK_AGAIN_SECONDS:
            self._looked = self._clock()
            self._work_due.update(dict.fromkeys(self._work))
        changed: dict[str, RunWork | None] = {}
        for place in self._work_due:
            now = look_at(Path(place))
            if now == self._work.get(place):
                continue
            changed[place] = now
            if now is None:
                del self._work[place]
            else:
                self._work[place] = now
        self._work_due.clear()
        return changed

    def take(self) -> list[Reading]:
        """Read the noted places that are complete, broken, or removed."""
        if self._vanished:
            inside = (
                place for place in self._known if not self._vanished.isdisjoint(Path(place).parents)
            )
            self._due.update(dict.fromkeys(inside))
        due = {**self._due, **dict.fromkeys(self._waiting)}
        self._vanished.clear()
        self._due.clear()
        readings = []
        for number, place in enumerate(due, 1):
            reading = self._reading(place)
            if reading is not None:
                readings.append(reading)
            if number % _CHUNK == 0:
                self._pause()
        return readings

    def _reading(self, place: str) -> Reading | None:
        state = _state(Path(place))
        if state is None:
            self._waiting.pop(place, None)
            if place in self._known:
                return Reading(place, gone=True)
            return None
        found = self._read(place)
        if found.problems:
            before, since = self._waiting.get(place, (None, 0.0))
            if state != before:
                self._waiting[place] = (state, self._clock())
                return None
            if self._clock() - since < STILL_SECONDS:
                return None
        self._waiting.pop(place, None)
        if not (found.rows or found.traces or found.problems or place in self._known):
            return None
        self._known[place] = None
        return Reading(place, found.rows, found.traces, found.problems)


def _places(folder: str) -> Iterator[str]:
    """The run folders and files in a new folder."""
    for place in places(folder, set()):
        if isinstance(place, Problem):
            continue
        if not place.is_folder:
            yield place.path
        elif sniff(Path(place.path)):
            place.skip = RUN_FILES
            yield str(Path(place.path))
        else:
            place.skip = frozenset({CREDIT})


def _state(place: Path) -> tuple[_Stamp, ...] | None:
    """Size and time of a file, or of a run folder's own files; None if it does not exist."""
    if not place.is_dir():
        if place.exists():
            return (_stamp(place),)
        return None
    if (place / MANIFEST).exists():
        return tuple(_stamp(place / name) for name in sorted(RUN_FILES - {PROGRESS}))
    return None


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return 0, 0.0
    return status.st_size, status.st_mtime


_TICK_MILLISECONDS = 400
"""Seconds between checks of waiting files and missing folders."""

_PAUSE_SECONDS = 0.002

_BEFORE_SCAN_SECONDS = 2.0
"""Tolerance in seconds between the clocks of files and of this machine."""


class Root(NamedTuple):
    """A followed folder with its contents, or a single file.

    Attributes:
        real: its resolved path, as in events.
        named: its path as opened.
        is_folder: whether it is a folder.
    """

    real: str
    named: str
    is_folder: bool

    @property
    def watched(self) -> str:
        """The watched folder; of a file its parent, since a replaced file is another one."""
        if self.is_folder:
            return self.real
        return str(Path(self.real).parent)

    def name_of(self, path: str) -> str | None:
        """A path as named by `scan`, or None if it is not followed."""
        inside = path.removeprefix(self.real)
        if inside and (inside == path or not inside.startswith(os.sep)):
            return None
        # hidden files and backups (``audit.json.~1~``), like `scan`
        if any(part.startswith(".") or part.endswith("~") for part in Path(inside).parts):
            return None
        # not Path, which turns "./x" into "x"
        return f"{self.named.rstrip(os.sep)}{inside}"

    def identity(self) -> tuple[int, int] | None:
        """Identity of the folder; None if it does not exist. A folder created again has another
        one."""
        try:
            status = Path(self.watched).stat()
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return (status.st_dev, status.st_ino)
        return None


def roots_of(paths: Iterable[Path]) -> list[list[Root]]:
    """Roots of paths in two groups: folders and single files."""
    roots = [Root(str(real_path(path)), str(path), path.is_dir()) for path in paths]
    groups = (
        [root for root in roots if root.is_folder is are_folders] for are_folders in (True, False)
    )
    return [group for group in groups if group]


class Watcher(threading.Thread):
    """Thread that follows folders until it is stopped.

    Args:
        roots: one group of `roots_of`.
        known: sources read already.
        on_change: called in this thread with what is new.
        on_work: called in this thread with what processes do with runs, where that changed.
        on_note: called in this thread with one line for the user.
        polling: look now and then, also where the system reports changes.
        poll_seconds: how often to look.
        since: when the first scan began (`time.time`): what is younger is read again.
        read: reads a place.
        ignore: files that are shown without being read.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        known: Iterable[str],
        on_change: Callable[[list[Reading]], object],
        *,
        on_work: Callable[[dict[str, RunWork | None]], object] = _ignore,
        on_note: Callable[[str], object] = _ignore,
        polling: bool = False,
        poll_seconds: float = 2.0,
        since: float = math.inf,
        read: Callable[[str], Scan] = scan_again,
        ignore: Iterable[Path] = (),
    ) -> None:
        super().__init__(name="watcher", daemon=True)
        self._ended = threading.Event()
        self._roots = roots
        self._follower = Follower(known, read=read, pause=lambda: self._ended.wait(_PAUSE_SECONDS))
        self._on_change, self._on_work, self._on_note = on_change, on_work, on_note
        self._polls = polling
        self._poll_seconds = poll_seconds
        self._since = since - _BEFORE_SCAN_SECONDS
        self._ignored = {str(real_path(path)) for path in ignore}

    def stop(self) -> None:
        """Stop soon, without further calls."""
        self._ended.set()

    def run(self) -> None:
        while not self._ended.is_set():
            if all(root.identity() for root in self._roots):
                self._watch()
            # a folder is missing or cannot be watched; it may return with other files
            self._since = 0.0
            self._follower.note_known()
            self._follower.note_work()
            self._report()
            self._ended.wait(_TICK_MILLISECONDS / 1000)

    def _watch(self) -> None:
        """Follow until stopped, or until a folder is gone."""
        from watchfiles import Change, watch

        watched, before = (
            {root.watched for root in self._roots},
            [root.identity() for root in self._roots],
        )
        try:
            batches = watch(
                *watched,
                watch_filter=None,
                step=100,
                stop_event=self._ended,
                rust_timeout=_TICK_MILLISECONDS,
                yield_on_timeout=True,
                force_polling=self._polls or None,
                poll_delay_ms=round(self._poll_seconds * 1000),
                recursive=self._roots[0].is_folder,
                ignore_permission_denied=True,
            )
            for number, changes in enumerate(batches):
                if number == 0:
                    self._note_missed()
                    self._follower.note_work()
                for change, path in sorted(changes, key=lambda each: each[1]):
                    # a folder's stamp adds nothing to its files' stamps
                    if change is not Change.modified or not Path(path).is_dir():
                        self._note(path)
                self._report()
                lost = {path for change, path in changes if change is Change.deleted} & watched
                if lost or before != [root.identity() for root in self._roots]:
                    return
        except (OSError, RuntimeError) as error:
            if not self._polls:
                self._polls = True
                self._on_note(
                    f"looking for changes every {self._poll_seconds:g} s: the system tells none "
                    f"({error})"
                )

    def _note(self, path: str) -> None:
        if path in self._ignored:
            return
        for root in self._roots:
            name = root.name_of(path)
            if name is not None:
                self._follower.note(name)

    def _report(self) -> None:
        readings = self._follower.take()
        if readings and not self._ended.is_set():
            self._on_change(readings)
        work = self._follower.take_work()
        if work and not self._ended.is_set():
            self._on_work(work)

    def _note_missed(self) -> None:
        """Files written before the watch began: during the first scan, or while a folder was
        missing."""
        for root in self._roots:
            for place in _places(root.real) if root.is_folder else [root.real]:
                if any(written >= self._since for _, written in _state(Path(place)) or ()):
                    self._note(place)


class Following:
    """The watchers of one explorer.

    Args:
        app: the explorer; its session takes the changes, and its paths later followed paths.
        since: start of reading its paths (`time.time`).

    Attributes:
        watchers: one for folders and one for single files, once started.
        own_rows: rows being written by this explorer; events may arrive before they are shown.
    """

    def __init__(self, app: ExplorerApp, since: float) -> None:
        self._app, self._since = app, since
        self.watchers: list[Watcher] = []
        self.own_rows: set[int] = set()

    def watch(self, paths: Sequence[Path], ignore: Iterable[Path] = ()) -> None:
        """Follow paths, unless the settings forbid it.

        Args:
            paths: the paths.
            ignore: files that the explorer itself writes.
        """
        app, session, settings = self._app, self._app.session, self._app.settings
        if settings.live == "off":
            return
        # problems of the settings belong to no place
        wrong = (problem.path for problem in session.problems if Path(problem.path).name != FILE)
        known = dict.fromkeys(row.source for row in session.rows) | dict.fromkeys(wrong)
        for group in roots_of(paths):
            watcher = Watcher(
                group,
                known,
                partial(app.post_call, app.folders_changed),
                on_work=partial(app.post_call, app.work_changed),
                on_note=partial(app.post_call, partial(app.say, tone="warn")),
                polling=settings.live == "polling",
                poll_seconds=settings.poll_seconds,
                since=self._since,
                read=partial(scan_again, columns=session.columns),
                ignore=ignore,
            )
            self.watchers.append(watcher)
            watcher.start()

    def stop(self) -> None:
        """End the watchers."""
        for watcher in self.watchers:
            watcher.stop()


_NAMED = 3


def news_of(before: Session, now: Session, news: News, own_rows: Collection[int]) -> str:
    """``2 new: dfa s42, dfa s43   1 gone: ep s42``.

    Args:
        before: the snapshot before the news.
        now: the one after them.
        news: the merged changes.
        own_rows: rows measured here: their reports return from disk unchanged.
    """
    parts = []
    for word, rows in (
        ("new", news.added),
        ("changed", [row for row in news.changed if _looks_changed(before, now, row, own_rows)]),
        ("back", news.back),
        ("gone", news.gone),
    ):
        if rows:
            names = [now.label(row) for row in rows[:_NAMED]] + ["..."] * (len(rows) > _NAMED)
            parts.append(f"{len(rows)} {word}: {', '.join(names)}")
    return "   ".join(parts)


def _looks_changed(before: Session, now: Session, row: int, own_rows: Collection[int]) -> bool:
    if row in own_rows:
        return False
    then = before.flags[row], before.coverage[row]
    return then != (now.flags[row], now.coverage[row])
