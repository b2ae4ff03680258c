"""Colours and marks of runs: one of each per seed, the same on every screen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from fa_core.report.diagnostics import BIT, TRUSTWORTHY, UNDECIDED, WALKS_BACK
from fa_tui.session import Session
from fa_tui.views.glyphs import Glyphs

COLOURS = 6


_TONES = {WALKS_BACK: "bad", UNDECIDED: "warn", TRUSTWORTHY: "good"}


def tone_of(judgement: str) -> str:
    """The tone of a judgement; of controls and unmeasured runs ``"dim"``."""
    return _TONES.get(judgement, "dim")


def letter_tone(session: Session, row: int, letter: str) -> str:
    """The tone of a run's number by the state of its diagnostic; ``"text"`` without a letter."""
    bit = BIT.get(letter, 0)
    for masks, tone in ((session.flags, "bad"), (session.undecided, "warn")):
        if masks[row] & bit:
            return tone
    return "text" if not bit or session.coverage[row] & bit else "dim"


class Seeded(Protocol):
    """A run with its seed, if any."""

    @property
    def seed(self) -> int | None:
        """The seed."""


class Look(NamedTuple):
    """Mark and tone of a run."""

    mark: str
    style: str


def look_at(place: int, glyphs: Glyphs) -> Look:
    """The look of the seed at a place among all seeds.

    >>> from fa_tui.views.glyphs import ASCII, UNICODE
    >>> look_at(1, UNICODE), look_at(7, ASCII)
    (Look(mark='□', style='curve-2'), Look(mark='H', style='curve-2'))
    """
    return Look(glyphs.seeds[place % len(glyphs.seeds)], f"curve-{place % COLOURS + 1}")


class SeedLooks:
    """The look of every seed.

    Args:
        rows: all open runs, so that a filter changes no look.
        glyphs: characters to draw with.
        more: other runs, whose seeds follow.
    """

    def __init__(self, rows: Iterable[Seeded], glyphs: Glyphs, more: Iterable[Seeded] = ()) -> None:
        self._glyphs = glyphs
        self._places: dict[int | None, int] = {}
        for group in (rows, more):
            seeds = {row.seed for row in group if row.seed is not None}
            for seed in sorted(seeds):
                self._places.setdefault(seed, len(self._places))

    def of(self, row: Seeded) -> Look | None:
        """The look of a run; None without a seed."""
        place = self._places.get(row.seed)
        if place is None:
            return None
        return look_at(place, self._glyphs)

    def drawn(self, rows: Sequence[Seeded]) -> list[Look]:
        """The looks of runs drawn together; a run without a seed has one that no seed has."""
        looks = []
        place = len(self._places)
        for row in rows:
            look = self.of(row)
            if look is None:
                look = look_at(place, self._glyphs)
                place += 1
            looks.append(look)
        return looks


def end_labels(rows: Sequence[Seeded], looks: Sequence[Look], names: Sequence[str]) -> list[str]:
    """The labels at the ends of curves: the marks, behind what else differs if marks repeat.

    Args:
        rows: the drawn runs.
        looks: of the runs.
        names: of the runs, distinct.
    """
    marks = [look.mark for look in looks]
    if len({*marks}) == len(marks):
        return marks
    words = [name.split() for name in names]
    common = {*words[0]}.intersection(*words)
    labels = []
    for row, mark, own in zip(rows, marks, words, strict=True):
        left_out = common | {f"s{row.seed}"}
        labels.append(" ".join([*(word for word in own if word not in left_out), mark]))
    return labels
