"""What the training traces show: first fires and early stops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fa_core.analysis.timeline import MethodTimeline, Timeline, by_method
from fa_core.report import LETTERS
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.numbers import MISSING, fixed

NOTES_AT_MOST = 10


def timeline_blocks(timelines: Sequence[Timeline]) -> Iterator[Block]:
    """A table over methods, one over runs, and what could not be judged."""
    if not timelines:
        yield Paragraph("No traces here (epoch logs such as trace.jsonl): nothing to replay.")
        return
    fires = tuple(f"({x}) first fires" for x in LETTERS)
    inexact = any(one.evidence for one in timelines)
    basis = " A bound, a proxy or an assumed baseline is named beside the epoch; all else is exact." if inexact else ""
    yield Grid(
        headings=("method", "seeds", *fires, "runs stopped", "epochs saved", "acc at stop", "final acc"),
        rows=tuple(_method_row(one) for one in by_method(timelines)),
        caption="First epoch at which each diagnostic fires, one number per seed (–: never)." + basis,
        words=2 + len(LETTERS),
    )
    yield Grid(
        headings=("run", "epochs", *fires, "stop", "epochs saved", "acc at stop", "final acc"),
        rows=tuple(_run_row(one) for one in timelines),
        caption="Per run; in brackets the epoch since which it fires to the end." + basis,
        words=2 + len(LETTERS),
        marked=frozenset(i for i, one in enumerate(timelines) if one.stop is not None),
    )
    notes = list(dict.fromkeys(f"{one.key}: {note}" for one in timelines for note in one.skipped))
    if len(notes) > NOTES_AT_MOST:
        notes[NOTES_AT_MOST:] = [f"and {len(notes) - NOTES_AT_MOST} more of this kind"]
    if notes:
        yield Bullets(tuple(notes))


def _method_row(one: MethodTimeline) -> tuple[str, ...]:
    fires = (
        _told(one.evidence, x, "/".join(map(_epoch, one.first_fire[x]))) if x in one.first_fire else MISSING
        for x in LETTERS
    )
    return (
        _named(one.method, one.axes),
        "/".join(map(_epoch, one.seeds)),
        *fires,
        f"{one.stopped}/{len(one.seeds)}",
        MISSING if one.saved is None else f"{one.saved:.0%}",
        fixed(one.acc_at_stop, 4),
        fixed(one.final_acc, 4),
    )


def _run_row(one: Timeline) -> tuple[str, ...]:
    stop = one.stop
    return (
        one.key,
        f"{one.epochs}{' (growing)' if one.unfinished else ''}",
        *(_fire(one, x) for x in LETTERS),
        "–" if stop is None else f"{stop.epoch} ({', '.join(_told(one.evidence, x, x) for x in stop.on)})",
        MISSING if stop is None else f"{stop.saved:.0%}",
        fixed(stop.acc, 4) if stop else MISSING,
        fixed(one.final_acc, 4),
    )


def _fire(one: Timeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    first, lasting = one.first_fire[letter], one.lasting[letter]
    text = _epoch(first)
    if first != lasting:
        text += " (healed)" if lasting is None else f" ({lasting})"
    return _told(one.evidence, letter, text)


def _told(evidence: Mapping[str, str], letter: str, text: str) -> str:
    """A diagnostic's text, with what its number is where that is not exact."""
    return f"{text} {evidence[letter]}" if letter in evidence else text


def _epoch(number: int | None) -> str:
    return "–" if number is None else str(number)


def _named(method: str, axes: Mapping[str, Any]) -> str:
    return f"{method} ({', '.join(f'{name} {value}' for name, value in axes.items())})" if axes else method
