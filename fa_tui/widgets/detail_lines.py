"""One run in words and bars: the pure drawing behind the detail pane."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fa_core.report import LETTERS, NORM_RATIO_EPS, DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.cells import cell_text
from fa_tui.widgets.diagnostics import DIAGNOSTICS, Diagnostic
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.numbers import short
from fa_tui.widgets.painted import Row
from fa_tui.widgets.scale import Scale, covering
from fa_tui.widgets.sparkline import sparkline

_SPARK_CELLS = 24
_INDENT = 6
_LEAST = 24
_NARROW = 44
"""Below this width a diagnostic's line leaves out what its glyph says too."""
_LEFT_OUT = re.compile(r" \([^)]*\)| to(?= spare)")
_HASH = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_MEASURE = "not measured yet: press m to measure"
_NOTHING = "nothing was measured, and there is no checkpoint to measure"


def detail_lines(
    row: AuditRow, thresholds: DiagnosticThresholds, width: int, glyphs: Glyphs, cause: str = ""
) -> list[Row]:
    """Everything known about a run, in lines of at most `width` cells (from 34 on; below, they are to be cut).

    Args:
        row: the run.
        thresholds: what it is judged by.
        width: cells to fill.
        glyphs: characters to draw with.
        cause: why (b) fires, where that was found out.
    """
    width = max(width, _LEAST)
    report = row.report.with_thresholds(thresholds)
    lines = [_title(row, report, width, glyphs)]
    if not report.coverage:
        lines += _wrapped(_MEASURE if row.checkpoint else _NOTHING, width, "detail--note", glyphs)
    else:
        lines += _verdict(report, width, glyphs)
        lines.append([])
        for diagnostic, words in zip(DIAGNOSTICS, report.describe(), strict=True):
            lines += _judged(diagnostic, words, report, width, glyphs)
            if diagnostic.letter == "b" and "b" in report.flags and cause:
                lines += _wrapped(f"cause: {cause}", width, "detail--note", glyphs, indent=4)
        lines.append([])
        lines += _sparklines(report, width, glyphs)
        lines += _layers(report, width, glyphs)
    lines += _provenance(row, report, width, glyphs)
    return lines


def margin_words(diagnostic: Diagnostic, report: DiagnosticReport) -> str:
    """How far a measured diagnostic is from flipping, in its unit and, on a log scale, as a factor.

    >>> words = DiagnosticReport(cross_batch_stability=0.1, bp_grad_norms=[1e-8])
    >>> margin_words(DIAGNOSTICS[2], words), margin_words(DIAGNOSTICS[1], words)
    ('0.2 to spare', 'past by ×10 (9e-8)')
    """
    value, limit = diagnostic.measured(report), diagnostic.of(report.thresholds)
    if value is None or not math.isfinite(value):
        return ""
    room = short(abs(limit - value))
    if diagnostic.log and value > 0 and limit > 0:
        amount = f"×{short(max(value / limit, limit / value))} ({room})"
    else:
        amount = f"{room}{diagnostic.unit}"
    return f"past by {amount}" if diagnostic.letter in report.flags else f"{amount} to spare"


def growths(norms: Sequence[float]) -> list[float]:
    """‖h_{l+1}‖/‖h_l‖ for l = 0..L-1; NaN where a norm is not finite.

    >>> growths([1.0, 2.0, 8.0])
    [2.0, 4.0]
    """
    return [
        after / max(before, NORM_RATIO_EPS) if math.isfinite(before) and math.isfinite(after) else math.nan
        for before, after in itertools.pairwise(norms)
    ]


def _title(row: AuditRow, report: DiagnosticReport, width: int, glyphs: Glyphs) -> Row:
    name = report.method_name or row.method
    seed = "" if row.seed is None else f"seed {row.seed}"
    axes = "  ".join(f"{key} {value}" for key, value in row.axes.items())
    words = glyphs.say("  ".join(part for part in (seed, axes) if part))
    mark = cell_text(report.flags, report.coverage, ascii_only=glyphs.name == "ascii")
    title: Row = [(glyphs.say(name), "detail--name"), (f"  {words}", "detail--dim")]
    used = sum(len(text) for text, _ in title)
    return [*title, (" " * max(1, width - used - len(mark)), ""), (mark, _tone(report))]


def _tone(report: DiagnosticReport) -> str:
    return "detail--dim" if not report.coverage else "detail--fires" if report.flags else "detail--passes"


def _verdict(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    measured = report.coverage
    on = "" if measured == LETTERS else f" (on {', '.join(measured)})"
    lines = _wrapped(report.verdict + on, width, _tone(report), glyphs)
    recorded = report.recorded_verdict
    if recorded is not None and recorded != report.verdict:
        lines += _wrapped(f"{glyphs.differs} recorded: {recorded}", width, "detail--note", glyphs)
    return lines


def _judged(diagnostic: Diagnostic, words: str, report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """One line of `DiagnosticReport.describe` with its glyph, and the margin beside or below it."""
    letter = diagnostic.letter
    if letter in report.flags:
        glyph, style = glyphs.fires, "detail--fires"
    elif letter in report.coverage:
        glyph, style = glyphs.passes, "detail--passes"
    else:
        glyph, style = glyphs.unmeasured, "detail--dim"
    dim = style == "detail--dim"
    state, _, rest = words.partition(": ")
    margin = margin_words(diagnostic, report)
    if width < _NARROW and margin:
        number, _, limit = rest.rpartition(" (")
        head, body, under = f"({letter})", number, f"{limit[:-1]}, {_LEFT_OUT.sub('', margin)}"
    else:
        head, body, under = f"{state}:", rest, margin
    room = max(8, width - _INDENT)
    first, *more = textwrap.wrap(glyphs.say(f"{glyph} {head} {body}"), width, subsequent_indent=" " * _INDENT)
    lead = len(glyph) + 1 + len(head)
    text = "detail--dim" if dim else "detail--number"
    lines: list[Row] = [[(first[:lead], style), (first[lead:], text)], *([(line, text)] for line in more)]
    under = glyphs.say(under)
    used = sum(len(piece) for piece, _ in lines[-1])
    if under and used + 2 + len(under) <= width:
        lines[-1].append((under.rjust(width - used), "detail--dim"))
    else:
        lines += [[(" " * _INDENT + line, "detail--dim")] for line in textwrap.wrap(under, room)]
    return lines


def _sparklines(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    lines = []
    for name, values in (("‖h‖", report.residual_norms), ("‖g‖", report.bp_grad_norms)):
        scale = covering(values, log=True)
        if not values or scale is None:
            continue
        each = max(1, min(_SPARK_CELLS, width - 24) // len(values))
        bars = sparkline(values, scale, glyphs, max(1, min(_SPARK_CELLS, width - 24)))
        wide = "".join(character * each for character in bars)
        ends = f"{short(values[0])} {glyphs.arrow} {short(values[-1])}"
        lines.append([(f"{glyphs.say(name)} ", "detail--head"), (wide, "detail--bar"), (f" {ends}", "detail--number")])
    return [*lines, []] if lines else []


def _layers(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """A line per layer: ‖h_l‖, growth of the block below it, ‖g_l‖, Γ_l, as numbers and bars."""
    h, g = report.residual_norms, report.bp_grad_norms
    credit = [(name, _credit(report.credit, key)) for name, key in (("Γ", "gamma"), ("ρ", "rho"))]
    credit = [(name, values) for name, values in credit if values]
    count = max(len(h), len(g), *(len(values) for _, values in credit))
    if not count:
        return []
    blocks = growths(h)
    finite = [value for value in blocks if math.isfinite(value)]
    peak = max(finite, default=math.inf)
    numbers = 4 + 9 + 9 + (10 if blocks else 0) + 7 * len(credit)
    bar = max(0, min(10, (width - numbers) // 2 - 1))
    h_scale, g_scale = covering(h, log=True), covering(g, log=True)
    head = " l  " + "‖h‖".ljust(9 + bar) + ("growth".ljust(10) if blocks else "") + "‖g‖".ljust(9 + bar)
    lines: list[Row] = [[(glyphs.say(head + "".join(name.rjust(7) for name, _ in credit)), "detail--head")]]
    for layer in range(count):
        row: Row = [(f"{layer:>2}  ", "detail--dim")]
        row += _number_and_bar(h, layer, h_scale, bar, glyphs)
        if blocks:
            row += _growth(blocks[layer - 1] if layer else None, peak, report.thresholds.h_norm_explosion_ratio, glyphs)
        row += _number_and_bar(g, layer, g_scale, bar, glyphs)
        for _, values in credit:
            row.append((_signed(values[layer] if layer < len(values) else None).rjust(7), "detail--number"))
        lines.append(row)
    return [*lines, []]


def _number_and_bar(
    values: Sequence[float], layer: int, scale: Scale | None, cells: int, glyphs: Glyphs
) -> list[tuple[str, str]]:
    if layer >= len(values):
        return [(" " * (9 + cells), "")]
    value = values[layer]
    style = "detail--number" if math.isfinite(value) else "detail--fires"
    bar = ""
    if scale is not None and math.isfinite(value) and value > 0 and cells:
        bar = glyphs.plateau_passing * max(1, round(scale.fraction(value) * (cells - 1)))
    return [(short(value).ljust(8), style), (bar.ljust(cells + 1), "detail--bar")]


def _growth(value: float | None, peak: float, limit: float, glyphs: Glyphs) -> list[tuple[str, str]]:
    if value is None:
        return [(" " * 10, "")]
    if math.isnan(value):
        return [("NaN".ljust(10), "detail--fires")]
    mark = f" {glyphs.grows}" if value == peak and value > 1 else ""
    text = f"{glyphs.say('×')}{short(value)}{mark}"
    return [(text.ljust(10), "detail--grows" if value > limit else "detail--number")]


def _credit(credit: Mapping[str, Any] | None, key: str) -> list[float | None]:
    """One kind of credit quality per layer; empty where the method's credit was not saved."""
    layers = (credit or {}).get(key)
    return list(layers) if isinstance(layers, (list, tuple)) else []


def _signed(value: float | None) -> str:
    """A cosine; undefined ones read N/A, never 0."""
    return "N/A" if value is None or math.isnan(value) else f"{value:+.2f}"


def _provenance(row: AuditRow, report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    room = max(8, width - 12)
    facts: list[tuple[str, object]] = [
        ("source", _tail(row.source, room, glyphs)),
        ("run", row.key),
        ("checkpoint", _tail(row.checkpoint or "", room, glyphs)),
        ("deep Γ", _deep_gamma(report.credit)),
        ("notes", report.notes),
        ("accuracy", _accuracy(report)),
        ("batches", _batches(report)),
        ("arithmetic", report.dtype),
        ("vectors", report.flatten),
        ("error norm", None if report.error_norm is None else short(report.error_norm)),
        ("taps", " ".join(report.tap_names)),
        *_flat(report.provenance),
    ]
    lines: list[Row] = []
    for name, value in facts:
        if value is None or value == "":
            continue
        text = textwrap.wrap(glyphs.say(str(value)), room, break_on_hyphens=False) or [""]
        for index, piece in enumerate(text):
            head = glyphs.say(name)[:11] if index == 0 else ""
            lines.append([(head.ljust(12), "detail--head"), (piece, "detail--dim")])
    return lines


def _tail(path: str, room: int, glyphs: Glyphs) -> str:
    """The end of a path: that is where paths differ."""
    if len(path) <= room:
        return path
    return glyphs.ellipsis + path[len(path) - room + len(glyphs.ellipsis) :]


def _deep_gamma(credit: Mapping[str, Any] | None) -> str:
    """Γ as one number, with how it was averaged."""
    deep, last = (credit or {}).get("deep_gamma"), (credit or {}).get("gamma_L")
    if not isinstance(deep, (int, float)) or credit is None:
        return ""
    parts = [_signed(deep), f"Γ_L {_signed(last)}" if isinstance(last, (int, float)) else ""]
    return ", ".join(part for part in (*parts, str(credit.get("aggregation", ""))) if part)


def _accuracy(report: DiagnosticReport) -> str:
    if report.headline_acc is None:
        return ""
    frozen = report.frozen_baseline_acc
    parts = [short(report.headline_acc, 4), report.headline_acc_source or ""]
    parts.append("" if frozen is None else f"frozen baseline {short(frozen, 4)}")
    return ", ".join(part for part in parts if part)


def _batches(report: DiagnosticReport) -> str:
    parts = [
        f"B = {report.batch_size}" if report.batch_size else "",
        f"K = {report.n_batches}" if report.n_batches else "",
        f"drift at layer {report.stability_layer}" if report.stability_layer is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _flat(facts: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    """Provenance as name and value; a mapping inside it as `key value, key value`; hashes by their first digits."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            said = [f"{key} {each}" for key, each in value.items() if each not in (None, [], {}, "")]
            value = ", ".join(said)
        yield name.replace("_", " "), _HASH.sub(r"\1…", str(value)) if value is not None else None


def _wrapped(text: str, width: int, style: str, glyphs: Glyphs, indent: int = 0) -> list[Row]:
    lines = textwrap.wrap(glyphs.say(text), max(8, width), subsequent_indent=" " * indent, break_on_hyphens=False)
    return [[(line, style)] for line in lines]
