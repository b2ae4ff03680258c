"""The detail pane: verdict, diagnostics, layers and provenance of a run."""

from __future__ import annotations

import itertools
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

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
from fa_core.text.cells import run_cell
from fa_core.text.notes import baseline_text
from fa_core.text.records import DiagnosticRecord, record_of
from fa_core.text.verdict import known_text, recorded_text, verdict_words
from fa_tui.views.columns import peak_block
from fa_tui.views.grid import axes_text
from fa_tui.views.scale import Scale, covering
from fa_tui.views.text import UNICODE, Glyphs, cut, cut_start, folded, padded, padded_left, width_of
from fa_tui.views.words import with_keys
from fa_tui.widgets.painted import SCROLL_KEYS, PaintedScroll, Row, ending

_INDENT = 6
_LEAST, _LEAST_NAME, _LEAST_TEXT = 16, 3, 8
_NARROW = 44
"""Below this width a diagnostic's line leaves out what its glyph shows too."""
_LEFT_OUT = re.compile(r" \([^)]*\)| the limit")
_PAIR = re.compile(r"[\[(]\S+ \S+[\])]")

_MEASURE = "not measured yet: press m to measure"
_NOTHING = "nothing was measured, and there is no checkpoint to measure"

_SPARK_CELLS = 24
_LAYER, _NUMBER, _GROWTH, _COLUMN, _MARK = 4, 9, 10, 7, 2
_LONGEST_BAR = 10
_FIRST_AND_LAST = 1000
"""Layers that have a line each, from either end."""

_NAMES, _NAMES_NARROW = 12, 2
_HASH = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_SHORTER = {
    "weights_dtype": "weights in",
    "device_label": "hardware",
    "frozen_baseline_from": "baseline of",
    "frozen_baseline_rule": "baseline by",
    "other_frozen_baselines": "other ones",
    "custom_backward": "backward by",
}
"""Names that their column would cut."""


def sparkline(
    values: Sequence[float], scale: Scale, glyphs: Glyphs = UNICODE, width: int = 0
) -> str:
    """One character per value or, in fewer cells, per group of values: its largest, a non-finite
    one before all.

    NaN and ±inf show the glyph for non-finite, zeros on a log scale that for zero.

    Args:
        values: in order.
        scale: values beyond it show the lowest bar, the highest.
        glyphs: characters to draw with.
        width: at most this many cells; 0 = one per value.

    >>> sparkline([1.0, 10.0, 1000.0, float("nan"), 0.0], Scale(1.0, 1000.0, log=True))
    '▁▃█∞0'
    """
    if width and len(values) > width:
        bounds = [len(values) * cell // width for cell in range(width + 1)]
        groups = [values[start:end] for start, end in itertools.pairwise(bounds)]
        values = [
            max(group, key=lambda value: (not math.isfinite(value), value)) for group in groups
        ]
    return "".join(_bar(value, scale, glyphs) for value in values)


def _bar(value: float, scale: Scale, glyphs: Glyphs) -> str:
    if not math.isfinite(value):
        return glyphs.nonfinite
    if scale.log and value == 0:
        return glyphs.zero
    return glyphs.bar(scale.fraction(value))


def apart(cosine: float | None) -> str:
    """How far two directions are apart, 1 − cos, which shows what a cosine near 1 hides.

    >>> apart(1 - 3e-9), apart(1.0), apart(None)
    ('3e-9', '0', 'N/A')
    """
    if cosine is None:
        return "N/A"
    return short(max(0.0, 1 - cosine) if math.isfinite(cosine) else math.nan, 1)


def signed(value: float | None) -> str:
    """A cosine; undefined ones read N/A, never 0."""
    if value is None or math.isnan(value):
        return "N/A"
    return f"{value:+.2f}"


class RunPage:
    """Everything known about a run, in lines; each part is written again only where what it depends
    on changed.

    Args:
        row: the run.
        width: cells to fill, at least 16; a line that cannot be wrapped ends in a sign.
        glyphs: characters to draw with.
    """

    def __init__(self, row: AuditRow, width: int, glyphs: Glyphs) -> None:
        self._row, self._report = row, row.report
        self._width, self._glyphs, self._say = max(width, _LEAST), glyphs, glyphs.say
        self._parts: dict[str, tuple[object, list[Row]]] = {}
        norms = self._report.residual_norms
        self._growths, self._peak = block_growths(norms), peak_block(norms)

    def lines(self, thresholds: DiagnosticThresholds, *, gone: bool = False) -> list[Row]:
        """The run as thresholds judge it; `gone`: its file or folder is no longer there."""
        report = self._report = self._row.report.with_thresholds(thresholds)
        judged, coverage = (report.flags, report.undecided, report.coverage), report.coverage
        lines = [*self._part("title", judged, self._title)]
        if gone:
            lines += self._wrapped(
                f"{self._glyphs.gone} no longer on disk: shown as it was read last", "note"
            )
        if coverage:
            if report.resampling is None:
                found = None
            else:
                found = confidence(report)
            if found is None:
                same = None
            else:
                same = found.same_verdict
            lines += [*self._part("verdict", (judged, same), partial(self._verdict, found)), []]
            for letter in LETTERS:
                diagnostic = DIAGNOSTICS[letter]
                limit = diagnostic.limit(thresholds)
                lines += self._part(letter, limit, partial(self._diagnostic, diagnostic, found))
            passing = [growth <= thresholds.h_norm_explosion_ratio for growth in self._growths]
            lines += [[], *self._part("sparklines", None, self._sparklines)]
            lines += self._part("layers", passing, self._layers)
        else:
            lines += self._wrapped(_MEASURE if self._row.checkpoint else _NOTHING, "note")
        return [*lines, *self._part("facts", None, self._facts)]

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
        """The row, with a sign where it is cut; blanks at its end are not missed."""
        if sum(width_of(text) for text, _ in row) <= self._width:
            return row
        while not row[-1][0].strip():
            row = row[:-1]
        last, tone = row[-1]
        return ending([*row[:-1], (last.rstrip(), tone)], self._width, self._glyphs.ellipsis, "dim")

    def _title(self) -> list[Row]:
        """Method, seed and verdict cell; the axes between them, or below where there is no room."""
        row, report, ellipsis = self._row, self._report, self._glyphs.ellipsis
        name, axes = self._say(report.method_name or row.method), self._say(axes_text(row.axes))
        mark = run_cell(report, control=row.is_control, ascii_only=self._glyphs.name == "ascii")
        below = self._wrapped(axes, "dim")
        # the verdict is what nothing may push out
        room = self._width - len(mark) - 1
        if row.seed is None:
            seeds = [""]
        else:
            seeds = [f"  seed {row.seed}", f" s{row.seed}"]
        seed = next((seed for seed in seeds if width_of(name) + len(seed) <= room), seeds[-1])
        if axes and width_of(f"{name}{seed}  {axes}") <= room:
            seed, below = f"{seed}  {axes}", []
        name = cut(name, max(_LEAST_NAME, room - width_of(seed)), ellipsis)
        left = ending([(name, "strong"), (seed, "dim")], room, ellipsis, "dim")
        blanks = " " * (self._width - len(mark) - sum(width_of(text) for text, _ in left))
        return [[*left, (blanks, ""), (mark, self._tone)], *below]

    @property
    def _tone(self) -> str:
        standing = self._report.standing(self._row.is_control)
        tones = {WALKS_BACK: "bad", TRUSTWORTHY: "good", UNDECIDED: "warn"}
        return tones.get(standing, "dim")

    def _verdict(self, found: Confidence | None) -> list[Row]:
        report, control = self._report, self._row.is_control
        if report.flags and known_text(report) != f"{LETTERS} measured":
            on = f" ({known_text(report)})"
        else:
            on = ""
        lines = self._wrapped(verdict_words(report, control) + on, self._tone)
        if mode := failure_mode(report, cosine=False):
            lines += self._wrapped(f"mode: {mode}", "note")
        if found is not None:
            same = f"same verdict in {percent(found.same_verdict)} of {found.resamples} resamples"
            lines += self._wrapped(same, "dim")
        if report.recorded_differs:
            words = recorded_text(report, self._row.report.thresholds)
            lines += self._wrapped(f"{self._glyphs.differs} {words}", "note")
        return lines

    def _diagnostic(self, diagnostic: Diagnostic, found: Confidence | None) -> list[Row]:
        """A diagnostic, with the cause of (b), and where 95 % of the resamples lie and how many of
        them fire."""
        letter, report = diagnostic.letter, self._report
        lines = self._judged(record_of(report, letter))
        if letter == "b" and letter in report.flags:
            lines += self._wrapped(f"cause: {floor_text(report)}", "note", _INDENT)
        if found is not None and letter in found.fired:
            low, high = (short(end) for end in found.intervals[diagnostic.column])
            fires = percent(found.fired[letter])
            said = f"{LEVEL:.0%}: {low} to {high}{diagnostic.suffix}, fires in {fires}"
            lines += self._wrapped(said, "dim", _INDENT)
        return lines

    def _judged(self, record: DiagnosticRecord) -> list[Row]:
        """A diagnostic with its glyph, and its distance from flipping behind or below it."""
        glyph, tone = self._sign(record.letter)
        text_tone = "text" if record.letter in self._report.coverage else "dim"
        place = self._peak_text() if record.letter == "a" else ""
        if self._width < _NARROW and record.distance:
            head = f"({record.letter})"
            body = record.number
            distance = _LEFT_OUT.sub("", record.distance)
            under = "; ".join([f"{record.limit}, {distance}", *record.remarks])
            if place and _INDENT + len(under) + 2 + len(place) <= self._width:
                under = f"{under}, {place}"
        else:
            head = f"({record.letter}) {record.state}:"
            body = with_keys(record.text)
            under = "  ".join(filter(None, [place, record.distance]))
        lines = self._broken(f"{glyph} {head} {body}")
        first = lines[0]
        lead = len(glyph) + 1 + len(self._say(head))
        rows: list[Row] = [[(first[:lead], tone), (first[lead:], text_tone)]]
        rows += [[(line, text_tone)] for line in lines[1:]]
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

    def _peak_text(self) -> str:
        if self._peak is None:
            return ""
        return f"in block {self._peak}→{self._peak + 1}"

    def _broken(self, text: str) -> list[str]:
        """A text on lines of the pane's width; intervals, and thresholds with their names, stay
        whole."""
        whole = _PAIR.sub(lambda pair: pair[0].replace(" ", "\0"), self._say(text))
        lines = textwrap.wrap(whole, self._width, subsequent_indent=" " * _INDENT)
        return [line.replace("\0", " ") for line in lines]

    def _put_under(self, rows: list[Row], under: str) -> None:
        """Put a text at the right end of the last row, or on rows of its own."""
        used = sum(width_of(piece) for piece, _ in rows[-1])
        if under and used + 2 + width_of(under) <= self._width:
            rows[-1].append((padded_left(under, self._width - used), "dim"))
            return
        room = max(_LEAST_TEXT, self._width - _INDENT)
        rows += [[(" " * _INDENT + line, "dim")] for line in textwrap.wrap(under, room)]

    def _sparklines(self) -> list[Row]:
        """‖h_l‖ and ‖g_l‖ over the layers as one line each, on log scales."""
        lines: list[Row] = []
        room = max(1, min(_SPARK_CELLS, self._width - 24))
        for name, values in (
            ("‖h‖", self._report.residual_norms),
            ("‖g‖", self._report.bp_grad_norms),
        ):
            scale = covering(values, log=True)
            if len(values) < 2 or scale is None:
                continue
            each = max(1, room // len(values))
            wide = "".join(
                character * each for character in sparkline(values, scale, self._glyphs, room)
            )
            ends = f" {short(values[0])} {self._glyphs.arrow} {short(values[-1])}"
            lines.append([(f"{self._say(name)} ", "dim"), (wide, "bar"), (ends, "text")])
        if lines:
            return [*lines, []]
        return []

    def _layers(self) -> list[Row]:
        """A line per layer: ‖h_l‖, growth of the block below it and ‖g_l‖ as numbers and bars, then
        what fits."""
        report, width = self._report, self._width
        h, g, more = (
            report.by_layer("residual_norms"),
            report.by_layer("bp_grad_norms"),
            list(self._more_columns()),
        )
        layers = layers_in_order([*h, *g, *(layer for _, column in more for layer in column)])
        if not layers:
            return []
        if self._peak is None:
            peak = ""
        else:
            peak = str(self._peak + 1)
        # where there is no room for the growth, its peak is marked at ‖h‖
        if width >= _LAYER + _NUMBER + _GROWTH + _NUMBER - 1:
            blocks = self._growths
        else:
            blocks = []
        growth_of = {str(layer): growth for layer, growth in enumerate(blocks, 1)}
        if blocks:
            growth_width = _GROWTH
        elif peak:
            growth_width = _MARK
        else:
            growth_width = 0
        numbers = _LAYER + 2 * _NUMBER + growth_width
        more = more[: max(0, width - numbers) // _COLUMN]
        bar = max(0, min(_LONGEST_BAR, (width - numbers - _COLUMN * len(more)) // 2 - 1))
        h_scale, g_scale = covering(h.values(), log=True), covering(g.values(), log=True)
        heads = ["‖h‖".ljust(_NUMBER + bar), ("growth" if blocks else "").ljust(growth_width)]
        heads += ["‖g‖".ljust(_NUMBER + bar), *(name.rjust(_COLUMN) for name, _ in more)]
        lines: list[Row] = [[(self._say(" l  " + "".join(heads)), "dim")]]
        left_out = len(layers) - 2 * _FIRST_AND_LAST
        for layer in (
            layers if left_out <= 0 else [*layers[:_FIRST_AND_LAST], *layers[-_FIRST_AND_LAST:]]
        ):
            row = [
                (f"{layer:>2} ".ljust(_LAYER), "dim"),
                *self._number_and_bar(h.get(layer), h_scale, bar),
            ]
            row.append(self._growth(growth_of.get(layer), growth_width, is_peak=layer == peak))
            row += self._number_and_bar(g.get(layer), g_scale, bar)
            row += [(column.get(layer, "").rjust(_COLUMN), "text") for _, column in more]
            lines.append(row)
        if left_out > 0:
            lines.insert(1 + _FIRST_AND_LAST, [(self._say(f" … {left_out} more layers"), "dim")])
        return [*lines, []]

    def _more_columns(self) -> Iterator[tuple[str, dict[str, str]]]:
        """What comes behind the norms, layer by layer, the most important first: a heading and its
        numbers.

        Credit quality is there where the method's credit was saved.
        """
        credit, precision = self._report.credit or {}, self._report.reference_precision
        columns: list[tuple[str, Callable[[float | None], str], object]] = [
            ("Γ", signed, credit.get("gamma")),
            ("1−cos", apart, None if precision is None else precision.cosine),
            ("ρ", signed, credit.get("rho")),
            ("ρ at .1", signed, credit.get("rho_finite")),
        ]
        for name, written, layers in columns:
            if isinstance(layers, (list, tuple)) and layers:
                yield name, {str(layer): written(value) for layer, value in enumerate(layers)}

    def _number_and_bar(self, value: float | None, scale: Scale | None, cells: int) -> Row:
        if value is None:
            return [(" " * (_NUMBER + cells), "")]
        bar = ""
        if scale is not None and math.isfinite(value) and value > 0 and cells:
            bar = self._glyphs.plateau_passing * max(1, round(scale.fraction(value) * (cells - 1)))
        return [
            (short(value).ljust(_NUMBER), "text" if math.isfinite(value) else "bad"),
            (bar.ljust(cells), "bar"),
        ]

    def _growth(self, value: float | None, width: int, *, is_peak: bool) -> tuple[str, str]:
        if is_peak:
            mark = self._glyphs.grows
        else:
            mark = ""
        if value is None:
            return mark.ljust(width), "bad"
        if math.isnan(value):
            text = "NaN"
        else:
            text = f"{self._say('×')}{short(value)}"
        passes = value <= self._report.thresholds.h_norm_explosion_ratio
        return f"{text} {mark}".ljust(width), "text" if passes else "bad"

    def _facts(self) -> list[Row]:
        """A name and a value per line, long values wrapped; in a narrow pane the value is below its
        name."""
        row, report = self._row, self._report
        if self._width >= 2 * _NAMES:
            column = _NAMES
        else:
            column = _NAMES_NARROW
        room = self._width - column
        facts: list[tuple[str, object]] = [
            ("source", cut_start(self._say(row.source), room, self._glyphs.ellipsis)),
            ("run", row.key),
            ("checkpoint", cut_start(self._say(row.checkpoint or ""), room, self._glyphs.ellipsis)),
            ("deep Γ", _deep_gamma(report)),
            ("null", _null(report)),
            ("zeros", _zeros((report.credit or {}).get("zeros"))),
            ("reference", _reference(report)),
            # the line breaks of a note are no part of it; in a name they are shown
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
            head = cut(self._say(name), _NAMES - 1, self._glyphs.ellipsis)
            if column < _NAMES:
                lines.append([(head, "dim")])
                head = ""
            for piece in folded(self._say(str(value)), room) or [""]:
                lines.append([(padded(head, column), "dim"), (piece, "dim")])
                head = ""
        return lines


def _deep_gamma(report: DiagnosticReport) -> str:
    """Γ as one number, with how it was averaged; where there is none, the reason."""
    credit = report.credit or {}
    deep, free = deep_gamma(credit, report.method_name), free_layers(credit, report.method_name)
    every = deep_gamma({"gamma": credit.get("gamma")})
    last, missing = credit.get("gamma_L"), credit.get("missing")
    if math.isfinite(every):
        parts = [
            signed(deep) if math.isfinite(deep) else "N/A",
            f"{signed(every)} over l >= 1" if free else "",
        ]
        parts.append(f"Γ_L {signed(last)}" if isinstance(last, (int, float)) else "")
        return _listed(*parts, aggregation(free))
    if isinstance(missing, Mapping):
        reasons = dict.fromkeys(map(str, missing.values()))
    else:
        reasons = {}
    if reasons:
        return f"N/A: {'; '.join(reasons)}"
    return ""


def _null(report: DiagnosticReport) -> str:
    """Deep Γ with freshly drawn feedback, to compare the measured one with."""
    mean, std = null_gamma(report.credit, report.method_name)
    if math.isnan(mean):
        return ""
    null = (report.credit or {})["null"]
    if math.isnan(std):
        around = ""
    else:
        around = f" ± {std:.2f}"
    if around and isinstance(null.get("rank"), float):
        p = f", p {short(null['rank'])}"
    else:
        p = ""
    return f"{signed(mean)}{around} over {null.get('draws')} draws of fresh feedback{p}"


def _zeros(shares: object) -> str:
    """Where the training credit has entries that are exactly 0, and how many."""
    layers = enumerate(shares) if isinstance(shares, list) else ()
    found = [
        f"{percent(share)} at l = {l}"
        for l, share in layers
        if isinstance(share, (int, float)) and share > 0
    ]
    if found:
        return f"of a_l exactly 0: {_listed(*found)}"
    return ""


def _reference(report: DiagnosticReport) -> str:
    """Whether the gradients are right, by the worst sample; the column 1−cos has the mean of every
    layer."""
    found = report.reference_precision
    if found is None:
        return report.unmeasured.get("reference_precision", "")
    known = [cosine for cosine in found.worst if cosine is not None]
    if not known:
        return "no gradient to compare with float64"
    # NaN before any number
    worst = apart(min(known, key=lambda cosine: (not math.isnan(cosine), cosine)))
    words = f"1−cos(g in {found.dtype}, g in float64) at most {worst}"
    if any(found.lost):
        return f"{words}; {sum(found.lost)} gradients lost to 0"
    return words


def _accuracy(report: DiagnosticReport) -> str:
    if report.headline_acc is None:
        return ""
    frozen = baseline_text(report)
    return _listed(
        short(report.headline_acc, 4),
        report.headline_acc_source,
        frozen and f"frozen baseline {frozen}",
    )


def _batches(report: DiagnosticReport) -> str:
    if report.stability_layer is None:
        drift = ""
    else:
        drift = f"drift at layer {report.stability_layer}"
    counts = (("B", report.batch_size), ("K", report.n_batches))
    return _listed(*(f"{name} = {count}" for name, count in counts if count), drift)


def _listed(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _flat(facts: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Provenance as name and value; a mapping inside it as `key value, key value`; hashes by their
    first digits."""
    for name, value in facts.items():
        if name == "checkpoint":
            # the row's own path is newer: a file may have been moved since
            continue
        if isinstance(value, Mapping):
            value = ", ".join(
                f"{key} {each}" for key, each in value.items() if each not in (None, [], {}, "")
            )
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        if value is not None:
            shown = _HASH.sub(r"\1…", str(value))
        else:
            shown = None
        yield _SHORTER.get(name, name.replace("_", " ")), shown


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
    _page: tuple[int, RunPage] | None = None
    """The width it was written for, and the run in it."""
    _thresholds = DiagnosticThresholds()
    _gone = False

    def show(
        self, row: AuditRow | None, thresholds: DiagnosticThresholds, *, gone: bool = False
    ) -> None:
        """Show a run, judged by `thresholds`; None shows that none is selected.

        Args:
            row: the run.
            thresholds: what it is judged by.
            gone: its file or folder is no longer there.
        """
        if row is not self._row:
            self._page = None
            self.scroll_to(y=0, animate=False)
        self._row, self._gone = row, gone
        self.judge(thresholds)

    def judge(self, thresholds: DiagnosticThresholds) -> None:
        """Show the same run, judged by other thresholds."""
        self._thresholds = thresholds
        self.repaint()

    def cut_row(self, hidden: int) -> Row:
        return [(f"{self._glyphs.ellipsis} {hidden} more lines", "dim")]

    def draw(self, width: int) -> Sequence[Row]:
        if self._row is None:
            return [[("no run selected", "dim")]]
        if self._page is None or self._page[0] != width:
            self._page = width, RunPage(self._row, width, self._glyphs)
        return self._page[1].lines(self._thresholds, gone=self._gone)
