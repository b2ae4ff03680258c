"""Live folders: which places to read again, when, and what is new.

A file is read when it is whole: one that cannot be read is tried again until it has not changed for
a while, and only then called broken. Places are named as `fa_core.formats.scan` names them. A
`Watcher` is a thread that waits for the system's events, or polls where there are none; `Following`
owns the watchers of an explorer and merges what they read into its session.
"""

from __future__ import annotations

import math
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from fa_core.facts.runs import CREDIT, MANIFEST, PROGRESS, RUN_FILES
from fa_core.files import real_path
from fa_core.formats import Scan, scan_again
from fa_core.formats.run_folder import sniff
from fa_core.formats.scan import places
from fa_core.rows import Problem
from fa_core.run_progress import RunWork, look_at
from fa_tui.reading import Reading
from fa_tui.session import News, Session
from fa_tui.settings import FILE

if TYPE_CHECKING:
    from fa_tui.application import Application

STILL_SECONDS = 2.0
"""A file that cannot be read and has not changed for so long is broken, not being written."""

LOOK_AGAIN_SECONDS = 5.0
"""How often to look whether the process that works on a run is still there."""

_CHUNK = 16
"""After so many files the screen's thread is let in: thousands may appear at once."""

_Stamp: TypeAlias = tuple[int, float]


def _ignore(_: object) -> None:
    """A listener that does nothing."""


class Follower:
    """Decides what has to be read again. Lives in one thread; tests bring their own clock.

    Args:
        known: sources that were read already; run folders and files.
        read: what a place holds now.
        clock: seconds.
        pause: called now and then while there is much to read.
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
        """A file or folder appeared, changed or went away."""
        at = Path(path)
        if at.is_dir():
            self._due.update(dict.fromkeys(_places(path)))
        elif at.name == PROGRESS:
            self._work_due[str(at.parent)] = None
        elif at.name in RUN_FILES and (str(at.parent) in self._known or sniff(at.parent)):
            self._due[str(at.parent)] = None
        elif at.name != CREDIT:
            self._due[path] = None
            # where it was a folder, all in it went
            if not at.exists():
                self._vanished.add(at)

    def note_known(self) -> None:
        """Everything that was read may have changed or gone."""
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
        """What is new: every place that was noted and is whole, or broken for good, or gone."""
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
    """The run folders and files in a folder that appeared."""
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
    """Size and time of a file, or of a run folder's own files; None if it is not there (any
    more)."""
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
"""How often to look whether a waiting file is whole and the folders are still there."""

_PAUSE_SECONDS = 0.002

_BEFORE_SCAN_SECONDS = 2.0
"""How much earlier than the first scan a file may be stamped and still have been written after
it."""


class Root(NamedTuple):
    """A folder that is followed with all that is in it, or a single file.

    Attributes:
        real: its resolved path; events name it, and what is in it, by this.
        named: as it was opened.
        is_folder: whether it is one.
    """

    real: str
    named: str
    is_folder: bool

    @property
    def watched(self) -> str:
        """A file is not watched itself: written again and renamed into its place, it is another
        file."""
        if self.is_folder:
            return self.real
        return str(Path(self.real).parent)

    def name_of(self, path: str) -> str | None:
        """What a path is called, or None if it is none of ours."""
        inside = path.removeprefix(self.real)
        if inside and (inside == path or not inside.startswith(os.sep)):
            return None
        # as `scan` leaves them out: what is hidden, and old versions (``audit.json.~1~``)
        if any(part.startswith(".") or part.endswith("~") for part in Path(inside).parts):
            return None
        # not Path: it would turn "./x" into "x", which scan calls "./x"
        return f"{self.named.rstrip(os.sep)}{inside}"

    def identity(self) -> tuple[int, int] | None:
        """Which folder is there; None if none is. Created again under its name, it is another
        one."""
        try:
            status = Path(self.watched).stat()
        except OSError:
            return None
        if stat.S_ISDIR(status.st_mode):
            return (status.st_dev, status.st_ino)
        return None


def roots_of(paths: Iterable[Path]) -> list[list[Root]]:
    """What to follow: the folders, and the single files."""
    roots = [Root(str(real_path(path)), str(path), path.is_dir()) for path in paths]
    groups = (
        [root for root in roots if root.is_folder is are_folders] for are_folders in (True, False)
    )
    return [group for group in groups if group]


class Watcher(threading.Thread):
    """Follows folders until it is stopped.

    Args:
        roots: one group of `roots_of`.
        known: sources read already.
        on_change: called in this thread with what is new.
        on_work: called in this thread with what processes do with runs, where that changed.
        on_note: called in this thread with one line for the user.
        polling: look now and then, also where the system reports changes.
        poll_seconds: how often to look.
        since: when the first scan began (`time.time`): what is younger is read again.
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
        ignore: Iterable[Path] = (),
    ) -> None:
        super().__init__(name="watcher", daemon=True)
        self._ended = threading.Event()
        self._roots = roots
        self._follower = Follower(known, pause=lambda: self._ended.wait(_PAUSE_SECONDS))
        self._on_change, self._on_work, self._on_note = on_change, on_work, on_note
        self._polls = polling
        self._poll_seconds = poll_seconds
        self._since = since - _BEFORE_SCAN_SECONDS
        self._ignored = {str(real_path(path)) for path in ignore}

    def stop(self) -> None:
        """End soon, without another call."""
        self._ended.set()

    def run(self) -> None:
        while not self._ended.is_set():
            if all(root.identity() for root in self._roots):
                self._watch()
            # some folder is gone, or cannot be watched; it may come back with other files in it
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
                    # a folder's own stamp says nothing that its files do not say
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
        """What was written before the watch began: while the first scan was reading, or while a
        folder was gone."""
        for root in self._roots:
            for place in _places(root.real) if root.is_folder else [root.real]:
                if any(written >= self._since for _, written in _state(Path(place)) or ()):
                    self._note(place)


class Following:
    """The watchers of one explorer.

    Args:
        app: the explorer, whose session takes in what is new; a path that is followed later is
            appended to its paths.
        since: when reading its paths began (`time.time`).

    Attributes:
        watchers: one for folders and one for single files, once they are followed.
        own_rows: the rows that are being written here and not shown yet: the disk may report them
            first.
    """

    def __init__(self, app: Application, since: float) -> None:
        self._app, self._since = app, since
        self.watchers: list[Watcher] = []
        self.own_rows: set[int] = set()

    def watch(self, paths: Sequence[Path], ignore: Iterable[Path] = ()) -> None:
        """Start to follow paths, unless the settings forbid it.

        Args:
            paths: what to follow.
            ignore: what the explorer writes and shows itself.
        """
        app, session, settings = self._app, self._app.session, self._app.settings
        if settings.live == "off":
            return
        # what is wrong with the settings was not read from a place
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
                ignore=ignore,
            )
            self.watchers.append(watcher)
            watcher.start()

    def stop(self) -> None:
        """End the watchers."""
        for watcher in self.watchers:
            watcher.stop()

    def take(self, readings: Iterable[Reading]) -> tuple[News, str]:
        """Merge what places hold now into the session; what is new, also as text."""
        session = self._app.session
        before = list(zip(session.flags, session.coverage, strict=True))
        news = session.merge(readings)
        # a report that was just measured here comes back from disk and looks the same
        others = [row for row in news.changed if row not in self.own_rows]
        changed = [
            row for row in others if before[row] != (session.flags[row], session.coverage[row])
        ]
        return news, news_text(session, news, changed)


_NAMED = 3


def news_text(session: Session, news: News, changed: Sequence[int]) -> str:
    """``2 new: dfa s42, dfa s43   1 gone: ep s42``.

    Args:
        session: after the news.
        news: what was taken in.
        changed: those of the changed rows that look different now.
    """
    parts = []
    for word, rows in (
        ("new", news.added),
        ("changed", changed),
        ("back", news.back),
        ("gone", news.gone),
    ):
        if rows:
            names = ", ".join(
                [session.label(row) for row in rows[:_NAMED]] + ["..."] * (len(rows) > _NAMED)
            )
            parts.append(f"{len(rows)} {word}: {names}")
    return "   ".join(parts)
