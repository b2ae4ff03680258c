"""What the training traces show: first fires and early stops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa_core.analysis.timeline import MethodTimeline, Timeline, by_method
from fa_core.report import LETTERS, DiagnosticThresholds
from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading
from fa_core.reporting.numbers import MISSING, fixed
from fa_core.reporting.timeline_figure import timeline_figure


def timelines_block(timelines: Sequence[Timeline], thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Nothing for no traces; else a table over methods, the figure, and what could not be judged."""
    if not timelines:
        return
    yield Heading("Timeline", 2)
    yield Grid(
        headings=(
            "method",
            "seeds",
            *(f"({x}) first fires" for x in LETTERS),
            "stops",
            "saves",
            "acc at stop",
            "final acc",
        ),
        rows=tuple(_row(one) for one in by_method(timelines)),
        caption="First epoch at which each diagnostic fires, one number per seed (–: never); a run stops at the "
        "first fire of (a) or (b).",
        words=2 + len(LETTERS),
    )
    if any(point.coverage or point.acc is not None for one in timelines for point in one.points):
        yield Figure(
            "timeline", timeline_figure(timelines, thresholds), "Diagnostics over epochs; dotted: first fires."
        )
    notes = dict.fromkeys(f"{one.key}: {note}" for one in timelines for note in one.skipped)
    if notes:
        listed = list(notes)
        more = (f"and {len(listed) - 10} more of this kind",) if len(listed) > 10 else ()
        yield Bullets((*listed[:10], *more))


def _row(one: MethodTimeline) -> tuple[str, ...]:
    fires = (
        "/".join("–" if epoch is None else str(epoch) for epoch in one.first_fire[x])
        if x in one.first_fire
        else MISSING
        for x in LETTERS
    )
    axes = ", ".join(f"{name} {value}" for name, value in one.axes.items())
    return (
        f"{one.method} ({axes})" if axes else one.method,
        "/".join("–" if seed is None else str(seed) for seed in one.seeds),
        *fires,
        f"{one.stopped}/{len(one.seeds)}",
        MISSING if one.saved is None else f"{one.saved:.0%}",
        fixed(one.acc_at_stop, 4),
        fixed(one.final_acc, 4),
    )
