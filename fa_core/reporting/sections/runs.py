"""Headline numbers and verdicts per run, and the diagnostics per layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fa_core.analysis.groups import run_names
from fa_core.analysis.margins import coverage
from fa_core.baseline import assumed_words
from fa_core.naming import listed
from fa_core.report import ASSUMED, LETTERS, NOT_MEASURED, PHRASES, TRUSTWORTHY, DiagnosticReport, DiagnosticThresholds
from fa_core.reporting.blocks import Block, Bullets, Grid, Heading, Paragraph
from fa_core.reporting.numbers import MISSING, brief, fixed, significant
from fa_core.table import AuditTable, letters_of

ROWS_AT_MOST = 300
"""Per-run tables stop here; CSV and Parquet hold every run."""


def thresholds_block(thresholds: DiagnosticThresholds) -> Block:
    """What every verdict of the report is judged by."""
    return Paragraph(
        f"Thresholds: (a) fires above a growth of {thresholds.h_norm_explosion_ratio:g}x per block, "
        f"(b) below ‖g_L‖ = {brief(thresholds.g_norm_floor)}, (c) above a cosine of "
        f"{thresholds.stability_drift_ceiling:g}, (d) below a margin of {thresholds.frozen_acc_margin_pp:g} pp "
        "over the same net with frozen random blocks. Strict: a value equal to its threshold does not fire. "
        "A value that was not measured neither fires nor passes; a NaN or infinity fires. "
        f"A walk-back because of {'; '.join(f'({x}) reads “{phrase}”' for x, phrase in PHRASES.items())}."
    )


def summary(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """How many runs, what they came out as, and what was not measured."""
    verdicts = table.verdicts(thresholds)
    n, trusted, unmeasured = len(verdicts), verdicts.count(TRUSTWORTHY), verdicts.count(NOT_MEASURED)
    walked = n - trusted - unmeasured
    methods = list(dict.fromkeys(str(method) for method in table.method))
    seeds = [seed for seed in table.seeds if seed is not None]
    said = [f"{_runs(n)} of {len(methods)} {'method' if len(methods) == 1 else 'methods'} ({listed(methods, 24)})"]
    if seeds:
        word = "seed" if len(seeds) == 1 else "seeds"
        said.append(f"{word} {', '.join(map(str, seeds))}" if len(seeds) <= 12 else f"{len(seeds)} seeds")
    yield Paragraph("; ".join(said) + ".")
    yield Paragraph(
        f"{trusted} trustworthy, {walked} {'needs' if walked == 1 else 'need'} walk-back"
        + (f", {unmeasured} not measured" if unmeasured else "")
        + "."
    )
    yield from _caveats(table)


def _runs(count: int) -> str:
    return f"{count} {'run' if count == 1 else 'runs'}"


def _caveats(table: AuditTable) -> Iterator[Block]:
    seen = coverage(table)
    said = [
        f"{method}: nothing was measured"
        if letters == LETTERS
        else f"{method}: ({', '.join(letters)}) was not measured on any run, so its verdicts do not speak of it"
        for method, letters in seen.missing.items()
    ]
    said += filter(None, [assumed_words(table)])
    said += [f"({x}) is NaN or infinite on {_runs(count)}" for x, count in seen.nonfinite.items() if count]
    differing = [i for i in range(len(table)) if table.report(i).coverage and table.report(i).recorded_differs]
    names = run_names(table)
    said += [f"{names[i]} is recorded as “{table.report(i).recorded_verdict}” in its source" for i in differing]
    if said:
        yield Bullets(tuple(said))


def verdict_table(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """One row per run: the numbers that decide, and the verdict."""
    names, flags = run_names(table), table.flags(thresholds)
    shown = range(min(len(table), ROWS_AT_MOST))
    yield Grid(
        headings=("run", "measured", "verdict", "acc", "(a) growth", "‖h_L‖", "(b) ‖g_L‖", "(c) cosine", "(d) pp"),
        rows=tuple((names[i], *_verdict_cells(table.report(i), letters_of(int(flags[i])))) for i in shown),
        caption="Headline numbers and verdicts. acc: test accuracy, a fraction; growth: largest ratio of median "
        "norms from one layer to the next; ‖h_L‖, ‖g_L‖: medians over the batch at the deepest layer; cosine: mean "
        "over pairs of batches; pp: 100·(acc − frozen baseline).",
        words=3,
        marked=frozenset(i for i in shown if flags[i]),
    )
    if len(table) > ROWS_AT_MOST:
        left = len(table) - ROWS_AT_MOST
        yield Paragraph(f"{left} more {'run is' if left == 1 else 'runs are'} in the CSV and Parquet forms.")


def _verdict_cells(report: DiagnosticReport, fired: str) -> tuple[str, ...]:
    measured = "".join(x if x in report.measured else "·" for x in LETTERS)
    assumed = report.kinds.get("d") == ASSUMED and "d" in report.coverage
    growth = report.max_per_block_growth
    return (
        measured + ("*" if report.evidence else "") + (", d assumed" if assumed else ""),
        f"walk-back ({', '.join(fired)})" if fired else report.verdict if not report.coverage else TRUSTWORTHY,
        fixed(report.headline_acc, 4),
        significant(growth) + ("x" if growth is not None else ""),
        significant(report.h_L),
        significant(report.g_L),
        fixed(report.cross_batch_stability, 3, sign=True),
        fixed(report.margin_pp, 2, sign=True) + (f" (baseline {report.baseline_words()})" if assumed else ""),
    )


def evidence_note(table: AuditTable) -> Iterator[Block]:
    """Runs whose numbers are bounds or proxies."""
    kinds: Counter[str] = Counter()
    for i in range(len(table)):
        for letter, kind in table.report(i).evidence.items():
            kinds[f"({letter}) is a {kind}"] += 1
    if kinds:
        yield Paragraph(
            "* From partial logs: "
            + "; ".join(f"{what} on {_runs(count)}" for what, count in sorted(kinds.items()))
            + ". A lower bound can show that (a) fires, not that it passes; a proxy stands for another layer."
        )


def layer_tables(table: AuditTable) -> Iterator[Block]:
    """‖h_l‖ and ‖g_l‖ of every run, layer by layer."""
    names = run_names(table)
    shown = range(min(len(table), ROWS_AT_MOST))
    for field, symbol, what in (
        ("residual_norms", "‖h_l‖", "Diagnostic (a): median residual norm per layer"),
        (
            "bp_grad_norms",
            "‖g_l‖",
            "Diagnostic (b): median BP gradient norm per layer (of the batch-mean CE: carries 1/B)",
        ),
    ):
        rows = {i: list(getattr(table.report(i), field)) for i in shown}
        deepest = max((len(row) for row in rows.values()), default=0)
        if not deepest:
            yield Paragraph(f"{what}: not measured on any run.")
            continue
        yield Grid(
            headings=("run", *(f"l = {l}" for l in range(deepest))),
            rows=tuple(
                (names[i], *(significant(v) for v in row), *([MISSING] * (deepest - len(row))))
                for i, row in rows.items()
                if row
            ),
            caption=f"{what}, {symbol}.",
        )


def heading_of(collection: str) -> Heading:
    """The heading of one file's or folder's runs."""
    from pathlib import PurePath

    return Heading(PurePath(collection).name or collection, 2)
