"""The detail pane: verdict, diagnostics, layers and provenance of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from textual.binding import Binding

from fa_core.formats.rows import AuditRow
from fa_core.report.beside import failure_mode
from fa_core.report.diagnostic_record import records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import LETTERS, NOT_MEASURED, UNDECIDED, WALKS_BACK, block_growths
from fa_core.report.gamma import (
    aggregation,
    deep_gamma,
    deep_layers,
    lost_layers,
    null_gamma,
    null_of,
    per_layer,
)
from fa_core.report.notes import baseline_text, other_data
from fa_core.report.numbers import percent, short, with_axes
from fa_core.report.provenance import fact_text
from fa_core.report.report_facts import TRAINING, DiagnosticThresholds, layers_in_order
from fa_core.report.verdict_text import flips_texts, known_text, recorded_text
from fa_tui.session import Session
from fa_tui.views.columns import peak_block
from fa_tui.views.epochs import cell_so_far
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import tone_of
from fa_tui.views.scale import covering
from fa_tui.views.sparklines import sparkline
from fa_tui.views.text import cut, cut_start, fitted, folded, padded, width_of
from fa_tui.widgets.detail_table import DiagnosticTable
from fa_tui.widgets.painted import (
    SCROLL_KEYS,
    PaintedScroll,
    Row,
    ending,
    row_width,
)

_LEAST = 16
_LEAST_NAME = 3
_MEASURE = "not measured yet: press m to measure"
_NOTHING = "nothing was measured, and there is no checkpoint to measure"

_SPARK_CELLS = 24
_ALL_FOUR = 6
_LEAST_HALF = 35
"""Cells of a sparkline from which two stand beside each other."""
_BESIDE = "   "
_LAYER = 4
_NUMBER = 9
_GROWTH = 10
_COLUMN = 7
_NAMES = 12
_EMPTY: tuple[object, ...] = (None, [], {}, "")
_SHORTER = {
    "guessed_taps": "taps guess",
    "instructions": "CPU code",
    "weights_dtype": "weights in",
    "device_label": "hardware",
    "frozen_baseline_from": "baseline of",
    "frozen_baseline_rule": "baseline by",
    "other_frozen_baselines": "other ones",
    "custom_backward": "backward by",
}
"""Shorter names of facts, which fit their column."""


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
        cells: layer → its cell; others are blank.
    """

    heading: str
    cells: Mapping[str, Row]


class RunPage:
    """The lines about a run; what no step of a slider changes is written once.

    Args:
        row: the run.
        width: cells to fill, at least 16; longer lines are wrapped or end in an ellipsis.
        glyphs: characters to draw with.
    """

    def __init__(self, row: AuditRow, width: int, glyphs: Glyphs) -> None:
        self._row = row
        self._covered = bool(row.report.coverage)
        self._judged: object = None
        self._width = max(width, _LEAST)
        self._glyphs = glyphs
        self._say = glyphs.say
        self._written_for: object = None
        norms = row.report.residual_norms
        self._growths = block_growths(norms)
        self._peak = peak_block(norms)

    def lines(
        self,
        thresholds: DiagnosticThresholds,
        judged: tuple[int, int],
        *,
        gone: bool = False,
        work: Sequence[tuple[str, str]] = (),
        so_far: str = "",
    ) -> list[Row]:
        """The run as thresholds judge it.

        Args:
            thresholds: what judges it.
            judged: the masks of its firing and undecided letters.
            gone: whether its file or folder is no longer there.
            work: what another process does with it, lines with their tones.
            so_far: its letters, if it is in training.
        """
        self._limit = thresholds.h_norm_explosion_ratio
        # beside an undecided letter stands whether its number alone fires
        _, undecided = judged
        state = (judged, thresholds if undecided else None)
        if state != self._judged:
            self._judged = state
            self._report = self._row.report.with_thresholds(thresholds)
            self._table = DiagnosticTable(self._report, self._width, self._glyphs)
        self._at_work, self._so_far = bool(work) and not self._covered, so_far
        table = self._table.rows(thresholds) if self._covered else []
        passing = [growth <= self._limit for growth in self._growths]
        # what has no column of the table stands below it
        inputs = (state, self._table.columns, passing, gone, work, so_far)
        if inputs != self._written_for:
            self._written_for = inputs
            written = chain(self._title(), self._below(gone, work), self._facts())
            self._written = list(map(self._fitted, written))
        # in a pane of six lines these are all
        title, *below = self._written
        return [title, *table, *below]

    def _below(self, gone: bool, work: Sequence[tuple[str, str]]) -> list[Row]:
        """What is known of the run, between its table and the facts."""
        lines: list[Row] = []
        if gone:
            words = "no longer on disk: shown as it was read last"
            lines += self._wrapped(f"{self._glyphs.gone} {words}", "note")
        for text, tone in work:
            lines += self._wrapped(text, tone)
        if self._covered:
            lines += [*self._findings(), [], *self._layers()]
        elif work or self._report.unmeasured.get(TRAINING, "").startswith("training,"):
            lines.append([])
        elif self._row.checkpoint:
            lines += self._wrapped(_MEASURE, "note")
        else:
            lines += self._wrapped(_NOTHING, "note")
        return lines

    def _findings(self) -> list[Row]:
        """The sparklines, and what follows from the numbers."""
        lines = [*self._sparklines(), *self._flips(), [], *self._verdict()]
        for text, tone in self._table.remarks():
            lines += self._wrapped(text, tone, hanging=3)
        return lines

    def _wrapped(self, text: str, tone: str, hanging: int = 0) -> list[Row]:
        lines = folded(self._say(text), self._width, indent=" " * hanging)
        return [[(line, tone)] for line in lines]

    def _fitted(self, row: Row) -> Row:
        """The row, cut with an ellipsis if it is too wide; trailing blanks are dropped."""
        if row_width(row) <= self._width:
            return row
        while not row[-1][0].strip():
            row = row[:-1]
        *first, (last, tone) = row
        return ending([*first, (last.rstrip(), tone)], self._width, self._glyphs.ellipsis)

    def _title(self) -> list[Row]:
        """Method, seed, axes, verdict and its cell; what does not fit stands below."""
        row = self._row
        report = self._report
        ellipsis = self._glyphs.ellipsis
        mark = self._say(self._so_far or report.cell())
        # the verdict is never cut
        room = self._width - len(mark) - 1
        name = self._say(report.method_name or row.method)
        seed = self._seed(room - width_of(name))
        axes = self._say(with_axes("", row.axes).strip())
        below = self._wrapped(axes, "dim") if axes else []
        if axes and width_of(f"{name}{seed}  {axes}") <= room:
            seed = f"{seed}  {axes}"
            below = []
        name = cut(name, max(_LEAST_NAME, room - width_of(seed)), ellipsis)
        left = ending([(name, "strong"), (seed, "dim")], room, ellipsis)
        for words in self._verdicts():
            if row_width(left) + 3 + width_of(words) < room:
                left += [("   ", ""), (words, self._tone)]
                break
        else:
            below += self._wrapped(words, self._tone)
        # between name and verdict, as a border above the run
        gap = room + 1 - row_width(left)
        rule = self._glyphs.rule * (gap - 2)
        return [[*left, (f" {rule} "[-gap:], "faint"), (mark, self._tone)], *below]

    def _verdicts(self) -> list[str]:
        """The verdict in a few words, and in fewer."""
        report = self._report
        if self._at_work:
            # how far it is stands below
            return ["in training" if self._so_far else NOT_MEASURED]
        if not report.flags or self._row.no_claim:
            return [self._say(report.words)]
        fire = "fires" if len(report.flags) == 1 else "fire"
        short = f"needs {WALKS_BACK}"
        words = f"{short}: {', '.join(sorted(report.flags))} {fire}"
        _, *doubt = report.words.partition(f"; {UNDECIDED}")
        return ["".join([words, *doubt]), words, short]

    def _seed(self, room: int) -> str:
        if self._row.seed is None:
            return ""
        seed = f"  seed {self._row.seed}"
        if len(seed) <= room:
            return seed
        return f" s{self._row.seed}"

    @property
    def _tone(self) -> str:
        return tone_of(self._report.claim)

    def _verdict(self) -> list[Row]:
        """The protocol's words for the verdict, its cause, and what the file recorded."""
        report = self._report
        lines: list[Row] = []
        if report.flags and not self._row.no_claim:
            words = report.words
            known = known_text(report)
            if known != f"{LETTERS} measured":
                words = f"{words}; {known}"
            lines += self._wrapped(words, self._tone)
        cause = failure_mode(report)
        if cause:
            lines += self._wrapped(f"cause: {cause}", "note")
        if report.recorded_differs:
            recorded = recorded_text(report, self._row.report.thresholds)
            lines += self._wrapped(f"{self._glyphs.differs} {recorded}", "note")
        return lines

    def _flips(self) -> list[Row]:
        """The thresholds that would change the judgement."""
        flips = flips_texts(self._report)
        text = f"To flip (F): {'; '.join(flips)}"
        return self._wrapped(text, "note", hanging=2) if flips else []

    def _sparklines(self) -> list[Row]:
        """Sparklines of ‖h_l‖ and ‖g_l‖ over the layers, on log scales; in one line if it holds
        both."""
        report = self._report
        half = (self._width - len(_BESIDE)) // 2
        room = half if half >= _LEAST_HALF else self._width
        lines = [
            self._sparkline("stream ‖h‖", report.residual_norms, room),
            self._sparkline("gradient ‖g‖", report.bp_grad_norms, room),
        ]
        drawn = list(filter(None, lines))
        if len(drawn) < 2 or room != half:
            return drawn
        first, second = drawn
        gap = " " * (half + len(_BESIDE) - row_width(first))
        return [[*first, (gap, ""), *second]]

    def _sparkline(self, name: str, values: Sequence[float], width: int) -> Row:
        scale = covering(values, log=True)
        if len(values) < 2 or scale is None:
            return []
        ends = f" {short(values[0])} {self._glyphs.arrow} {short(values[-1])}"
        name = f"{self._say(name)} "
        room = max(1, min(_SPARK_CELLS, width - len(name) - len(ends)))
        cells = max(1, room // len(values))
        bars = "".join(bar * cells for bar in sparkline(values, scale, self._glyphs, room))
        return [(name, "dim"), (bars, "bar"), (ends, "text")]

    def _layers(self) -> list[Row]:
        """A line per layer: ‖h_l‖, growth of the block below, ‖g_l‖, and what else fits."""
        h = self._report.by_layer("residual_norms")
        g = self._report.by_layer("bp_grad_norms")
        more = list(self._credit_columns())
        of_more = chain.from_iterable(column.cells for column in more)
        layers = layers_in_order([*h, *g, *of_more])
        if not layers:
            return []
        columns = [_norm_column("‖h‖", h), self._growth_column(), _norm_column("‖g‖", g), *more]
        widths = [len(column.heading) for column in columns]
        # both norms are more important than the growth between them
        growth = [1] if self._growths else []
        order = [0, 2, *growth, *range(3, len(columns))]
        shown = fitted(_LAYER, widths, self._width, order=order).shown
        columns = [columns[place] for place in shown]
        headings = "".join([column.heading for column in columns])
        lines: list[Row] = [[(self._say(f" l  {headings}"), "dim")]]
        for layer in layers:
            row = [(f"{layer:>2} ".ljust(_LAYER), "dim")]
            for column in columns:
                blank = " " * len(column.heading)
                row += column.cells.get(layer, [(blank, "")])
            lines.append(row)
        lines.append([])
        return lines

    def _credit_columns(self) -> Iterator[LayerColumn]:
        """Columns of recorded credit quality and precision, the most important first."""
        credit, precision = self._report.credit, self._report.reference_precision
        columns = [
            ("Γ", map(signed, per_layer(credit))),
            ("1−cos", map(apart, precision.cosine if precision else ())),
            ("ρ", map(signed, per_layer(credit, "rho"))),
        ]
        for name, texts in columns:
            cells: dict[str, Row] = {}
            for layer, text in enumerate(texts):
                cells[str(layer)] = [(text.rjust(_COLUMN), "text")]
            if cells:
                yield LayerColumn(name.rjust(_COLUMN), cells)

    def _growth_column(self) -> LayerColumn:
        """The growth of the block below each layer, with a mark at the largest one."""
        cells = dict[str, Row]()
        over = "warn" if "a" in self._report.undecided else "bad"
        times = self._say("×")
        for block, growth in enumerate(self._growths):
            text = "NaN"
            if not math.isnan(growth):
                text = times + short(growth)
            if block == self._peak:
                text += f" {self._glyphs.grows}"
            tone = "text" if growth <= self._limit else over
            cells[str(block + 1)] = [(text.ljust(_GROWTH), tone)]
        return LayerColumn("growth".ljust(_GROWTH), cells)

    def _facts(self) -> list[Row]:
        """Names and wrapped values."""
        row = self._row
        report = self._report
        ellipsis = self._glyphs.ellipsis
        room = max(1, self._width - _NAMES)
        facts: list[tuple[str, object]] = [
            ("source", cut_start(self._say(row.source), room, ellipsis)),
            ("run", row.key),
            ("checkpoint", cut_start(self._say(row.checkpoint or ""), room, ellipsis)),
            ("deep Γ", _deep_gamma(report)),
            ("null", _null(report)),
            ("zeros", _zeros(report)),
            ("reference", report.unmeasured.get("reference_precision")),
            *[(f"beside ({one.letter})", "; ".join(one.beside)) for one in records_of(report)],
            *[("samples", text) for text in other_data(report)],
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
            for piece in folded(self._say(str(value)), room) or [""]:
                lines.append([(padded(head, _NAMES), "dim"), (piece, "dim")])
                head = ""
        return lines


def _norm_column(name: str, norms: Mapping[str, float]) -> LayerColumn:
    cells: dict[str, Row] = {}
    for layer, norm in norms.items():
        tone = "text" if math.isfinite(norm) else "bad"
        cells[layer] = [(short(norm).ljust(_NUMBER), tone)]
    return LayerColumn(name.ljust(_NUMBER), cells)


def _deep_gamma(report: DiagnosticReport) -> str:
    """Γ as one number with its aggregation, or why it is missing."""
    credit = report.credit or {}
    method = report.method_name
    if not deep_layers(credit, method) and not lost_layers(credit, method):
        reasons = dict.fromkeys(map(str, credit.get("missing", {}).values()))
        return f"N/A: {'; '.join(reasons)}" if reasons else ""
    parts = [signed(deep_gamma(credit, method))]
    last = credit.get("gamma_L")
    if last is not None:
        parts.append(f"Γ_L {signed(last)}")
    return ", ".join([*parts, aggregation(credit, method)])


def _null(report: DiagnosticReport) -> str:
    """Deep Γ under freshly drawn feedback."""
    mean, std = null_gamma(report.credit, report.method_name)
    if math.isnan(mean):
        return ""
    null = (report.credit or {})["null"]
    draws = f"over {null.get('draws')} draws of {null_of(report.credit) or 'fresh feedback'}"
    if math.isnan(std):
        return f"{signed(mean)} {draws}"
    text = f"{signed(mean)} ± {std:.2f} {draws}"
    if isinstance(null.get("rank"), float):
        text += f", p {short(null['rank'])}"
    return text


def _zeros(report: DiagnosticReport) -> str:
    """Shares of exact zeros in the training credit per layer."""
    found = []
    for layer, share in enumerate(per_layer(report.credit, "zeros")):
        if share is not None and share > 0:
            found.append(f"{percent(share)} at l = {layer}")
    if found:
        return f"of a_l exactly 0: {', '.join(found)}"
    return ""


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
        # a file may have been moved since: the row has its current path; sizes and times of files
        # say nothing to a reader
        if name in ("checkpoint", "files") or value is None:
            continue
        if isinstance(value, Mapping):
            parts = [f"{key} {one}" for key, one in value.items() if one not in _EMPTY]
            value = ", ".join(parts)
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        label = _SHORTER.get(name, name.replace("_", " "))
        yield label, fact_text(value)


class DetailPane(PaintedScroll, can_focus=True):
    """Shows one run."""

    BINDINGS = [
        Binding("up,k", "scroll_up", "Scroll", key_display="↑↓", tooltip="scroll the run's report"),
        *SCROLL_KEYS[1:],
        Binding("escape", "screen.back", "Back", key_display="esc", tooltip="back to the runs"),
    ]

    _row: AuditRow | None = None
    _page: RunPage | None = None
    _page_width = 0
    _now = Session()
    _index: int | None = None
    _work: Sequence[tuple[str, str]] = ()

    def show(self, now: Session, index: int | None, work: Sequence[tuple[str, str]] = ()) -> None:
        """Show a run.

        Args:
            now: the snapshot.
            index: of the run.
            work: what another process does with it, lines with their tones.
        """
        row = None if index is None else now.rows[index]
        if row is not self._row:
            self._page = None
            self.scroll_to(y=0, animate=False)
        self._row, self._index, self._work = row, index, work
        self.judge(now)

    def judge(self, now: Session) -> None:
        """Judge the run by other thresholds."""
        self._now = now
        self.repaint()

    def draw(self, width: int) -> Sequence[Row]:
        now, index = self._now, self._index
        if self._row is None or index is None:
            return [[("no run selected", "dim")]]
        if self._page is None or self._page_width != width:
            self._page = RunPage(self._row, width, self._glyphs)
            self._page_width = width
        judged = now.masks(index)
        so_far = cell_so_far(now, index) if now.is_begun(index) else ""
        gone, work = index in now.gone, self._work
        lines = self._page.lines(now.thresholds, judged, gone=gone, work=work, so_far=so_far)
        if self._row.report.coverage and self.size.height < _ALL_FOUR:
            # without the headings all four diagnostics are seen
            del lines[1:2]
        return lines
