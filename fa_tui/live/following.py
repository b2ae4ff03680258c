"""An explorer whose open paths are followed: what is new in them is taken in and said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from fa_tui.session import Flip, News, Session
from fa_tui.settings import FILE, Settings
from fa_tui.terminal.abilities import Terminal
from fa_tui.terminal.dressed import DressedApp

if TYPE_CHECKING:
    from fa_tui.live.changes import Reading
    from fa_tui.live.watcher import Watcher

_BEGIN_SECONDS = 0.3
"""The watchers start when everything is on screen."""

_NAMED = 3


class FoldersChanged(Message):
    """Places hold something else now (posted from a watcher's thread)."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self.readings = readings
        super().__init__()


class WatcherSays(Message):
    """Something a person should know about how folders are followed."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class FollowingApp(DressedApp):
    """Follows paths from when it is told to until it ends.

    Attributes:
        own_news: the rows that are being written here and not shown yet: the disk may tell of them first.

    Args:
        session: what was read from the paths.
        paths: as they were opened.
        since: when reading them began (`time.time`).
        terminal: what the terminal can show.
        settings: how to follow.
    """

    def __init__(
        self, session: Session, paths: Sequence[Path], since: float, terminal: Terminal, settings: Settings
    ) -> None:
        super().__init__(terminal, settings)
        self.session = session
        self.paths = list(paths)
        self._since = since
        self._watchers: list[Watcher] = []
        self.own_news: set[int] = set()

    def follow(self, own_files: Callable[[], Sequence[Path]]) -> None:
        """Start soon.

        Args:
            own_files: names what the explorer writes and shows itself, when it starts.
        """
        if self.paths and self.settings.live != "off":
            self.set_timer(_BEGIN_SECONDS, lambda: self._watch(self.paths, own_files()))

    def is_open(self, path: Path) -> bool:
        """Whether a path is open, or lies in a folder that is."""
        return any(path.resolve().is_relative_to(open_path.resolve()) for open_path in self.paths)

    def also_follow(self, path: Path) -> None:
        """Follow one more path, unless it lies in what is followed already."""
        if not self.is_open(path) and self.settings.live != "off":
            self.paths.append(path)
            self._watch([path], ())

    def _watch(self, paths: Sequence[Path], own_files: Sequence[Path]) -> None:
        from fa_tui.live.watcher import Watcher, roots_of

        session, settings = self.session, self.settings
        # what is wrong with the settings was not read from a place
        wrong = (problem.path for problem in session.problems if Path(problem.path).name != FILE)
        known = dict.fromkeys(row.source for row in session.rows) | dict.fromkeys(wrong)
        watchers = [
            Watcher(
                group,
                known,
                lambda readings: self.tell(FoldersChanged(readings)),
                on_note=lambda text: self.tell(WatcherSays(text)),
                polling=settings.live == "polling",
                poll_seconds=settings.poll_seconds,
                since=self._since,
                ignore=own_files,
            )
            for group in roots_of(paths)
        ]
        self._watchers += watchers
        for watcher in watchers:
            watcher.start()

    def stop_following(self) -> None:
        """End the watchers."""
        for watcher in self._watchers:
            watcher.stop()

    def tell(self, message: Message) -> None:
        """Take a message from another thread, while there is somebody to take it."""
        if self.is_running:
            self.post_message(message)

    def on_folders_changed(self, message: FoldersChanged) -> None:
        session = self.session
        before = list(zip(session.flags, session.coverage, strict=True))
        news = session.merge(message.readings)
        if not news:
            return
        self.rows_changed(only=None if news.added else [*news.changed, *news.gone, *news.back])
        # a report that was just measured here comes back from disk and looks the same
        others = [row for row in news.changed if row not in self.own_news]
        changed = [row for row in others if before[row] != (session.flags[row], session.coverage[row])]
        text = news_text(session, news, changed)
        if text:
            self.say(text, "warn" if news.gone else "accent")

    def on_watcher_says(self, message: WatcherSays) -> None:
        self.say(message.text, "warn")

    def rows_changed(self, flips: Sequence[Flip] = (), only: Sequence[int] | None = None) -> None:
        """Show rows that came, changed, went or are judged otherwise.

        Args:
            flips: the verdicts that flipped with it.
            only: the rows, where none came.
        """
        raise NotImplementedError

    def say(self, text: str, tone: str = "", *, aloud: bool = True) -> None:
        """Say one line about what just happened.

        Args:
            text: the line.
            tone: as `Line` takes it.
            aloud: also on other screens than the main one.
        """
        raise NotImplementedError


def news_text(session: Session, news: News, changed: Sequence[int]) -> str:
    """``2 new: dfa s42, dfa s43   1 gone: ep s42``.

    Args:
        session: after the news.
        news: what was taken in.
        changed: those of the changed rows that look different now.
    """
    parts = []
    for word, rows in (("new", news.added), ("changed", changed), ("back", news.back), ("gone", news.gone)):
        if rows:
            names = ", ".join([session.label(row) for row in rows[:_NAMED]] + ["..."] * (len(rows) > _NAMED))
            parts.append(f"{len(rows)} {word}: {names}")
    return "   ".join(parts)
