"""Seeds, threshold sensitivity, decision utility and training traces as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from fa_core.analysis.partial_audits import BOUND
from fa_core.analysis.seeds import NUMBERS, Condition, Difference, SeedGroup, SeedTable, Stat
from fa_core.analysis.threshold_sweep import Sensitivity, Spread
from fa_core.analysis.timeline import MethodTimeline, Timeline, by_method
from fa_core.analysis.utility import Utility
from fa_core.facts.measurements import Interval
from fa_core.judgement.diagnostics import ASSUMED, DIAGNOSTICS, LETTERS
from fa_core.judgement.gamma import CREDIT
from fa_core.judgement.verdict import TRUSTWORTHY
from fa_core.numbers import MISSING, brief, brief_in, factor_spread, fixed, plain, spread, with_axes
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph, bullets, by_note
from fa_core.text.verdict import grounds_text
from fa_core.trace import EPOCH, common_unit

_BRIEFLY = {"a": "growth", "b": "‖g_L‖", "c": "drift", "d": "margin"}
_SAMPLE = "sample standard deviation"
_DEEP = "All l: mean over every layer; deep: over l ≥ 1 without the layers whose credit comes free."
_RANGE_CELLS = 7
"""Cells of a number in a range, so that all columns fit into 120."""


def seeds_blocks(analysis: SeedTable) -> Iterator[Block]:
    """Mean and spread per method, numbers of seeds that fire, and disagreement."""
    groups = analysis.groups
    apart = any(group.collection for group in groups)
    deviation = _SAMPLE if analysis.ddof else "population standard deviation"
    headings = ["method", *analysis.by, "verdict", "fires on", "disagree"]
    if apart:
        headings.insert(1, "from")
    words = len(headings)
    headings += [number.heading for number in NUMBERS.values() if number.letter]
    rows: list[tuple[str, ...]] = []
    marked = set()
    credited = []
    notes: list[tuple[str, str]] = []
    for group in groups:
        name = group_name(group)
        if any(group.fired.values()):
            marked.add(len(rows))
        rows.append(tuple(_seed_cells(group, apart)))
        credited.append((_of_home(group, name), group.stats))
        for note in (*group.notes, *_inexact(group)):
            notes.append((note, name))
    yield Grid(
        tuple(headings),
        tuple(rows),
        caption=f"Over seeds: mean ± {deviation}, of norms and growth the geometric mean ×/÷ its "
        "factor; fires on: seeds of those measured, ~n: undecided on n of them; disagree: "
        "diagnostics that fire on some seeds only.",
        words=words,
        marked=frozenset(marked),
    )
    caption = f"Credit quality over seeds: mean ± {deviation}. {_DEEP}"
    yield from _stats_grid("method", credited, tuple(CREDIT), caption)
    yield from bullets((*analysis.notes, *_shares(analysis), *by_note(notes)))


def _seed_cells(group: SeedGroup, apart: bool) -> Iterator[str]:
    yield group.method
    if apart:
        yield PurePath(group.collection).name
    for value in group.axes.values():
        yield "–" if value is None else plain(value)
    yield _verdict(group)
    yield fires_on(group)
    yield ", ".join(group.disagree) or "–"
    for name, number in NUMBERS.items():
        if number.letter:
            yield stat_words(group.stats[name])


def _verdict(group: SeedGroup) -> str:
    """The group's verdict; a trustworthy one with its grounds, measured on every seed."""
    if group.verdict != TRUSTWORTHY:
        return group.verdict
    n = max(group.measured.values())
    on_all = [letter for letter, runs in group.measured.items() if runs == n]
    return f"{group.verdict} {grounds_text(on_all, group.evidence)}".rstrip()


def _shares(analysis: SeedTable) -> Iterator[str]:
    """The interval of the share of all seeds behind each count of seeds."""
    shares = {}
    for group in analysis.groups:
        for x, share in group.fired_share.items():
            shares[group.fired[x], group.measured[x]] = share_words(share)
    known = [f"{hits} of {n}: {shares[hits, n]}" for hits, n in sorted(shares) if hits and n > 1]
    if known:
        what = "Share of all seeds that a count of seeds stands for (exact binomial, 95 %)"
        yield f"{what}: {'; '.join(known)}"


def share_words(share: Interval) -> str:
    """An interval of a share as text.

    >>> share_words((0.292, 1.0)), share_words((0.0084, 0.906))
    ('at least 29 %', '1 to 91 %')
    """
    low, high = (f"{100 * end:.0f}" for end in share)
    if share[1] == 1:
        return f"at least {low} %"
    return f"{low} to {high} %"


def group_name(group: Condition | MethodTimeline) -> str:
    """The method with its second axes."""
    return with_axes(group.method, group.axes)


def _inexact(group: SeedGroup) -> Iterator[str]:
    states = {"bound": "that can show it fires, not that it passes"}
    for x, kind in group.evidence.items():
        # a note of the table covers assumed ones
        if kind != ASSUMED:
            yield f"({x}) is a {kind}, {states.get(kind, 'from another layer')}"


def _stats_grid(
    title: str,
    named: Sequence[tuple[str, Mapping[str, Stat]]],
    numbers: Sequence[str],
    caption: str,
) -> Iterator[Grid]:
    """A table of the numbers that some row has, if there are any."""
    shown = [number for number in numbers if any(stats[number].n for _, stats in named)]
    records = []
    for name, stats in named:
        cells = {NUMBERS[number].heading: stat_words(stats[number]) for number in shown}
        records.append({title: name, **cells})
    if shown:
        yield Grid.of(records, caption)


def differences_blocks(found: Sequence[Difference]) -> Iterator[Block]:
    """Effects of factors and interactions, with their spread."""
    paired = [one for one in found if one.seeds]
    unpaired = [one for one in found if not one.seeds]
    how = f"paired by seed: mean ± {_SAMPLE} of the differences over the n seeds that all have"
    yield from _differences_grid(paired, how)
    how = "no seed in common: difference of means ± √(Σ s²) over the conditions"
    yield from _differences_grid(unpaired, how)


def _differences_grid(found: Sequence[Difference], how: str) -> Iterator[Grid]:
    named = [(_difference_name(one), one.stats) for one in found]
    caption = f"Differences between conditions, {how}; of norms and growth ratios ×/÷ their factor."
    yield from _stats_grid("difference", named, tuple(NUMBERS), caption)


def _difference_name(one: Difference) -> str:
    """``dfa (lam 0.01) − dfa, n = 3``; of an interaction ``(x − y) − (z − w), n = 3``."""
    first, second, *others = map(group_name, one.conditions)
    name = f"{first} − {second}"
    if others:
        name = f"({name}) − ({' − '.join(others)})"
    n = max(stat.n for stat in one.stats.values())
    return _of_home(one.conditions[0], f"{name}, n = {n}")


def _of_home(condition: Condition, name: str) -> str:
    """A name, prefixed with its file or folder if several hold the same runs."""
    if condition.collection:
        return f"{PurePath(condition.collection).name}: {name}"
    return name


def fires_on(group: SeedGroup) -> str:
    """Letters with the numbers of seeds they fire on, of those measured, and are undecided on.

    For example ``a 3/3, c 2/3 ~1``; ``–`` for a group where none fires or is undecided.
    """
    shown = []
    for letter in LETTERS:
        if group.fired[letter] or letter in group.undecided:
            share = f"{group.fired[letter]}/{group.measured[letter]}"
            shown.append(f"{letter} {share}{_basis(group, letter)}")
    return ", ".join(shown) or "–"


def _basis(group: SeedGroup, letter: str) -> str:
    kind = group.evidence.get(letter)
    words = ""
    if kind == ASSUMED:
        words = f" {kind}"
    elif kind:
        words = f" by {kind}"
    if letter in group.undecided:
        words += f" ~{group.undecided[letter]}"
    return words


def stat_words(stat: Stat) -> str:
    """Mean ± std, or geometric mean ×/÷ factor; with the number of NaN or infinite values."""
    if stat.geometric_mean is None:
        words = spread(stat.mean, stat.std)
    else:
        words = factor_spread(stat.geometric_mean, stat.factor)
    if stat.nonfinite:
        words += f" ({stat.nonfinite} NaN/inf)"
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
    """Per diagnostic: ranges of the groups and the gap between them, or one range of all."""
    grouped = any(one.grouped for one in analysis)
    records = [_sensitivity_record(one, grouped) for one in analysis]
    caption = _GROUPED if grouped else _UNGROUPED
    yield Grid.of(records, caption, words=len(records[0]))
    first = analysis[0]
    if any(one.healthy.runs or one.degenerate.runs for one in analysis):
        groups = f"Healthy: {_names(first.healthy)}. Degenerate: {_names(first.degenerate)}."
        if first.neither:
            groups += f" Neither: {', '.join(first.neither)}."
        yield Paragraph(groups)
    notes: list[tuple[str, str]] = []
    for one in analysis:
        letter = f"({one.letter})"
        notes += [(note.removeprefix(f"{letter} "), letter) for note in one.skipped]
    yield from bullets(by_note(notes, "{} {}"))


def _sensitivity_record(one: Sensitivity, grouped: bool) -> dict[str, str]:
    record = {"fires when": fires_when(one)}
    if grouped:
        record["healthy (median) fires"] = group_range(one.healthy)
        record["degenerate (median) fires"] = group_range(one.degenerate)
        record["gap"] = gap_words(one)
    else:
        record["all runs (median) fires"] = group_range(one.every)
    record[NO_LETTER_CHANGES] = plateau_words(one)
    return record


def _names(group: Spread) -> str:
    return ", ".join(group.methods) or "none"


def fires_when(one: Sensitivity) -> str:
    """The rule of a diagnostic, abbreviated: ``(a) growth > 50``."""
    sign = ">" if DIAGNOSTICS[one.letter].fires_above else "<"
    unit = " pp" if one.unit == "pp" else ""
    return f"({one.letter}) {_BRIEFLY[one.letter]} {sign} {brief(one.threshold)}{unit}"


def group_range(group: Spread) -> str:
    """``min..max (median) fired/measured``."""
    if not group.measured:
        if group.runs:
            return "not measured"
        return "no runs"
    if group.max is None:
        return f"NaN/inf {group.fired}/{group.measured}"
    low = brief_in(group.min, _RANGE_CELLS)
    high = brief_in(group.max, _RANGE_CELLS)
    median = brief_in(group.median, _RANGE_CELLS)
    return f"{low}..{high} ({median}) {group.fired}/{group.measured}"


def gap_words(one: Sensitivity) -> str:
    """The gap with its unit, or ``overlap``."""
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
    """The plateau as text; open ends are infinities."""
    if one.plateau is None:
        return MISSING
    return interval_words(*one.plateau)


def interval_words(lo: float | None, hi: float | None) -> str:
    """``(11, 694)``; open ends are infinities."""
    low = "−∞" if lo is None else brief(lo, 6)
    high = "∞" if hi is None else brief(hi, 6)
    return f"({low}, {high})"


def utility_blocks(analysis: Utility) -> Iterator[Block]:
    """The runs that each reporting habit would withdraw."""
    records = []
    for one in analysis.strategies:
        record = {
            "strategy": one.name,
            "looks at": one.looks_at,
            "walks back": f"{len(one.walked_back)}/{analysis.runs}",
            "agreement": _share(one.agreement),
        }
        records.append(record)
    yield Grid.of(
        records,
        caption="Decision utility: runs that each reporting habit would withdraw; agreement with "
        "S_full.",
        words=2,
    )
    yield Bullets((smallest_words(analysis.smallest_sets), *analysis.skipped))


def smallest_words(sets: tuple[str, ...]) -> str:
    """The smallest sufficient sets as text."""
    if not sets:
        return "S_full walks back nothing, so there is no set of diagnostics to choose."
    if sets == ("",):
        return "No diagnostic is needed beyond accuracy: S0 withdraws all that S_full does."
    texts = []
    for letters in sets:
        members = ", ".join(f"({letter})" for letter in letters)
        texts.append(f"{{{members}}}")
    smallest = " or ".join(texts)
    return f"Smallest set of diagnostics that catches all that S_full catches: {smallest}."


NOTES_AT_MOST = 24


def timeline_blocks(timelines: Sequence[Timeline]) -> Iterator[Block]:
    """A table of methods, one of runs, and notes."""
    if not timelines:
        yield Paragraph("No traces here (epoch logs such as trace.jsonl): nothing to replay.")
        return
    unit = common_unit(one.unit for one in timelines)
    kinds = set[str]()
    for one in timelines:
        kinds.update(one.evidence.values())
    basis = undecided = gamma = ""
    if kinds:
        basis = (
            f" A bound, a proxy or an assumed baseline is named beside the {unit}; "
            "all else is exact."
        )
    if BOUND in kinds:
        undecided = " ~: no lower bound was above the threshold, which says nothing."
    yield Grid.of(
        list(map(_method_record, by_method(timelines))),
        caption=f"First {unit} at which each diagnostic fires, one number per seed (–: never)."
        f"{basis}{undecided}",
        words=2 + len(LETTERS),
    )
    records = list(map(_timeline_record, timelines))
    if any(map(_deep_gammas, timelines)):
        gamma = (
            f" Deep Γ: at the first {unit}, halfway and at the last; null: under random feedback."
        )
        for record, one in zip(records, timelines, strict=True):
            record["null Γ"] = _null(one)
            record["deep Γ"] = _gammas(one)
    yield Grid.of(
        records,
        caption=f"Per run; in brackets the {unit} since which it fires to the end.{basis}{gamma}",
        words=2 + len(LETTERS),
        marked=[one.stop for one in timelines],
    )
    pairs: list[tuple[str, str]] = []
    for one in timelines:
        pairs += [(note, one.key) for note in one.skipped]
    notes = by_note(pairs)
    if len(notes) > NOTES_AT_MOST:
        notes[NOTES_AT_MOST:] = [f"and {len(notes) - NOTES_AT_MOST} more of this kind"]
    yield from bullets(notes)


def _method_record(one: MethodTimeline) -> dict[str, str]:
    record = {"method": group_name(one), "seeds": "/".join(map(_epoch, one.seeds))}
    for letter in LETTERS:
        record[f"({letter}) first fires"] = _first_fires(one, letter)
    record["runs stopped"] = f"{one.stopped}/{len(one.seeds)}"
    record["epochs saved"] = _share(one.saved)
    record["acc at stop"] = fixed(one.acc_at_stop, 4)
    record["final acc"] = fixed(one.final_acc, 4)
    return record


def _timeline_record(one: Timeline) -> dict[str, str]:
    stop = "–"
    saved = acc = None
    if one.stop:
        letters = [_with_basis(one.evidence, letter, letter) for letter in one.stop.on]
        stop = f"{one.stop.epoch} ({', '.join(letters)})"
        saved = one.stop.saved
        acc = one.stop.acc
    count = str(one.epochs)
    if one.unfinished:
        count += " (growing)"
    record = {"run": one.key, "epochs" if one.unit == EPOCH else "records": count}
    for letter in LETTERS:
        record[f"({letter}) first fires"] = _fire_text(one, letter)
    record["stop"] = stop
    record["epochs saved"] = _share(saved)
    record["acc at stop"] = fixed(acc, 4)
    record["final acc"] = fixed(one.final_acc, 4)
    return record


def _share(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.0%}"


def _first_fires(one: MethodTimeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    epochs = (_first(epoch, one.evidence, letter) for epoch in one.first_fire[letter])
    return _with_basis(one.evidence, letter, "/".join(epochs))


def _deep_gammas(one: Timeline) -> list[float]:
    return [point.deep_gamma for point in one.points if point.deep_gamma is not None]


def _gammas(one: Timeline) -> str:
    """Deep Γ at the first epoch, halfway and at the last; N/A if undefined."""
    known = _deep_gammas(one)
    if not known:
        return MISSING
    n = len(known)
    places = sorted({0, n // 2, n - 1})
    return " → ".join(f"{known[place]:+.3f}" for place in places)


def _null(one: Timeline) -> str:
    if one.null is None:
        return MISSING
    mean, std = one.null
    return f"{mean:+.3f} ± {std:.3f}"


def _fire_text(one: Timeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    first = one.first_fire[letter]
    lasting = one.lasting[letter]
    text = _first(first, one.evidence, letter)
    if first != lasting:
        since = "healed" if lasting is None else lasting
        text += f" ({since})"
    return _with_basis(one.evidence, letter, text)


def _with_basis(evidence: Mapping[str, str], letter: str, text: str) -> str:
    """A diagnostic's text, with the kind of an inexact number."""
    if letter in evidence:
        return f"{text} {evidence[letter]}"
    return text


def _first(epoch: int | None, evidence: Mapping[str, str], letter: str) -> str:
    """The epoch of a first fire; ``–`` for never, ``~`` if only a lower bound did not fire."""
    if epoch is None and evidence.get(letter) == BOUND:
        return "~"
    return _epoch(epoch)


def _epoch(number: int | None) -> str:
    if number is None:
        return "–"
    return str(number)
