"""One run in words and bars: the pure drawing behind the detail pane.

The run under the cursor: its layers, its verdict in words, where its numbers come from.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence

from textual.binding import Binding

from fa_core.confidence import Confidence, confidence, floor_in_words, percent
from fa_core.diagnostics import DIAGNOSTICS as FACTS
from fa_core.diagnostics import LETTERS, DiagnosticThresholds
from fa_core.report import DiagnosticReport
from fa_core.reporting.numbers import short
from fa_core.rows import AuditRow
from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.views.axes import axes_text
from fa_tui.views.diagnostics import DIAGNOSTICS, Diagnostic, with_keys
from fa_tui.views.text import cut, folded, padded_left, width_of
from fa_tui.views.words import cell_text
from fa_tui.widgets.detail_facts import fact_rows
from fa_tui.widgets.detail_layers import layer_rows, peak_words, sparkline_rows
from fa_tui.widgets.painted import PaintedScroll, Row, ending

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
    low, high = (short(end) for end in found.intervals[FACTS[diagnostic.letter].column])
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


class DetailPane(PaintedScroll, can_focus=True):
    """Shows one run; `show` it another one and only the cells that differ are sent.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    DetailPane {
        height: 1fr;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
        & > .detail--name { color: $foreground; text-style: bold; }
        & > .detail--head { color: $text-muted; }
        & > .detail--dim { color: $text-muted; }
        & > .detail--note { color: $warning; }
        & > .detail--number { color: $foreground; }
        & > .detail--bar { color: $accent; }
        & > .detail--grows { color: $error; text-style: bold; }
        & > .detail--passes { color: $success; }
        & > .detail--fires { color: $error; text-style: bold; }
    }
    """
    COMPONENT_CLASSES = {
        f"detail--{part}" for part in ("name", "head", "dim", "note", "number", "bar", "grows", "passes", "fires")
    }
    BINDINGS = [
        Binding("up,k", "scroll_up", "Scroll", key_display="↑↓", tooltip="scroll the run's report"),
        Binding("down,j", "scroll_down", "Scroll down", show=False),
        Binding("home,g", "scroll_home", "Top", show=False),
        Binding("end,G", "scroll_end", "End", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False),
    ]

    help_text = """\
The run under the cursor. Each diagnostic with its number, its threshold and
how far it is from flipping; under a fired (b) its cause. An audit with
--resamples adds where 95 % of the resamples lie, and how many of them fire
at the thresholds of the sliders.
Then a line per layer: ‖h‖ and ‖g‖ with bars on a log scale, the growth of the
block below, and, as far as they fit, Γ (where the method's credit was saved),
1−cos between the gradient and its float64 version (--precision) and ρ
(--credit full). ▲ marks the block that grows most.

  ↑ ↓ or k j            scroll
  PgUp PgDn             by a screenful
  Home End or g G       to the top, to the end
"""

    def __init__(
        self,
        *,
        glyphs: Glyphs = UNICODE,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.glyphs = glyphs
        self._row: AuditRow | None = None
        self._thresholds = DiagnosticThresholds()
        self._gone = False

    def show(self, row: AuditRow | None, thresholds: DiagnosticThresholds, *, gone: bool = False) -> None:
        """Show a run, judged by `thresholds`; None shows that none is selected.

        Args:
            row: the run.
            thresholds: what it is judged by.
            gone: its file or folder is no longer there.
        """
        if row is not self._row:
            self.scroll_to(y=0, animate=False)
        self._row, self._thresholds, self._gone = row, thresholds, gone
        self.repaint()

    def cut_row(self, hidden: int) -> Row:
        return [(f"{self.glyphs.ellipsis} {hidden} more lines", "detail--dim")]

    def draw(self, width: int) -> Sequence[Row]:
        if self._row is None:
            return [[("no run selected", "detail--dim")]]
        return detail_lines(self._row, self._thresholds, width, self.glyphs, gone=self._gone)
