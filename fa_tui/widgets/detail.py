"""The detail pane: verdict, diagnostics, layers and provenance of a run."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import NamedTuple

from textual.binding import Binding

from fa_core.facts.report_facts import layers_in_order
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.confidence import Confidence, confidence, percent
from fa_core.judgement.diagnostics import DIAGNOSTICS, LETTERS, Diagnostic, block_growths
from fa_core.judgement.gamma import aggregation, deep_gamma, free_layers, null_gamma
from fa_core.judgement.intervals import LEVEL
from fa_core.judgement.verdict import TRUSTWORTHY, UNDECIDED, WALKS_BACK
from fa_core.numbers import short
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.text.causes import failure_mode, floor_text
from fa_core.text.diagnostic_record import DiagnosticRecord, record_of
from fa_core.text.notes import baseline_text, update_text
from fa_core.text.verdict import known_text, recorded_text, verdict_words
from fa_core.text.verdict_cell import run_cell
from fa_tui.views.columns import peak_block
from fa_tui.views.glyphs import UNICODE, Glyphs
from fa_tui.views.grid import axes_text
from fa_tui.views.scale import Scale, covering
from fa_tui.views.text import cut, cut_start, folded, padded, padded_left, width_of
from fa_tui.views.words import with_keys
from fa_tui.widgets.painted import (
    SCROLL_KEYS,
    PaintedScroll,
    Piece,
    Row,
    ending,
    row_width,
)

_INDENT = 6
_LEAST = 16
_LEAST_NAME = 3
_LEAST_TEXT = 8
_NARROW = 44
"""Below this width a diagnostic's line omits the state, which its glyph shows."""
_PAIR = re.compile(r"[\[(]\S+ \S+[\])]")
"""Two words in brackets."""

_MEASURE = "not measured yet: press m to measure"
_NOTHING = "nothing was measured, and there is no checkpoint to measure"

_SPARK_CELLS = 24
_LAYER = 4
_NUMBER = 9
_GROWTH = 10
_COLUMN = 7
_PEAK = 2
_LONGEST_BAR = 10
_FIRST_AND_LAST = 1000
"""Layers shown from either end."""

_NAMES = 12
_NAMES_NARROW = 2
_HASH = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_EMPTY: tuple[object, ...] = (None, [], {}, "")
_SHORTER = {
    "weights_dtype": "weights in",
    "device_label": "hardware",
    "frozen_baseline_from": "baseline of",
    "frozen_baseline_rule": "baseline by",
    "other_frozen_baselines": "other ones",
    "custom_backward": "backward by",
}
"""Shorter names of facts, which fit their column."""


def sparkline(
    values: Sequence[float], scale: Scale, glyphs: Glyphs = UNICODE, width: int = 0
) -> str:
    """One bar per value; in fewer cells, one per group of values, for its largest.

    Non-finite values, which rank highest, and zeros on a log scale have their own characters.

    Args:
        values: in order.
        scale: values beyond it have the lowest or the highest bar.
        glyphs: characters to draw with.
        width: maximum number of cells; 0: one per value.

    >>> sparkline([1.0, 10.0, 1000.0, float("nan"), 0.0], Scale(1.0, 1000.0, log=True))
    '▁▃█∞0'
    """
    if width and len(values) > width:
        bounds = [len(values) * cell // width for cell in range(width + 1)]
        largest = []
        for start, end in pairwise(bounds):
            largest.append(max(values[start:end], key=_nonfinite_last))
        values = largest
    return "".join([_bar(value, scale, glyphs) for value in values])


def _nonfinite_last(value: float) -> tuple[bool, float]:
    return not math.isfinite(value), value


def _bar(value: float, scale: Scale, glyphs: Glyphs) -> str:
    if not math.isfinite(value):
        return glyphs.nonfinite
    if scale.log and value == 0:
        return glyphs.zero
    return glyphs.bar(scale.fraction(value))


def apart(cosine: float | None) -> str:
    """The distance 1 − cos of two directions, precise for cosines near 1.

    >>> apart(1 - 3e-9), apart(1.0), apart(None)
    ('3e-9', '0', 'N/A')
    """
    if cosine is None:
        return "N/A"
    distance = math.nan
    if math.isfinite(cosine):
        distance = max(0.0, 1 - cosine)
    return short(distance, 1)


def signed(value: float | None) -> str:
    """A cosine as text; N/A if undefined."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:+.2f}"


class LayerColumn(NamedTuple):
    """A column of the table of layers.

    Attributes:
        heading: as wide as the column.
        cells: layer → its cell.
        blank: the cell of other layers.
    """

    heading: str
    cells: Mapping[str, Row]
    blank: Piece


class RunPage:
    """The lines about a run, in parts that are cached until their inputs change.

    Args:
        row: the run.
        width: cells to fill, at least 16; longer lines are wrapped or end in an ellipsis.
        glyphs: characters to draw with.
    """

    def __init__(self, row: AuditRow, width: int, glyphs: Glyphs) -> None:
        self._row = row
        self._report = row.report
        self._width = max(width, _LEAST)
        self._glyphs = glyphs
        self._say = glyphs.say
        self._parts: dict[str, tuple[object, list[Row]]] = {}
        norms = row.report.residual_norms
        self._growths = block_growths(norms)
        self._peak = peak_block(norms)

    def lines(
        self,
        thresholds: DiagnosticThresholds,
        *,
        gone: bool = False,
        work: Sequence[tuple[str, str]] = (),
    ) -> list[Row]:
        """The run as thresholds judge it.

        Args:
            thresholds: what judges it.
            gone: whether its file or folder is no longer there.
            work: what another process does with it, lines with their tones.
        """
        report = self._report = self._row.report.with_thresholds(thresholds)
        judged = (report.flags, report.undecided, report.coverage)
        lines = self._part("title", judged, self._title).copy()
        if gone:
            words = "no longer on disk: shown as it was read last"
            lines += self._wrapped(f"{self._glyphs.gone} {words}", "note")
        for text, tone in work:
            lines += self._wrapped(text, tone)
        if report.coverage:
            lines += self._measured(judged)
        elif work:
            lines.append([])
        elif self._row.checkpoint:
            lines += self._wrapped(_MEASURE, "note")
        else:
            lines += self._wrapped(_NOTHING, "note")
        return [*lines, *self._part("facts", report.flags, self._facts)]

    def _measured(self, judged: object) -> list[Row]:
        """Verdict, diagnostics and layers."""
        thresholds = self._report.thresholds
        found = confidence(self._report)
        lines = self._part("verdict", (judged, found), partial(self._verdict, found)).copy()
        lines.append([])
        for letter, diagnostic in DIAGNOSTICS.items():
            write = partial(self._diagnostic, diagnostic, found)
            lines += self._part(letter, diagnostic.limit(thresholds), write)
        lines.append([])
        lines += self._part("sparklines", None, self._sparklines)
        passing = [growth <= thresholds.h_norm_explosion_ratio for growth in self._growths]
        return lines + self._part("layers", passing, self._layers)

    def _part(self, name: str, depends_on: object, write: Callable[[], list[Row]]) -> list[Row]:
        known, lines = self._parts.get(name, (None, None))
        if lines is None or known != depends_on:
            lines = [self._fitted(line) for line in write()]
            self._parts[name] = depends_on, lines
        return lines

    def _wrapped(self, text: str, tone: str, indent: int = 0) -> list[Row]:
        lines = folded(self._say(text), max(_LEAST_TEXT, self._width - indent))
        return [[(" " * indent + line, tone)] for line in lines]

    def _fitted(self, row: Row) -> Row:
        """The row, cut with an ellipsis if it is too wide; trailing blanks are dropped."""
        if row_width(row) <= self._width:
            return row
        while not row[-1][0].strip():
            row = row[:-1]
        *first, (last, tone) = row
        stripped = [*first, (last.rstrip(), tone)]
        return ending(stripped, self._width, self._glyphs.ellipsis, "dim")

    def _title(self) -> list[Row]:
        """Method, seed and verdict cell; the axes between them, or below if they do not fit."""
        row = self._row
        report = self._report
        ellipsis = self._glyphs.ellipsis
        mark = run_cell(report, control=row.is_control, ascii_only=self._glyphs.name == "ascii")
        # the verdict is never cut
        room = self._width - len(mark) - 1
        name = self._say(report.method_name or row.method)
        seed = self._seed(room - width_of(name))
        axes = self._say(axes_text(row.axes))
        below = self._wrapped(axes, "dim")
        if axes and width_of(f"{name}{seed}  {axes}") <= room:
            seed = f"{seed}  {axes}"
            below = []
        name = cut(name, max(_LEAST_NAME, room - width_of(seed)), ellipsis)
        left = ending([(name, "strong"), (seed, "dim")], room, ellipsis, "dim")
        blanks = " " * (room + 1 - row_width(left))
        title = [*left, (blanks, ""), (mark, self._tone)]
        return [title, *below]

    def _seed(self, room: int) -> str:
        if self._row.seed is None:
            return ""
        seed = f"  seed {self._row.seed}"
        if len(seed) <= room:
            return seed
        return f" s{self._row.seed}"

    @property
    def _tone(self) -> str:
        standing = self._report.standing(self._row.is_control)
        tones = {WALKS_BACK: "bad", TRUSTWORTHY: "good", UNDECIDED: "warn"}
        return tones.get(standing, "dim")

    def _verdict(self, found: Confidence | None) -> list[Row]:
        report = self._report
        words = verdict_words(report, self._row.is_control)
        known = known_text(report)
        if report.flags and known != f"{LETTERS} measured":
            words = f"{words} ({known})"
        lines = self._wrapped(words, self._tone)
        mode = failure_mode(report, cosine=False)
        if mode:
            lines += self._wrapped(f"mode: {mode}", "note")
        if found is not None:
            same = f"same verdict in {percent(found.same_verdict)} of {found.resamples} resamples"
            lines += self._wrapped(same, "dim")
        if report.recorded_differs:
            recorded = recorded_text(report, self._row.report.thresholds)
            lines += self._wrapped(f"{self._glyphs.differs} {recorded}", "note")
        return lines

    def _diagnostic(self, diagnostic: Diagnostic, found: Confidence | None) -> list[Row]:
        """A diagnostic, the cause of (b), and the resampled interval with the share that fires."""
        report = self._report
        letter = diagnostic.letter
        lines = self._judged(record_of(report, letter))
        if letter == "b" and letter in report.flags:
            lines += self._wrapped(f"cause: {floor_text(report)}", "note", _INDENT)
        if found is not None and letter in found.fired:
            low, high = found.intervals[diagnostic.column]
            span = f"{short(low)} to {short(high)}{diagnostic.suffix}"
            share = percent(found.fired[letter])
            text = f"{LEVEL:.0%}: {span}, fires in {share}"
            lines += self._wrapped(text, "dim", _INDENT)
        return lines

    def _judged(self, record: DiagnosticRecord) -> list[Row]:
        """A diagnostic with its glyph, followed by its distance from flipping."""
        place = ""
        if record.letter == "a" and self._peak is not None:
            place = f"in block {self._peak}→{self._peak + 1}"
        if self._width < _NARROW and record.distance:
            head = f"({record.letter})"
            body = record.number
            distance = f"{record.limit}, {record.brief_distance}"
            under = "; ".join([distance, *record.remarks])
            if place and _INDENT + len(under) + 2 + len(place) <= self._width:
                under = f"{under}, {place}"
        else:
            head = f"({record.letter}) {record.state}:"
            body = with_keys(record.text)
            under = "  ".join(filter(None, [place, record.distance]))
        glyph, tone = self._sign(record.letter)
        text_tone = "dim"
        if record.letter in self._report.coverage:
            text_tone = "text"
        first, *rest = self._broken(f"{glyph} {head} {body}")
        lead = len(glyph) + 1 + len(self._say(head))
        rows = [[(first[:lead], tone), (first[lead:], text_tone)]]
        for line in rest:
            rows.append([(line, text_tone)])
        self._put_under(rows, self._say(under))
        return rows

    def _sign(self, letter: str) -> tuple[str, str]:
        """A diagnostic's glyph and tone."""
        report, glyphs = self._report, self._glyphs
        if letter in report.undecided:
            return glyphs.undecided, "warn"
        if letter in report.flags:
            return glyphs.fires, "bad"
        if letter in report.coverage:
            return glyphs.passes, "good"
        return glyphs.unmeasured, "dim"

    def _broken(self, text: str) -> list[str]:
        """A text wrapped to the pane's width; pairs in brackets stay whole."""
        whole = _PAIR.sub(lambda pair: pair[0].replace(" ", "\0"), self._say(text))
        lines = textwrap.wrap(whole, self._width, subsequent_indent=" " * _INDENT)
        return [line.replace("\0", " ") for line in lines]

    def _put_under(self, rows: list[Row], under: str) -> None:
        """Put a text at the right end of the last row, or on further rows."""
        used = row_width(rows[-1])
        left = self._width - used
        if under and 2 + width_of(under) <= left:
            rows[-1].append((padded_left(under, left), "dim"))
            return
        blanks = " " * _INDENT
        room = max(_LEAST_TEXT, self._width - _INDENT)
        for line in textwrap.wrap(under, room):
            rows.append([(blanks + line, "dim")])

    def _sparklines(self) -> list[Row]:
        """Sparklines of ‖h_l‖ and ‖g_l‖ over the layers, on log scales."""
        report = self._report
        lines = self._sparkline("‖h‖", report.residual_norms)
        lines += self._sparkline("‖g‖", report.bp_grad_norms)
        if lines:
            lines.append([])
        return lines

    def _sparkline(self, name: str, values: Sequence[float]) -> list[Row]:
        scale = covering(values, log=True)
        if len(values) < 2 or scale is None:
            return []
        room = max(1, min(_SPARK_CELLS, self._width - 24))
        cells = max(1, room // len(values))
        bars = ""
        for bar in sparkline(values, scale, self._glyphs, room):
            bars += bar * cells
        first = short(values[0])
        last = short(values[-1])
        return [
            [
                (f"{self._say(name)} ", "dim"),
                (bars, "bar"),
                (f" {first} {self._glyphs.arrow} {last}", "text"),
            ]
        ]

    def _layers(self) -> list[Row]:
        """A line per layer: ‖h_l‖, growth of the block below, ‖g_l‖, and what else fits."""
        h = self._report.by_layer("residual_norms")
        g = self._report.by_layer("bp_grad_norms")
        more = list(self._credit_columns())
        of_more = chain.from_iterable(column.cells for column in more)
        layers = layers_in_order([*h, *g, *of_more])
        if not layers:
            return []
        growth = self._growth_column()
        room = self._width - _LAYER - 2 * _NUMBER - len(growth.heading)
        more = more[: max(0, room) // _COLUMN]
        spare = room - _COLUMN * len(more)
        bar = max(0, min(_LONGEST_BAR, spare // 2 - 1))
        columns = [
            self._norm_column("‖h‖", h, bar),
            growth,
            self._norm_column("‖g‖", g, bar),
            *more,
        ]
        headings = "".join([column.heading for column in columns])
        lines: list[Row] = [[(self._say(f" l  {headings}"), "dim")]]
        left_out = len(layers) - 2 * _FIRST_AND_LAST
        if left_out > 0:
            del layers[_FIRST_AND_LAST:-_FIRST_AND_LAST]
        for layer in layers:
            row = [(f"{layer:>2} ".ljust(_LAYER), "dim")]
            for column in columns:
                row += column.cells.get(layer, [column.blank])
            lines.append(row)
        if left_out > 0:
            more_layers = self._say(f" … {left_out} more layers")
            lines.insert(1 + _FIRST_AND_LAST, [(more_layers, "dim")])
        lines.append([])
        return lines

    def _credit_columns(self) -> Iterator[LayerColumn]:
        """Columns of recorded credit quality and precision, the most important first."""
        credit = self._report.credit or {}
        precision = self._report.reference_precision
        columns: list[tuple[str, Callable[[float | None], str], object]] = [
            ("Γ", signed, credit.get("gamma")),
            ("1−cos", apart, precision and precision.cosine),
            ("ρ", signed, credit.get("rho")),
            ("ρ at .1", signed, credit.get("rho_finite")),
        ]
        for name, written, values in columns:
            if not isinstance(values, (list, tuple)) or not values:
                continue
            cells: dict[str, Row] = {}
            for layer, value in enumerate(values):
                text = written(value).rjust(_COLUMN)
                cells[str(layer)] = [(text, "text")]
            blank = (" " * _COLUMN, "text")
            yield LayerColumn(name.rjust(_COLUMN), cells, blank)

    def _norm_column(self, name: str, norms: Mapping[str, float], bar: int) -> LayerColumn:
        """Norms as numbers, with bars of at most `bar` cells."""
        scale = covering(norms.values(), log=True)
        width = _NUMBER + bar
        cells: dict[str, Row] = {}
        for layer, norm in norms.items():
            length = 0
            tone = "bad"
            if math.isfinite(norm):
                tone = "text"
                if scale is not None and norm > 0 and bar:
                    length = max(1, scale.cell(norm, bar))
            number = short(norm).ljust(_NUMBER)
            drawn = (self._glyphs.plateau_passing * length).ljust(bar)
            cells[layer] = [(number, tone), (drawn, "bar")]
        return LayerColumn(name.ljust(width), cells, (" " * width, ""))

    def _growth_column(self) -> LayerColumn:
        """The growth of the block below each layer, or only a mark at the largest one."""
        mark = self._glyphs.grows
        cells = dict[str, Row]()
        needed = _LAYER + _NUMBER + _GROWTH + _NUMBER - 1
        if not self._growths or self._width < needed:
            width = 0
            if self._peak is not None:
                width = _PEAK
                cells[str(self._peak + 1)] = [(mark.ljust(width), "bad")]
            blank = " " * width
            return LayerColumn(blank, cells, (blank, "bad"))
        limit = self._report.thresholds.h_norm_explosion_ratio
        times = self._say("×")
        for block, growth in enumerate(self._growths):
            text = "NaN"
            if not math.isnan(growth):
                text = times + short(growth)
            if block == self._peak:
                text += f" {mark}"
            tone = "text" if growth <= limit else "bad"
            cells[str(block + 1)] = [(text.ljust(_GROWTH), tone)]
        return LayerColumn("growth".ljust(_GROWTH), cells, (" " * _GROWTH, "bad"))

    def _facts(self) -> list[Row]:
        """Names and wrapped values; in a narrow pane a value is below its name."""
        row = self._row
        report = self._report
        ellipsis = self._glyphs.ellipsis
        column = _NAMES if self._width >= 2 * _NAMES else _NAMES_NARROW
        room = self._width - column
        facts: list[tuple[str, object]] = [
            ("source", cut_start(self._say(row.source), room, ellipsis)),
            ("run", row.key),
            ("checkpoint", cut_start(self._say(row.checkpoint or ""), room, ellipsis)),
            ("deep Γ", _deep_gamma(report)),
            ("null", _null(report)),
            ("update", update_text(report)),
            ("zeros", _zeros((report.credit or {}).get("zeros"))),
            ("reference", _reference(report)),
            *[(f"beside ({letter})", _beside(report, letter)) for letter in LETTERS],
            # line breaks of notes are dropped, those of names shown
            ("notes", " ".join(report.notes.split())),
            ("accuracy", _accuracy(report)),
            ("batches", _batches(report)),
            ("arithmetic", report.dtype),
            ("vectors", report.provenance.get("reduction") or report.flatten),
            ("error norm", None if report.error_norm is None else short(report.error_norm)),
            ("taps", " ".join(report.tap_names)),
            *_flat(report.provenance),
        ]
        lines: list[Row] = []
        for name, value in facts:
            if value is None or value == "":
                continue
            head = cut(self._say(name), _NAMES - 1, ellipsis)
            if column < _NAMES:
                lines.append([(head, "dim")])
                head = ""
            for piece in folded(self._say(str(value)), room) or [""]:
                lines.append([(padded(head, column), "dim"), (piece, "dim")])
                head = ""
        return lines


def _deep_gamma(report: DiagnosticReport) -> str:
    """Γ as one number with its aggregation, or why it is missing."""
    credit = report.credit or {}
    every = deep_gamma({"gamma": credit.get("gamma")})
    if not math.isfinite(every):
        missing = credit.get("missing")
        if not isinstance(missing, Mapping) or not missing:
            return ""
        reasons = dict.fromkeys(map(str, missing.values()))
        return f"N/A: {'; '.join(reasons)}"
    parts = [signed(deep_gamma(credit, report.method_name))]
    free = free_layers(credit, report.method_name)
    if free:
        parts.append(f"{signed(every)} over l >= 1")
    last = credit.get("gamma_L")
    if isinstance(last, (int, float)):
        parts.append(f"Γ_L {signed(last)}")
    return ", ".join([*parts, aggregation(free)])


def _null(report: DiagnosticReport) -> str:
    """Deep Γ under freshly drawn feedback."""
    mean, std = null_gamma(report.credit, report.method_name)
    if math.isnan(mean):
        return ""
    null = (report.credit or {})["null"]
    draws = f"over {null.get('draws')} draws of fresh feedback"
    if math.isnan(std):
        return f"{signed(mean)} {draws}"
    text = f"{signed(mean)} ± {std:.2f} {draws}"
    if isinstance(null.get("rank"), float):
        text += f", p {short(null['rank'])}"
    return text


def _beside(report: DiagnosticReport, letter: str) -> str:
    """What was measured beside a diagnostic."""
    return "; ".join(record_of(report, letter).beside)


def _zeros(shares: object) -> str:
    """Shares of exact zeros in the training credit per layer."""
    if not isinstance(shares, list):
        return ""
    found = []
    for layer, share in enumerate(shares):
        if isinstance(share, (int, float)) and share > 0:
            found.append(f"{percent(share)} at l = {layer}")
    if found:
        return f"of a_l exactly 0: {', '.join(found)}"
    return ""


def _reference(report: DiagnosticReport) -> str:
    """Precision of the gradients on the worst sample; the column 1−cos has the layers' means."""
    found = report.reference_precision
    if found is None:
        return report.unmeasured.get("reference_precision", "")
    lowest = found.lowest
    if lowest is None:
        return "no gradient to compare with float64"
    worst = apart(lowest)
    words = f"1−cos(g in {found.dtype}, g in float64) at most {worst}"
    if any(found.lost):
        return f"{words}; {sum(found.lost)} gradients lost to 0"
    return words


def _accuracy(report: DiagnosticReport) -> str:
    if report.headline_acc is None:
        return ""
    parts = [short(report.headline_acc, 4)]
    if report.headline_acc_source:
        parts.append(report.headline_acc_source)
    frozen = baseline_text(report)
    if frozen:
        parts.append(f"frozen baseline {frozen}")
    return ", ".join(parts)


def _batches(report: DiagnosticReport) -> str:
    parts = []
    if report.batch_size:
        parts.append(f"B = {report.batch_size}")
    if report.n_batches:
        parts.append(f"K = {report.n_batches}")
    if report.stability_layer is not None:
        parts.append(f"drift at layer {report.stability_layer}")
    return ", ".join(parts)


def _flat(facts: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Provenance as names and values; a mapping as `key value, key value`, hashes abbreviated."""
    for name, value in facts.items():
        # a file may have been moved since: the row has its current path
        if name == "checkpoint" or value is None:
            continue
        if isinstance(value, Mapping):
            parts = [f"{key} {one}" for key, one in value.items() if one not in _EMPTY]
            value = ", ".join(parts)
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        label = _SHORTER.get(name, name.replace("_", " "))
        yield label, _HASH.sub(r"\1…", str(value))


class DetailPane(PaintedScroll, can_focus=True):
    """Shows one run.

    Args:
        glyphs: characters to draw with.
    """

    BINDINGS = [
        Binding("up,k", "scroll_up", "Scroll", key_display="↑↓", tooltip="scroll the run's report"),
        *SCROLL_KEYS[1:],
    ]

    _row: AuditRow | None = None
    _page: RunPage | None = None
    _page_width = 0
    _thresholds = DiagnosticThresholds()
    _gone = False
    _work: Sequence[tuple[str, str]] = ()

    def show(
        self,
        row: AuditRow | None,
        thresholds: DiagnosticThresholds,
        *,
        gone: bool = False,
        work: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Show a run.

        Args:
            row: the run.
            thresholds: what it is judged by.
            gone: its file or folder is no longer there.
            work: what another process does with it, lines with their tones.
        """
        if row is not self._row:
            self._page = None
            self.scroll_to(y=0, animate=False)
        self._row, self._gone, self._work = row, gone, work
        self.judge(thresholds)

    def judge(self, thresholds: DiagnosticThresholds) -> None:
        """Judge the run by other thresholds."""
        self._thresholds = thresholds
        self.repaint()

    def cut_row(self, hidden: int) -> Row:
        return [(f"{self._glyphs.ellipsis} {hidden} more lines", "dim")]

    def draw(self, width: int) -> Sequence[Row]:
        if self._row is None:
            return [[("no run selected", "dim")]]
        if self._page is None or self._page_width != width:
            self._page = RunPage(self._row, width, self._glyphs)
            self._page_width = width
        return self._page.lines(self._thresholds, gone=self._gone, work=self._work)
