"""Seeds, threshold sensitivity, decision utility and training traces as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath

from fa_core.analysis.margins import BOUND
from fa_core.analysis.seeds import NUMBERS, Condition, Difference, SeedGroup, SeedTable, Stat
from fa_core.analysis.threshold_sweep import Sensitivity, Spread
from fa_core.analysis.timeline import MethodTimeline, Timeline, by_method
from fa_core.analysis.utility import Utility
from fa_core.facts.measurements import Interval
from fa_core.judgement.diagnostics import ASSUMED, DIAGNOSTICS, LETTERS
from fa_core.judgement.gamma import CREDIT
from fa_core.judgement.verdict import TRUSTWORTHY
from fa_core.numbers import MISSING, brief, brief_in, factor_spread, fixed, plain, spread, with_axes
from fa_core.option_values import listed
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph, bullets
from fa_core.text.verdict import grounds_text

_BRIEFLY = {"a": "growth", "b": "‖g_L‖", "c": "drift", "d": "margin"}
_SAMPLE = "sample standard deviation"
_DEEP = "All l: mean over every layer; deep: over l ≥ 1 without the layers whose credit comes free."
_RANGE_CELLS = 7
"""Cells of a number in a range, from which on it has three digits: all columns fit into 120."""


def seeds_blocks(analysis: SeedTable) -> Iterator[Block]:
    """Mean and spread per method, how many seeds each diagnostic fires on, and disagreement."""
    apart = any(group.collection for group in analysis.groups)
    if analysis.ddof:
        deviation = _SAMPLE
    else:
        deviation = "population standard deviation"
    columns: dict[str, Callable[[SeedGroup], str]] = {"method": lambda group: group.method}
    if apart:
        columns["from"] = lambda group: PurePath(group.collection).name
    columns |= {axis: partial(_axis, axis=axis) for axis in analysis.by}
    columns |= {"verdict": _verdict, "fires on": fires_on}
    columns["disagree"] = lambda group: ", ".join(group.disagree) or "–"
    columns |= {
        heading: partial(_stat, name=name)
        for name, (_, letter, heading) in NUMBERS.items()
        if letter
    }
    yield Grid.of(
        analysis.groups,
        columns,
        caption=f"Over seeds: mean ± {deviation}, of norms and growth the geometric mean ×/÷ its "
        "factor; "
        "fires on: seeds of those measured, ~n: undecided on n of them; disagree: diagnostics "
        "that fire on some seeds "
        "only.",
        words=4 + apart + len(analysis.by),
        marked=lambda group: any(group.fired.values()),
    )
    credited = [(_of_home(group, group_name(group)), group.stats) for group in analysis.groups]
    yield from _stats_grid(
        "method", credited, tuple(CREDIT), f"Credit quality over seeds: mean ± {deviation}. {_DEEP}"
    )
    notes = by_note(
        (note, group_name(group))
        for group in analysis.groups
        for note in (*group.notes, *_inexact(group))
    )
    yield from bullets((*analysis.notes, *_shares(analysis), *notes))


def _verdict(group: SeedGroup) -> str:
    """The group's word; where it is trustworthy, on what was measured of every seed."""
    if group.verdict != TRUSTWORTHY:
        return group.verdict
    n = max(group.measured.values())
    on_all = [letter for letter, runs in group.measured.items() if runs == n]
    return f"{group.verdict} {grounds_text(on_all, group.evidence)}".rstrip()


def _shares(analysis: SeedTable) -> Iterator[str]:
    """What the counts of seeds say of other seeds: few seeds bound a share from one side at
    best."""
    shares = {
        (one.fired[x], one.measured[x]): share
        for one in analysis.groups
        for x, share in one.fired_share.items()
    }
    said = [
        f"{hits} of {n}: {share_words(share)}"
        for (hits, n), share in sorted(shares.items())
        if hits and n > 1
    ]
    if said:
        yield (
            "Share of all seeds that a count of seeds stands for (exact binomial, 95 %): "
            f"{'; '.join(said)}"
        )


def share_words(share: Interval) -> str:
    """An interval of a share.

    >>> share_words((0.292, 1.0)), share_words((0.0084, 0.906))
    ('at least 29 %', '1 to 91 %')
    """
    low, high = (f"{100 * end:.0f}" for end in share)
    if share[1] == 1:
        return f"at least {low} %"
    return f"{low} to {high} %"


def group_name(group: Condition | MethodTimeline) -> str:
    """The method, with its second axes where it has any."""
    return with_axes(group.method, group.axes)


def _inexact(group: SeedGroup) -> Iterator[str]:
    states = {"bound": "that can show it fires, not that it passes"}
    for x, kind in group.evidence.items():
        if kind != ASSUMED:  # that is said once for the whole table
            yield f"({x}) is a {kind}, {states.get(kind, 'from another layer')}"


def _axis(group: SeedGroup, axis: str) -> str:
    if group.axes[axis] is None:
        return "–"
    return plain(group.axes[axis])


def _stat(group: SeedGroup, name: str) -> str:
    return stat_words(group.stats[name])


def _stats_grid(
    title: str,
    named: Sequence[tuple[str, Mapping[str, Stat]]],
    numbers: Sequence[str],
    caption: str,
) -> Iterator[Grid]:
    """Those of some numbers over seeds that a row has; no table where none has any."""
    shown = [name for name in numbers if any(stats[name].n for _, stats in named)]
    if shown:
        rows = tuple(
            (name, *(stat_words(stats[number]) for number in shown)) for name, stats in named
        )
        yield Grid((title, *(NUMBERS[name][2] for name in shown)), rows, caption)


def differences_blocks(found: Sequence[Difference]) -> Iterator[Block]:
    """The effect of every factor and every interaction, with its spread."""
    named = [(_difference_name(one), one.stats) for one in found]
    for paired, how in (
        (
            True,
            f"paired by seed: mean ± {_SAMPLE} of the differences over the n seeds that all have",
        ),
        (False, "no seed in common: difference of means ± √(Σ s²) over the conditions"),
    ):
        some = [each for each, one in zip(named, found, strict=True) if bool(one.seeds) == paired]
        caption = (
            f"Differences between conditions, {how}; of norms and growth ratios ×/÷ their factor."
        )
        yield from _stats_grid("difference", some, tuple(NUMBERS), caption)


def _difference_name(one: Difference) -> str:
    """``dfa (lam 0.01) − dfa, n = 3``; of an interaction ``(x − y) − (z − w), n = 3``."""
    names = [group_name(each) for each in one.conditions]
    pairs = [f"{first} − {second}" for first, second in zip(names[::2], names[1::2], strict=True)]
    if len(pairs) == 1:
        name = pairs[0]
    else:
        name = " − ".join(f"({pair})" for pair in pairs)
    return _of_home(one.conditions[0], f"{name}, n = {max(stat.n for stat in one.stats.values())}")


def _of_home(condition: Condition, name: str) -> str:
    """A name, with the file or folder in front where several hold the same runs."""
    if condition.collection:
        return f"{PurePath(condition.collection).name}: {name}"
    return name


def fires_on(group: SeedGroup) -> str:
    """Letters with the number of seeds they fire on, of those measured, e.g. ``a 3/3, c 2/3 ~1``:
    undecided on one.

    A group on which nothing fires or is undecided reads ``–``.
    """
    shown = []
    for letter in LETTERS:
        if group.fired[letter] or letter in group.undecided:
            share = f"{group.fired[letter]}/{group.measured[letter]}"
            shown.append(f"{letter} {share}{_basis(group, letter)}")
    return ", ".join(shown) or "–"


def _basis(group: SeedGroup, letter: str) -> str:
    kind = group.evidence.get(letter)
    if kind is None:
        words = ""
    elif kind == ASSUMED:
        words = f" {kind}"
    else:
        words = f" by {kind}"
    if letter in group.undecided:
        return f"{words} ~{group.undecided[letter]}"
    return words


def stat_words(stat: Stat) -> str:
    """Mean ± std, or the geometric mean ×/÷ its factor; how many values are NaN or infinite."""
    geometric = stat.geometric_mean is not None
    if geometric:
        words = factor_spread(stat.geometric_mean, stat.factor)
    else:
        words = spread(stat.mean, stat.std)
    if stat.nonfinite:
        return f"{words} ({stat.nonfinite} NaN/inf)"
    return words


NO_LETTER_CHANGES = "no letter changes"

_GROUPED = (
    "Threshold sensitivity: range (median) of each group, and on how many of its measured runs the "
    "diagnostic fires; the gap between the groups; and the plateau: thresholds at which no run's "
    "letters change."
)
_UNGROUPED = (
    "Threshold sensitivity: range (median) of all runs, and on how many of those measured the "
    "diagnostic fires; and the thresholds at which no run's letters change."
)


def sensitivity_blocks(analysis: Sequence[Sensitivity]) -> Iterator[Block]:
    """Per diagnostic: the groups' ranges and the gap between them; of ungrouped runs one range."""
    grouped = any(one.grouped for one in analysis)
    columns: dict[str, Callable[[Sensitivity], str]] = {"fires when": fires_when}
    if grouped:
        columns["healthy (median) fires"] = lambda one: group_range(one.healthy)
        columns["degenerate (median) fires"] = lambda one: group_range(one.degenerate)
        columns["gap"] = gap_words
        caption = _GROUPED
    else:
        columns["all runs (median) fires"] = lambda one: group_range(one.every)
        caption = _UNGROUPED
    columns[NO_LETTER_CHANGES] = plateau_words
    yield Grid.of(analysis, columns, caption=caption, words=len(columns))
    if any(one.healthy.runs or one.degenerate.runs for one in analysis):
        if analysis[0].neither:
            neither = f" Neither: {', '.join(analysis[0].neither)}."
        else:
            neither = ""
        healthy, degenerate = _names(analysis[0].healthy), _names(analysis[0].degenerate)
        yield Paragraph(f"Healthy: {healthy}. Degenerate: {degenerate}.{neither}")
    notes = (
        (note.removeprefix(f"({one.letter}) "), f"({one.letter})")
        for one in analysis
        for note in one.skipped
    )
    yield from bullets(by_note(notes, "{} {}"))


def by_note(pairs: Iterable[tuple[str, str]], form: str = "{}: {}") -> list[str]:
    """Every note once, with the names that it is said of.

    >>> by_note([("one seed", "bp"), ("no Γ", "bp"), ("one seed", "dfa")])
    ['bp, dfa: one seed', 'bp: no Γ']
    """
    concerned: dict[str, dict[str, None]] = {}
    for note, name in pairs:
        concerned.setdefault(note, {})[name] = None
    return [form.format(listed(names), note) for note, names in concerned.items()]


def _names(group: Spread) -> str:
    return ", ".join(group.methods) or "none"


def fires_when(one: Sensitivity) -> str:
    """``(a) growth > 50``: the diagnostic and its threshold, in few cells."""
    if DIAGNOSTICS[one.letter].fires_above:
        sign = ">"
    else:
        sign = "<"
    return (
        f"({one.letter}) {_BRIEFLY[one.letter]} {sign} "
        f"{brief(one.threshold)}{' pp' if one.unit == 'pp' else ''}"
    )


def group_range(group: Spread) -> str:
    """``min..max (median) fired/measured``."""
    if not group.measured:
        if group.runs:
            return "not measured"
        return "no runs"
    if group.max is None:
        return f"NaN/inf {group.fired}/{group.measured}"
    low, high, median = (
        brief_in(value, _RANGE_CELLS) for value in (group.min, group.max, group.median)
    )
    return f"{low}..{high} ({median}) {group.fired}/{group.measured}"


def gap_words(one: Sensitivity) -> str:
    """The gap with its unit, or that the groups overlap."""
    if one.separable is None:
        return MISSING
    if not one.separable:
        return "overlap"
    if one.gap is None:
        return "separable"
    if DIAGNOSTICS[one.letter].log:
        if one.gap >= 1000:
            return f"{one.gap:,.0f}×"
        return f"{brief(one.gap, 5)}×"
    return f"{brief(one.gap)} {one.unit}"


def plateau_words(one: Sensitivity) -> str:
    """The plateau; an end that nothing bounds is an infinity."""
    if one.plateau is None:
        return MISSING
    return interval_words(*one.plateau)


def interval_words(lo: float | None, hi: float | None) -> str:
    """``(11, 694)``; an end that nothing bounds is an infinity."""
    return f"({'−∞' if lo is None else brief(lo, 6)}, {'∞' if hi is None else brief(hi, 6)})"


def utility_blocks(analysis: Utility) -> Iterator[Block]:
    """Which reporting habit would have withdrawn what."""
    yield Grid.of(
        analysis.strategies,
        {
            "strategy": lambda one: one.name,
            "looks at": lambda one: one.looks_at,
            "walks back": lambda one: f"{len(one.walked_back)}/{analysis.runs}",
            "agreement": lambda one: _share(one.agreement),
        },
        caption=(
            "Decision utility: runs that each reporting habit would withdraw; agreement with "
            "S_full."
        ),
        words=2,
    )
    yield Bullets((smallest_words(analysis.smallest_sets), *analysis.skipped))


def smallest_words(sets: tuple[str, ...]) -> str:
    """The smallest sufficient sets as text."""
    if not sets:
        return "S_full walks back nothing, so there is no set of diagnostics to choose."
    if sets == ("",):
        return "No diagnostic is needed beyond accuracy: S0 withdraws all that S_full does."
    listed = " or ".join("{" + ", ".join(f"({x})" for x in letters) + "}" for letters in sets)
    return f"Smallest set of diagnostics that catches all that S_full catches: {listed}."


NOTES_AT_MOST = 24


def timeline_blocks(timelines: Sequence[Timeline]) -> Iterator[Block]:
    """A table over methods, one over runs, and what could not be judged."""
    if not timelines:
        yield Paragraph("No traces here (epoch logs such as trace.jsonl): nothing to replay.")
        return
    inexact = any(one.evidence for one in timelines)
    if inexact:
        basis = (
            " A bound, a proxy or an assumed baseline is named beside the epoch; all else is exact."
        )
    else:
        basis = ""
    bounded = any(BOUND in one.evidence.values() for one in timelines)
    if bounded:
        undecided = " ~: no lower bound was above the threshold, which says nothing."
    else:
        undecided = ""
    yield Grid.of(
        by_method(timelines),
        {
            "method": group_name,
            "seeds": lambda one: "/".join(map(_epoch, one.seeds)),
            **{f"({x}) first fires": partial(_first_fires, letter=x) for x in LETTERS},
            "runs stopped": lambda one: f"{one.stopped}/{len(one.seeds)}",
            "epochs saved": lambda one: _share(one.saved),
            "acc at stop": lambda one: fixed(one.acc_at_stop, 4),
            "final acc": lambda one: fixed(one.final_acc, 4),
        },
        caption="First epoch at which each diagnostic fires, one number per seed (–: never)."
        + basis
        + undecided,
        words=2 + len(LETTERS),
    )
    columns: dict[str, Callable[[Timeline], str]] = {
        "run": lambda one: one.key,
        "epochs": lambda one: f"{one.epochs}{' (growing)' if one.unfinished else ''}",
        **{f"({x}) first fires": partial(_fire_text, letter=x) for x in LETTERS},
        "stop": _stop_words,
        "epochs saved": lambda one: _share(one.stop.saved if one.stop else None),
        "acc at stop": lambda one: fixed(one.stop.acc if one.stop else None, 4),
        "final acc": lambda one: fixed(one.final_acc, 4),
    }
    gamma = ""
    if any(point.deep_gamma is not None for one in timelines for point in one.points):
        columns |= {"null Γ": _null, "deep Γ": _gammas}
        gamma = " Deep Γ: at the first epoch, halfway and at the last; null: under random feedback."
    yield Grid.of(
        timelines,
        columns,
        caption="Per run; in brackets the epoch since which it fires to the end." + basis + gamma,
        words=2 + len(LETTERS),
        marked=lambda one: one.stop,
    )
    notes = by_note((note, one.key) for one in timelines for note in one.skipped)
    if len(notes) > NOTES_AT_MOST:
        notes[NOTES_AT_MOST:] = [f"and {len(notes) - NOTES_AT_MOST} more of this kind"]
    yield from bullets(notes)


def _share(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.0%}"


def _first_fires(one: MethodTimeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    epochs = (_first(epoch, one.evidence, letter) for epoch in one.first_fire[letter])
    return _with_basis(one.evidence, letter, "/".join(epochs))


def _stop_words(one: Timeline) -> str:
    stop = one.stop
    if stop:
        return f"{stop.epoch} ({', '.join(_with_basis(one.evidence, x, x) for x in stop.on)})"
    return "–"


def _gammas(one: Timeline) -> str:
    """Deep Γ as the training goes on; N/A where it is not defined, as of a method without
    credit."""
    known = [point.deep_gamma for point in one.points if point.deep_gamma is not None]
    if known:
        return " → ".join(f"{known[i]:+.3f}" for i in sorted({0, len(known) // 2, len(known) - 1}))
    return MISSING


def _null(one: Timeline) -> str:
    if one.null is None:
        return MISSING
    return f"{one.null[0]:+.3f} ± {one.null[1]:.3f}"


def _fire_text(one: Timeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    first, lasting = one.first_fire[letter], one.lasting[letter]
    text = _first(first, one.evidence, letter)
    if first != lasting:
        text += " (healed)" if lasting is None else f" ({lasting})"
    return _with_basis(one.evidence, letter, text)


def _with_basis(evidence: Mapping[str, str], letter: str, text: str) -> str:
    """A diagnostic's text, with what its number is where that is not exact."""
    if letter in evidence:
        return f"{text} {evidence[letter]}"
    return text


def _first(epoch: int | None, evidence: Mapping[str, str], letter: str) -> str:
    """The epoch of a first fire; ``–`` for never, ``~`` where only a lower bound did not fire."""
    if epoch is None and evidence.get(letter) == BOUND:
        return "~"
    return _epoch(epoch)


def _epoch(number: int | None) -> str:
    if number is None:
        return "–"
    return str(number)
