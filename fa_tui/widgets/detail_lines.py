"""One run in words and bars: the pure drawing behind the detail pane."""

from __future__ import annotations

import math
import re
import textwrap

from fa_core.confidence import NUMBERS, Confidence, confidence, percent
from fa_core.gain import floor_in_words
from fa_core.report import LETTERS, DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.views.axes import axes_text
from fa_tui.views.cells import cell_text
from fa_tui.views.fitting import cut, padded_left, width_of
from fa_tui.views.wrapping import folded
from fa_tui.widgets.detail_facts import fact_rows
from fa_tui.widgets.detail_layers import layer_rows, peak_words, sparkline_rows
from fa_tui.widgets.diagnostics import DIAGNOSTICS, Diagnostic, with_keys
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.numbers import short
from fa_tui.widgets.painted import Row, ending

_INDENT = 6
_LEAST = 16
_LEAST_NAME = 3
_NARROW = 44
"""Below this width a diagnostic's line leaves out what its glyph says too."""
_LEFT_OUT = re.compile(r" \([^)]*\)| to(?= spare)")
_GONE = "no longer on disk: shown as it was read last"
_MEASURE = "not measured yet: press m to measure"
_NOTHING = "nothing was measured, and there is no checkpoint to measure"


def detail_lines(
    row: AuditRow, thresholds: DiagnosticThresholds, width: int, glyphs: Glyphs, *, gone: bool = False
) -> list[Row]:
    """Everything known about a run, in lines of at most `width` cells; where one cannot be wrapped it ends in a sign.

    Args:
        row: the run.
        thresholds: what it is judged by.
        width: cells to fill, at least 16.
        glyphs: characters to draw with.
        gone: its file or folder is no longer there.
    """
    width = max(width, _LEAST)
    report = row.report.with_thresholds(thresholds)
    lines = _title(row, report, width, glyphs)
    if gone:
        lines += _wrapped(f"{glyphs.gone} {_GONE}", width, "detail--note", glyphs)
    if not report.coverage:
        lines += _wrapped(_MEASURE if row.checkpoint else _NOTHING, width, "detail--note", glyphs)
    else:
        found, cause = confidence(report), floor_in_words(report)
        lines += _verdict(report, found, width, glyphs)
        lines.append([])
        for diagnostic, words in zip(DIAGNOSTICS, report.describe(), strict=True):
            lines += _judged(diagnostic, with_keys(words), report, width, glyphs)
            if diagnostic.letter == "b" and cause:
                lines += _under(f"cause: {cause}", width, "detail--note", glyphs)
            if found is not None and diagnostic.letter in found.fired:
                lines += _under(_resampled(diagnostic, found), width, "detail--dim", glyphs)
        lines.append([])
        lines += sparkline_rows(report, width, glyphs)
        lines += layer_rows(report, width, glyphs)
    lines += fact_rows(row, report, width, glyphs)
    return [_fitted(line, width, glyphs) for line in lines]


def _fitted(row: Row, width: int, glyphs: Glyphs) -> Row:
    """The row, with a sign where it is cut; blanks at its end are not missed."""
    if sum(width_of(text) for text, _ in row) <= width:
        return row
    while not row[-1][0].strip():
        row = row[:-1]
    return ending([*row[:-1], (row[-1][0].rstrip(), row[-1][1])], width, glyphs.ellipsis, "detail--dim")


def margin_words(diagnostic: Diagnostic, report: DiagnosticReport) -> str:
    """How far a measured diagnostic is from flipping, in its unit and, on a log scale, as a factor.

    One that fires because something is not finite cannot flip.

    >>> words = DiagnosticReport(cross_batch_stability=0.1, bp_grad_norms=[1e-8])
    >>> margin_words(DIAGNOSTICS[2], words), margin_words(DIAGNOSTICS[1], words)
    ('0.2 to spare', 'past by ×10 (9e-8)')
    """
    value, limit = diagnostic.measured(report), diagnostic.of(report.thresholds)
    if value is None or not math.isfinite(value) or diagnostic.letter in report.nonfinite:
        return ""
    room = short(abs(limit - value))
    if diagnostic.log and value > 0 and limit > 0:
        amount = f"×{_factor(max(value / limit, limit / value))} ({room})"
    else:
        amount = f"{room}{diagnostic.unit}"
    return f"past by {amount}" if diagnostic.letter in report.flags else f"{amount} to spare"


def _factor(ratio: float) -> str:
    """A factor above 1, with as many digits as tell it from 1.

    >>> _factor(41.5), _factor(1.0029), _factor(1.0)
    ('41.5', '1.003', '1')
    """
    return next((text for digits in range(3, 8) if (text := short(ratio, digits)) != "1"), "1")


def _title(row: AuditRow, report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """Method, seed and verdict cell; the axes between them, or below where there is no room."""
    name, axes = glyphs.say(report.method_name or row.method), glyphs.say(axes_text(row.axes))
    mark = cell_text(report.flags, report.coverage, ascii_only=glyphs.name == "ascii")
    below = _wrapped(axes, width, "detail--dim", glyphs)
    # the verdict is what nothing may push out
    room = width - len(mark) - 1
    seeds = [""] if row.seed is None else [f"  seed {row.seed}", f" s{row.seed}"]
    seed = next((seed for seed in seeds if width_of(name) + len(seed) <= room), seeds[-1])
    if axes and width_of(f"{name}{seed}  {axes}") <= room:
        seed, below = f"{seed}  {axes}", []
    name = cut(name, max(_LEAST_NAME, room - width_of(seed)), glyphs.ellipsis)
    left = ending([(name, "detail--name"), (seed, "detail--dim")], room, glyphs.ellipsis, "detail--dim")
    blanks = " " * (width - len(mark) - sum(width_of(text) for text, _ in left))
    return [[*left, (blanks, ""), (mark, _tone(report))], *below]


def _tone(report: DiagnosticReport) -> str:
    return "detail--dim" if not report.coverage else "detail--fires" if report.flags else "detail--passes"


def _verdict(report: DiagnosticReport, found: Confidence | None, width: int, glyphs: Glyphs) -> list[Row]:
    measured = report.measured
    assumed = "; d assumed" if measured != report.coverage else ""
    on = "" if measured == LETTERS else f" (on {', '.join(measured) or 'nothing measured'}{assumed})"
    lines = _wrapped(report.verdict + on, width, _tone(report), glyphs)
    if found is not None:
        words = f"same verdict in {percent(found.same_verdict)} of {found.resamples} resamples"
        lines += _wrapped(words, width, "detail--dim", glyphs)
    if report.recorded_differs:
        lines += _wrapped(f"{glyphs.differs} recorded: {report.recorded_verdict}", width, "detail--note", glyphs)
    return lines


def _resampled(diagnostic: Diagnostic, found: Confidence) -> str:
    """Where the central 95 % of the resamples lie, and how many of them fire."""
    low, high = (short(end) for end in found.intervals[NUMBERS[diagnostic.letter]])
    return f"{found.level:.0%}: {low} to {high}{diagnostic.unit}, fires in {percent(found.fired[diagnostic.letter])}"


def _under(text: str, width: int, style: str, glyphs: Glyphs) -> list[Row]:
    """Text below a diagnostic's line, indented as far as its margin."""
    lines = folded(glyphs.say(text), max(8, width - _INDENT))
    return [[(" " * _INDENT + line, style)] for line in lines]


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
    place = peak_words(report.residual_norms) if letter == "a" else ""
    if width < _NARROW and margin:
        number, _, limit = rest.rpartition(" (")
        head, body, under = f"({letter})", number, f"{limit[:-1]}, {_LEFT_OUT.sub('', margin)}"
        if place and _INDENT + len(under) + 2 + len(place) <= width:
            under = f"{under}, {place}"
    else:
        head, body, under = f"{state}:", rest, "  ".join(part for part in (place, margin) if part)
    room = max(8, width - _INDENT)
    first, *more = textwrap.wrap(glyphs.say(f"{glyph} {head} {body}"), width, subsequent_indent=" " * _INDENT)
    lead = len(glyph) + 1 + len(head)
    text = "detail--dim" if dim else "detail--number"
    lines: list[Row] = [[(first[:lead], style), (first[lead:], text)], *([(line, text)] for line in more)]
    under = glyphs.say(under)
    used = sum(width_of(piece) for piece, _ in lines[-1])
    if under and used + 2 + width_of(under) <= width:
        lines[-1].append((padded_left(under, width - used), "detail--dim"))
    else:
        lines += [[(" " * _INDENT + line, "detail--dim")] for line in textwrap.wrap(under, room)]
    return lines


def _wrapped(text: str, width: int, style: str, glyphs: Glyphs) -> list[Row]:
    return [[(line, style)] for line in folded(glyphs.say(text), max(8, width))]
