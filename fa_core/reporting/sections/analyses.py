"""Seeds, threshold sensitivity, decision utility and training traces as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fa_core.analysis.seeds import AVERAGED, SeedGroup, SeedTable, Stat
from fa_core.analysis.threshold_sweep import Sensitivity, Spread
from fa_core.analysis.timeline import MethodTimeline, Timeline, by_method, common_unit
from fa_core.analysis.utility import Utility
from fa_core.formats.trace import EPOCH
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS, TRUSTWORTHY, limit_of
from fa_core.report.gamma import CREDIT
from fa_core.report.numbers import (
    MISSING,
    brief,
    brief_in,
    exact,
    factor_spread,
    on_its_side,
    plain,
    spread,
    with_axes,
)
from fa_core.report.quantities import BY_NAME, JUDGED
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.report.verdict_text import grounds_text
from fa_core.reporting.blocks import Block, Grid, Paragraph, Record, bullets, by_note

_SAMPLE = "sample standard deviation"
_DEEP = "All l: mean over every layer; deep: over l ≥ 1 without the layers whose credit comes free."
_N = "n: of how many, where not of all."
_RANGE_CELLS, _END_CELLS = 7, 6
"""Cells of an end of a range, of groups and of seeds, so that all columns fit into 120."""


def seeds_blocks(analysis: SeedTable) -> Iterator[Block]:
    """Mean and spread per method, numbers of seeds that fire, and disagreement."""
    groups = analysis.groups
    if groups:
        records = [_seed_record(group, analysis.thresholds) for group in groups]
        yield Grid.of(
            records,
            caption=f"Over n seeds: mean ± {_SAMPLE}, of norms and growth the geometric mean "
            "(× its factor); verdict: of all seeds, if they differ MIXED where some need walk-back "
            "and others are trustworthy, else undecided, as where no diagnostic was measured on "
            "all; "
            "fires on: seeds of those measured, ~n: undecided on n of them, "
            f"{MISSING}: not measured; "
            "disagree: diagnostics that fire on some seeds and pass on others.",
            words=len(records[0]) - 1 - len(AVERAGED),
            marked=[any(group.fired.values()) for group in groups],
        )
    if any(len(group.seeds) > 1 for group in groups):
        caption = f"Range over seeds: min … max; {_N}"
        yield Grid.of([_range_record(one, analysis.thresholds) for one in groups], caption)
    yield from _credit_grid(groups)
    yield from bullets(seeds_notes(analysis))


def seeds_notes(analysis: SeedTable) -> list[str]:
    """What a mean mixes or leaves out."""
    said = ((with_axes(group.method, group.axes), group.notes) for group in analysis.groups)
    return [*analysis.notes, *by_note(said)]


def _seed_record(group: SeedGroup, thresholds: DiagnosticThresholds) -> Record:
    record = {"method": full_name(group), "verdict": _verdict(group)}
    record["fires on"] = fires_on(group)
    record["disagree"] = ", ".join(group.disagree) or "–"
    record["n"] = str(len(group.seeds))
    for number in AVERAGED:
        limit = limit_of(number, thresholds)
        record[number.heading] = stat_words(group.stats[number.stat], limit)
    return record


def _range_record(group: SeedGroup, thresholds: DiagnosticThresholds) -> Record:
    record = {"method": full_name(group)}
    for number in AVERAGED:
        stat = group.stats[number.stat]
        ends = MISSING
        if stat.n:
            limit = limit_of(number, thresholds)
            low, high = (brief_in(end, _END_CELLS, limit) for end in (stat.min, stat.max))
            ends = f"{low} … {high}"
        record[number.heading] = ends + _of_how_many(number.stat, group)
    return record


def _of_how_many(number: str, group: SeedGroup) -> str:
    """On how many seeds a number is finite, where on some but not all."""
    n = group.stats[number].n
    return f" (n = {n})" if n not in (0, len(group.seeds)) else ""


def full_name(group: SeedGroup | MethodTimeline) -> str:
    """The method with its second axes, and its file or folder if several hold the same runs."""
    name = with_axes(group.method, group.axes)
    if group.collection:
        return f"{name} in {group.collection}"
    return name


def _verdict(group: SeedGroup) -> str:
    """The group's verdict; a trustworthy one with its grounds, measured on every seed."""
    if group.verdict != TRUSTWORTHY:
        return group.verdict
    seeds = len(group.seeds)
    on_all = [letter for letter, runs in group.measured.items() if runs == seeds]
    return f"{group.verdict} {grounds_text(on_all, group.evidence)}".rstrip()


def _credit_grid(groups: Sequence[SeedGroup]) -> Iterator[Grid]:
    """The credit that some condition has, if there is any."""
    shown = [number for number in CREDIT if any(group.stats[number].n for group in groups)]
    records = [
        {"method": full_name(group)}
        | {CREDIT[x]: stat_words(group.stats[x]) + _of_how_many(x, group) for x in shown}
        for group in groups
    ]
    if shown:
        yield Grid.of(records, f"Credit quality over seeds: mean ± {_SAMPLE}; {_N} {_DEEP}")


def fires_on(group: SeedGroup) -> str:
    """Letters with the numbers of seeds they fire on, of those measured, and are undecided on.

    For example ``a 3/3, c 2/3 ~1, d N/A``; a letter that passes on every seed is left out, and
    ``–`` is none.
    """
    shown = []
    for letter in LETTERS:
        fired, measured = group.fired[letter], group.measured[letter]
        if not measured:
            shown.append(f"{letter} {MISSING}")
        elif fired or letter in group.undecided or measured < len(group.seeds):
            text = _with_basis(group.evidence, letter, f"{letter} {fired}/{measured}")
            if letter in group.undecided:
                text += f" ~{group.undecided[letter]}"
            shown.append(text)
    return ", ".join(shown) or "–"


def stat_words(stat: Stat, limit: float | None = None) -> str:
    """Mean ± std, or geometric mean and factor, on its side of a limit; with the number of NaN or
    infinite values."""
    if stat.geometric_mean is None:
        words = spread(stat.mean, stat.std, limit)
    else:
        words = factor_spread(stat.geometric_mean, stat.factor, limit)
    if stat.nonfinite:
        words += f" ({stat.nonfinite} NaN/inf)"
    return words


_CAPTION = (
    "Threshold sensitivity, controls left out: range (median) of the runs{of}; on how many of "
    "those measured the diagnostic fires, and behind ~ on how many it is undecided; {gap}and the "
    "plateau: the thresholds around this one at which no diagnostic of any run changes."
)


_GAP = "the gap between the nearest ends of the groups' intervals, or overlap; "


def sensitivity_blocks(analysis: Sequence[Sensitivity]) -> Iterator[Block]:
    """Per diagnostic: ranges of the groups and the gap between them, or one range of all."""
    first = analysis[0]  # every diagnostic has the same groups
    records = list(map(_sensitivity_record, analysis))
    of, gap = (" of each group", _GAP) if first.grouped else ("", "")
    yield Grid.of(records, _CAPTION.format(of=of, gap=gap), words=len(records[0]))
    if first.healthy.runs or first.degenerate.runs:
        groups = f"Healthy: {_names(first.healthy)}. Degenerate: {_names(first.degenerate)}."
        if first.neither:
            groups += f" Neither: {', '.join(first.neither)}."
        yield Paragraph(groups)
    said = [
        (f"({one.letter})", [note.removeprefix(f"({one.letter}) ") for note in one.skipped])
        for one in analysis
    ]
    yield from bullets(by_note(said, "{} {}"))


def _sensitivity_record(one: Sensitivity) -> Record:
    record = {"fires when": fires_when(one)}
    if one.grouped:
        record["healthy (median), fires"] = group_range(one.healthy, one.threshold)
        record["degenerate (median), fires"] = group_range(one.degenerate, one.threshold)
        record["gap"] = gap_words(one)
    else:
        record["range (median), fires"] = group_range(one.every, one.threshold)
    record["plateau"] = plateau_words(one)
    return record


def _names(group: Spread) -> str:
    return ", ".join(group.methods) or "none"


def fires_when(one: Sensitivity) -> str:
    """The rule of a diagnostic, abbreviated: ``(a) growth > 50×``."""
    sign = DIAGNOSTICS[one.letter].sign
    quantity = JUDGED[one.letter]
    return f"({one.letter}) {quantity.label} {sign} {exact(one.threshold)}{quantity.suffix}"


def group_range(group: Spread, limit: float) -> str:
    """``min..max (median), fired/measured ~undecided``."""
    if not group.measured:
        if group.runs:
            return "not measured"
        return "no runs"
    fires = f"{group.fired}/{group.measured}"
    if group.undecided:
        fires += f" ~{group.undecided}"
    if group.nonfinite:
        fires += f" ({group.nonfinite} NaN/inf)"
    if group.max is None:
        return fires
    # a mean of two may be beside the limit by the noise of floats alone
    ends = (group.min, group.max, float(plain(group.median)))
    low, high, median = (brief_in(end, _RANGE_CELLS, limit) for end in ends)
    return f"{low}..{high} ({median}), {fires}"


def gap_words(one: Sensitivity) -> str:
    """The gap with its unit, or ``overlap``."""
    if one.separable is None:
        return MISSING
    if not one.separable:
        return "overlap"
    if one.gap is None:
        return "separable"
    if JUDGED[one.letter].log:
        if one.gap >= 1000:
            return f"{one.gap:,.0f}×"
        return f"{brief(one.gap, 5)}×"
    return f"{brief(one.gap)} {one.unit}"


def plateau_words(one: Sensitivity) -> str:
    """The plateau as text, ``(11, 694)``; open ends are infinities."""
    if one.plateau is None:
        return MISSING
    low, high = one.plateau
    below = "−∞" if low is None else on_its_side(low, one.threshold, brief, 6)
    above = "∞" if high is None else on_its_side(high, one.threshold, brief, 6)
    return f"({below}, {above})"


def utility_blocks(analysis: Utility) -> Iterator[Block]:
    """The runs that each reporting habit would withdraw."""
    records = [
        {
            "strategy": one.name,
            "looks at": one.looks_at,
            "walks back": f"{len(one.walked_back)}/{analysis.runs}",
            "undecided": str(one.undecided),
            "not measured": str(analysis.runs - one.judged),
            "catches": _share(one.caught),
            "extra": str(one.extra),
        }
        for one in analysis.strategies
    ]
    yield Grid.of(
        records,
        caption="Decision utility: runs that each reporting habit would withdraw; undecided: runs "
        "that it keeps undecided; not measured: runs without the number that it adds, which go by "
        "accuracy alone; catches: share of S_full's walk-backs that it makes too; extra: "
        "walk-backs that S_full does not make.",
        words=2,
    )
    yield from bullets(analysis.skipped)


def timeline_blocks(timelines: Sequence[Timeline]) -> Iterator[Block]:
    """A table of methods, one of runs, and notes."""
    if not timelines:
        yield Paragraph("No traces here (epoch logs such as trace.jsonl): nothing to replay.")
        return
    unit = common_unit(timelines)
    headings = {letter: f"({letter})" for letter in LETTERS}
    early = (one for run in timelines for one in run.points[:-1])
    if not any("d" in one.coverage for one in early):
        headings["d"] += " last"
    yield Grid.of(
        [_method_record(one, headings) for one in by_method(timelines)],
        caption=f"First {unit} at which each diagnostic fires, one number per seed (–: never, "
        "·: not measured, ~: undecided at the end, healed: passes at the end; what is not exact "
        f"is named beside it), (d) last: judged at the last {unit} alone; would stop: of the runs "
        "of which that is known; "
        "saved and accuracies: means of the runs that stop, else of all.",
        words=2 + len(LETTERS),
    )
    yield Grid.of(
        [_timeline_record(one, headings) for one in timelines],
        caption=f"Per run; in brackets the {unit} since which it fires to the end.",
        words=2 + len(LETTERS),
        marked=[one.stop for one in timelines],
    )
    yield from bullets(by_note((one.key, one.skipped) for one in timelines))


def _method_record(one: MethodTimeline, headings: Mapping[str, str]) -> Record:
    record = {"method": full_name(one), "seeds": "/".join(map(_first, one.seeds))}
    for letter, heading in headings.items():
        record[heading] = _first_fires(one, letter)
    record["would stop"] = f"{one.stopped} of {one.judged}" if one.judged else MISSING
    return record | _ends(one.saved, one.acc_at_stop, one.final_acc)


def _timeline_record(one: Timeline, headings: Mapping[str, str]) -> Record:
    stop, saved, acc = "–" if one.is_judged else MISSING, None, None
    if one.stop:
        letters = [_with_basis(one.evidence, letter, letter) for letter in one.stop.on]
        stop = f"{one.stop.epoch} ({', '.join(letters)})"
        saved, acc = one.stop.saved, one.stop.acc
    count = str(one.epochs)
    if one.unfinished:
        count += " (last line incomplete)"
    record = {"run": one.key, "epochs" if one.unit == EPOCH else "records": count}
    for letter, heading in headings.items():
        record[heading] = _fire_text(one, letter)
    record["would stop"] = stop
    return record | _ends(saved, acc, one.final_acc)


def _ends(saved: float | None, acc: float | None, final_acc: float | None) -> Record:
    text = BY_NAME["acc"].text
    return {
        "would save": _share(saved),
        "acc at stop": text(acc),
        "final acc": text(final_acc),
    }


def _share(value: float | None) -> str:
    if value is None:
        return MISSING
    return f"{value:.0%}"


def _first_fires(one: MethodTimeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    fires = zip(one.first_fire[letter], one.measured, one.undecided, strict=True)
    text = "/".join(
        _first(epoch, letter in undecided) if letter in measured else "·"
        for epoch, measured, undecided in fires
    )
    if healed := one.healed.get(letter):
        text += f" {healed} healed"
    return _with_basis(one.evidence, letter, text)


def _fire_text(one: Timeline, letter: str) -> str:
    if letter not in one.first_fire:
        return MISSING
    first = one.first_fire[letter]
    lasting = one.lasting[letter]
    text = _first(first, letter in one.undecided)
    if first != lasting:
        since = "healed" if letter in one.healed else _first(lasting, letter in one.undecided)
        text += f" ({since})"
    return _with_basis(one.evidence, letter, text)


def _with_basis(evidence: Mapping[str, str], letter: str, text: str) -> str:
    """A diagnostic's text, with the kind of an inexact number."""
    if letter in evidence:
        return f"{text} {evidence[letter]}"
    return text


def _first(epoch: int | None, ends_undecided: bool = False) -> str:
    """An epoch of firing; ``–`` for none, ``~`` if the last epoch is undecided."""
    if epoch is None:
        return "~" if ends_undecided else "–"
    return str(epoch)
