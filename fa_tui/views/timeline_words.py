"""What the timeline says about a run at an epoch, and about stopping early. Pure: pieces of lines with their tones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fa_core.analysis import EarlyStop
from fa_tui.session import letters_of
from fa_tui.views.cells import cell_text
from fa_tui.views.epochs import EpochSession
from fa_tui.views.overview import runs_words
from fa_tui.widgets.numbers import short

Pieces = list[tuple[str, str]]


def title_words(
    epochs: EpochSession, runs: int, drawn: int | None, quantity: str, skipped: int = 0, filter: str = ""
) -> Pieces:
    """What is replayed, how much of it is drawn.

    Args:
        epochs: the runs that have a trace.
        runs: how many runs are open.
        drawn: how many have a curve, where that is known.
        quantity: what the matrix shows instead of letters, or ``""``.
        skipped: how many lines of these traces could not be read.
        filter: of the matrix: none of these runs is left out by it.
    """
    numbers, count = epochs.replay.epochs, len(epochs.rows)
    span = f"epochs {numbers[0]}…{numbers[-1]}" if len(numbers) > 1 else f"epoch {numbers[0]}"
    pieces = [(" timeline ", "accent"), (f" {runs_words(count)}, {span} ", "strong")]
    if filter:
        pieces.append((" all, not filtered ", "warn"))
    if runs > count:
        pieces.append((f" {runs - count} without a trace", "dim"))
    growing = sum(trace.unfinished for trace in epochs.replay.traces)
    if growing:
        pieces.append((f"  {growing} still growing", "accent"))
    if skipped:
        pieces.append((f"  {skipped} {'line' if skipped == 1 else 'lines'} of traces skipped (P)", "warn"))
    if epochs.replay.table.assumed.any():
        pieces.append(("  (d) by an assumed baseline", "warn"))
    if drawn is not None and drawn < count:
        pieces.append((f"  {drawn} drawn (* for all)", "warn"))
    if quantity:
        pieces.append((f"  showing {quantity} (v)", "accent"))
    return pieces


def verdict_words(epochs: EpochSession, run: int, ascii_only: bool) -> Pieces:
    """The run, the epoch, its verdict there."""
    mask, coverage = epochs.flags[run], epochs.coverage[run]
    cell = cell_text(letters_of(mask), letters_of(coverage), ascii_only=ascii_only)
    tone = "bad" if mask else "good" if coverage else "dim"
    return [(f"{epochs.name(run)} ", "strong"), (f"{epochs.when(run)}: ", "dim"), (cell, tone)]


def number_words(epochs: EpochSession, run: int) -> Pieces:
    """What was measured on the run at the epoch."""
    report = epochs.rows[run].report
    numbers = (
        ("a", "growth", report.max_per_block_growth, 3),
        ("b", "‖g_L‖", report.g_L, 3),
        ("c", "stability", report.cross_batch_stability, 3),
        ("", "acc", report.headline_acc, 4),
    )
    said = (
        f"{name} {short(value, digits)}{_kind(report.kinds, letter)}"
        for letter, name, value, digits in numbers
        if value is not None
    )
    return [("  ".join(said), "")]


def fire_words(fires: Mapping[str, int | None], kinds: Mapping[str, str]) -> Pieces:
    """The first epoch at which each diagnostic fires, and by what where that is not exact.

    >>> fire_words({"a": 3, "b": None}, {"b": "proxy"})
    [('first fires: ', 'dim'), ('(a) 3  (b) never [proxy]', '')]
    """
    words = [
        f"({letter}) {'never' if epoch is None else epoch}{_kind(kinds, letter)}" for letter, epoch in fires.items()
    ]
    return [("first fires: ", "dim"), ("  ".join(words) or "nothing was judged", "")]


def stop_words(name: str, stop: EarlyStop | None, stop_on: str, epoch: int, kinds: Mapping[str, str]) -> Pieces:
    """Whether a run would have been stopped, and what that saves.

    Args:
        name: the run.
        stop: where, or None.
        stop_on: the letters that stop a run.
        epoch: what is looked at.
        kinds: letter → what its numbers are, where they are not exact.
    """
    if stop is None:
        return [(f"{name}: never stopped on {' or '.join(stop_on)} (s)", "dim")]
    here = "here" if stop.epoch == epoch else f"at epoch {stop.epoch}"
    return [
        (f"{name} would have stopped {here} ", "warn"),
        (f"({', '.join(letter + _kind(kinds, letter) for letter in stop.on)})", "bad"),
        (f": saves {stop.saved:.0%}" if stop.saved else ": its last epoch so far", "strong"),
    ]


def accuracy_words(stop: EarlyStop | None) -> str:
    """What stopping costs, where the trace says it."""
    if stop is None or stop.acc is None or stop.final_acc is None:
        return ""
    return f"accuracy {short(stop.acc, 4)} there, {short(stop.final_acc, 4)} at the end"


def all_words(stops: Sequence[EarlyStop | None], saved: float, stop_on: str) -> Pieces:
    """How many runs would have been stopped, and the share of all epochs that saves."""
    stopped = sum(stop is not None for stop in stops)
    return [
        (f"stop on {' or '.join(stop_on)} (s): ", "dim"),
        (f"{stopped} of {len(stops)} run{'' if len(stops) == 1 else 's'}", ""),
        (f", saves {saved:.0%} of all epochs", "strong" if stopped else "dim"),
    ]


def _kind(kinds: Mapping[str, str], letter: str) -> str:
    """`` [proxy]``, as the detail pane says it; nothing where a number is exact."""
    return f" [{kinds[letter]}]" if letter in kinds else ""
