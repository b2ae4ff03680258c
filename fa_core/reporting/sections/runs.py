"""Tables of runs: verdicts, layers, margins to flip; pitfalls and provenance; judged claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

from fa_core.analysis.claims import FAILS, OUTCOMES, Claim, ClaimResult, SeedOutcome
from fa_core.analysis.seeds import AVERAGED
from fa_core.formats.table import AuditTable, having
from fa_core.report.beside import cause_of_floor, deepest_gain, failure_mode
from fa_core.report.diagnostic_record import DiagnosticRecord, range_text, records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import (
    CONTROL,
    DIAGNOSTICS,
    LETTERS,
    NOT_MEASURED,
    UNDECIDED,
    cell_legend,
    judged_text,
)
from fa_core.report.notes import baseline_text, caveats, unmeasured_texts
from fa_core.report.numbers import MISSING, brief, count_text, listed, on_its_side, significant
from fa_core.report.provenance import fact_text
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds, layers_in_order
from fa_core.report.verdict_text import counted, counts_text, second_reading, verdict_words
from fa_core.reporting.blocks import (
    Block,
    Bullets,
    Grid,
    Heading,
    Paragraph,
    Record,
    bullets,
    by_note,
)

ROWS_AT_MOST = 300
"""Rows of a per-run table; CSV holds every run."""

LAYERS_AT_MOST = 256
"""Layers of a per-layer table; the audit holds every one."""

Run: TypeAlias = tuple[str, DiagnosticReport]
"""A run in a per-run table: its unique name and its report."""


def shown_runs(table: AuditTable, thresholds: DiagnosticThresholds = PROTOCOL) -> list[Run]:
    """The runs of per-run tables, judged by these thresholds (default: the protocol's)."""
    names = table.names[:ROWS_AT_MOST]
    return [(name, table.report(i).with_thresholds(thresholds)) for i, name in enumerate(names)]


def thresholds_table(thresholds: DiagnosticThresholds) -> Block:
    """The rules behind every verdict of the report."""
    records = []
    for letter, one in DIAGNOSTICS.items():
        record = {
            "diagnostic": f"({letter})",
            "fires where": f"{one.rule(thresholds)}{one.quantity.suffix}",
            "a verdict reads": one.phrase,
            "published": one.calibration,
        }
        records.append(record)
    caption = (
        "The four rules. Strict: a value equal to its threshold does not fire. A value that was "
        "not measured neither fires nor passes; a NaN or infinity fires."
    )
    return Grid.of(records, caption, words=4)


def second_readings(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """The successor's verdict on every run (`fa_core.report.verdict_text`)."""
    runs = shown_runs(table, thresholds)
    lines = [f"{name}: {second_reading(run)}" for name, run in runs if run.claim != CONTROL]
    yield Heading("Second reading")
    yield Paragraph("The protocol's successor on the same numbers: D1 to D3 are (a), (b) and (d).")
    yield Bullets(tuple(lines))


def summary(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Numbers of runs, their judgements, and caveats."""
    methods = table.methods
    seeds = sorted({seed for seed in table.seed if seed is not None})
    runs = count_text(len(table), "run")
    of = count_text(len(methods), "method")
    contents = f"{runs} of {of} ({listed(methods, 24)})"
    if seeds:
        contents += f"; {count_text(len(seeds), 'seed')}: {listed(seeds, 12)}"
    yield Paragraph(f"{contents}.")
    reports = (row.report.with_thresholds(thresholds) for row in table.rows())
    yield Paragraph(f"{counts_text(Counter(map(counted, reports)))}.")
    yield from _caveats(table)


def _caveats(table: AuditTable) -> Iterator[Block]:
    notes = [*table.assumed_notes]
    for letter in LETTERS:
        count = int(having(table.nonfinite, letter).sum())
        if count:
            notes.append(f"({letter}) is NaN or infinite on {count_text(count, 'run')}")
    for i, name in enumerate(table.names):
        report = table.report(i)
        if report.coverage and report.recorded_differs:
            notes.append(f"{name} is recorded as “{report.recorded_verdict}” in its source")
    notes += table.uneven_notes
    yield from bullets(notes)


def notes_on_runs(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """What the numbers of single runs rest on."""
    runs = shown_runs(table, thresholds)
    notes = by_note((name, [*unmeasured_texts(run), *caveats(run)]) for name, run in runs)
    if notes:
        yield Heading("Notes on runs")
        yield from bullets(notes)


def verdict_table(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """A row per run: the headline numbers with their intervals, and the verdict."""
    runs = shown_runs(table, thresholds)
    has_controls = any(run.claim == CONTROL for _, run in runs)
    legend = " ".join(cell_legend(controls=has_controls))
    yield Grid.of(
        list(map(_verdict_record, runs)),
        caption="Headline numbers and verdicts. acc: test accuracy, a fraction; growth: largest "
        "ratio of median norms from one layer to the next; ‖h_L‖, ‖g_L‖: medians over the batch at "
        "the deepest layer; drift: mean cosine over pairs of batches; pp: 100·(acc − frozen "
        "baseline). In square brackets, where known: 95 % intervals over samples, not over seeds. "
        f"{LETTERS}: {legend}; *: from partial "
        "logs, a lower bound that can show that (a) fires, not that it passes, or another layer's "
        "norm. "
        "Undecided: other samples, not other training seeds, might say otherwise.",
        words=3,
        marked=[run.flags and not run.no_claim for _, run in runs],
    )
    left = len(table) - ROWS_AT_MOST
    if left > 0:
        are = "run is" if left == 1 else "runs are"
        yield Paragraph(f"{left} more {are} in the CSV form.")


def _verdict_record(run: Run) -> Record:
    name, report = run
    partly = "*" if report.evidence else ""
    record = {
        "run": name,
        LETTERS: report.cell() + partly + _if_assumed(report, ", d assumed"),
        "verdict": verdict_words(report, short=True),
    }
    for number in AVERAGED:
        text = judged_text(number, number.of(report), report.thresholds)
        if number.letter and (ends := range_text(report, number.letter)):
            text += f" [{ends}]"
        record[number.heading] = text
    record[JUDGED["d"].heading] += _if_assumed(report, f" (baseline {baseline_text(report)})")
    return record


def _if_assumed(report: DiagnosticReport, words: str) -> str:
    """A text for runs with an assumed baseline of (d), else ``""``."""
    return words if report.measured != report.coverage else ""


def layer_tables(table: AuditTable) -> Iterator[Block]:
    """‖h_l‖ and ‖g_l‖ of every run per layer."""
    shown = shown_runs(table)
    of_residual = "Diagnostic (a): median residual norm per layer"
    of_gradient = (
        "Diagnostic (b): median BP gradient norm per layer (of the batch-mean CE: carries 1/B)"
    )
    streams = (("residual_norms", "‖h_l‖", of_residual), ("bp_grad_norms", "‖g_l‖", of_gradient))
    for field, symbol, what in streams:
        norms = {name: report.by_layer(field) for name, report in shown}
        layers = layers_in_order(chain.from_iterable(norms.values()))[:LAYERS_AT_MOST]
        records = []
        for name, row in norms.items():
            if row:
                cells = {f"l = {layer}": significant(row.get(layer)) for layer in layers}
                records.append({"run": name, **cells})
        if records:
            yield Grid.of(records, f"{what}, {symbol}; the first {LAYERS_AT_MOST} at most.")
        else:
            yield Paragraph(f"{what}: not measured on any run.")


def beyond_table(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Per run: margins to flip, γ_L, the output error, the failure mode, the cause of (b)."""
    runs = shown_runs(table, thresholds)
    caption = (
        "Margin to flip: how far each number is from its threshold: over or under it, it fires; "
        "above or below it, it passes, or with ~ is undecided; (a) and (b) as a factor. γ_L: "
        "backward gain at the deepest layer, ‖g_L‖·B/‖e_T‖; ‖e_T‖: median output error. cause: "
        "scale ((a), (b)), depth unused ((d) alone) or direction (there deep Γ is within its "
        "null), then drift or noise of the gradient, if judged."
    )
    if table.assumed[: len(runs)].any():
        caption += " ?: by an assumed frozen baseline."
    yield Grid.of(list(map(_beyond_record, runs)), caption)


def _beyond_record(run: Run) -> Record:
    name, report = run
    record = {"run": name}
    for one in records_of(report):
        record[f"({one.letter}) room"] = _room(report, one)
    record["γ_L"] = significant(deepest_gain(report), 3)
    record["‖e_T‖"] = significant(report.error_norm, 3)
    record["cause"] = failure_mode(report) or "–"
    record["(b) fired because"] = cause_of_floor(report) or "–"
    return record


def _room(report: DiagnosticReport, record: DiagnosticRecord) -> str:
    if record.state == NOT_MEASURED:
        return MISSING
    mark = "" if record.letter in report.measured else "?"
    end = " ~" if record.state == UNDECIDED else ""
    return f"{mark}{record.distance or 'fires always'}{end}"


PITFALLS = (
    "Norms are taken along the feature axis of each sample, never by x.norm(-1).",
    "Cosines are computed in float64 without an eps clamp; a zero norm gives N/A.",
    "Gradients of fp16 and bf16 models are measured in float32 unless the row says otherwise.",
    "Γ is measured with the feedback that the net was trained with; fresh draws are used as the "
    "null only.",
    "Every single Γ names its aggregation; the per-layer values are given.",
    "Γ_0 is given apart; a deep mean is over l ≥ 1.",
    "Credit that was not saved reads N/A; it is never replaced by the gradient itself.",
)
"""How this project avoids each of the seven pitfalls (`fa-tui pitfalls` runs them)."""

_FIELDS = {
    "batch size B": attrgetter("batch_size"),
    "batches K for (c)": attrgetter("n_batches"),
    "batches for (a), (b)": attrgetter("norm_batches"),
    "arithmetic": attrgetter("dtype"),
    "hidden states as vectors": attrgetter("flatten"),
    "layer of (c)": attrgetter("stability_layer"),
    "accuracy from": attrgetter("headline_acc_source"),
}
"""Heading → field of a report."""


def pitfalls_block() -> Iterator[Block]:
    """The disclosure for numbers measured by this project."""
    yield Heading("Pitfalls disclosure")
    yield Bullets(PITFALLS, numbered=True)
    others = "Numbers read from other files are as their authors computed them."
    yield Paragraph(f"This holds for what fa-tui measured. {others}")


def provenance(table: AuditTable) -> Iterator[Block]:
    """Distinct settings of the measurements, recorded provenance, and sources."""
    from fa_core import __version__

    settings: Counter[tuple[str, ...]] = Counter()
    extras: dict[str, Counter[str]] = defaultdict(Counter)
    for row in table.rows():
        report = row.report
        values = (field(report) for field in _FIELDS.values())
        setting = tuple(MISSING if each is None else str(each) for each in values)
        settings[setting] += 1
        for name, value in _flat(report.provenance):
            # sizes and times of files say nothing to a reader
            if name != "files":
                extras[name][fact_text(value)] += 1
    rows = ((str(count), *setting) for setting, count in settings.items())
    yield Heading("Provenance")
    yield Grid(
        headings=("runs", *_FIELDS),
        rows=tuple(rows),
        caption=f"How the numbers were measured ({MISSING}: the source does not say).",
        words=1 + len(_FIELDS),
    )
    notes = [_extra(name, extras[name]) for name in sorted(extras)]
    yield from bullets(notes or ["No hashes, versions or devices are recorded with these numbers."])
    sources = list(dict.fromkeys(map(str, table.source)))
    from_where = listed(sources, 12) or "none"
    yield Bullets((f"Sources: {from_where}", f"Judged and written by fa-tui {__version__}"))


def _flat(nested: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Leaves of nested mappings, named like ``versions torch``."""
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        elif value is not None:
            yield f"{prefix}{name}", value


def _extra(name: str, values: Counter[str]) -> str:
    if len(values) == 1:
        return f"{name}: {next(iter(values))}"
    counts = [f"{value} ({count})" for value, count in values.most_common()]
    return f"{name}: {len(values)} values: {listed(counts, 4)}"


_CLAIMS_CAPTION = (
    "Claims, seed by seed: a seed is undecided where the limit lies inside the 95 % interval of "
    "its number. In square brackets: intervals over samples."
)


def claim_line(result: ClaimResult) -> str:
    """A claim on one line: what was claimed, what the seeds say, and their numbers.

    >>> from fa_core.analysis.claims import Claim
    >>> claim = Claim(method="dfa", metric="growth", at_least=100.0)
    >>> seed = SeedOutcome(run="s42", outcome="holds", value=694.0)
    >>> print(claim_line(ClaimResult(claim=claim, seeds=(seed,))))
    growth of dfa ≥ 100: holds on 1 of 1 (s42 694)
    """
    claim = result.claim
    head = f"{claim.subject} {claim.needs}"
    if claim.text:
        head = f"{claim.text}: {head}"
    return f"{head}: {result.words}{_by_seed(result, ' ({})')}"


def claims_blocks(results: Sequence[ClaimResult]) -> Iterator[Block]:
    """The section on claims; nothing without one."""
    if not results:
        return
    records = []
    for result in results:
        record = {
            "claim": result.claim.title,
            "outcome": result.words,
            "number": result.claim.subject,
            "claimed": result.claim.needs,
            "by seed": _by_seed(result, "{}"),
        }
        records.append(record)
    yield Heading("Claims")
    yield Grid.of(records, _CLAIMS_CAPTION, 5, [result.outcome == FAILS for result in results])


def counts_of_claims(results: Sequence[ClaimResult]) -> str:
    """``10 claims: 7 hold, 0 fail, 3 undecided, 0 not measured``."""
    found = Counter(result.outcome for result in results)
    counts = [f"{found[outcome]} {outcome.removesuffix('s')}" for outcome in OUTCOMES]
    return f"{count_text(len(results), 'claim')}: {', '.join(counts)}"


def _by_seed(result: ClaimResult, form: str) -> str:
    if result.seeds:
        return form.format(", ".join(_number(one, result.claim) for one in result.seeds))
    return ""


def _number(one: SeedOutcome, claim: Claim) -> str:
    """``s42 694 [601, 798]``, or why there is no number."""
    if one.value is None:
        return f"{one.run} {one.why}"
    numbers = (one.value, *(one.interval or ()))
    value, *ends = (on_its_side(number, claim.limit, brief, 3) for number in numbers)
    text = f"{one.run} {value}"
    if ends:
        return f"{text} [{', '.join(ends)}]"
    return text
