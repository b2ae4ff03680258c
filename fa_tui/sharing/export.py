"""Exports of the explorer; no file is ever overwritten."""

from __future__ import annotations

import glob
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fa_core.errors import UsageError
from fa_core.files.atomic import write_bytes
from fa_core.files.opening import typed_path
from fa_core.report.numbers import power_of_ten
from fa_tui.sharing.pieces import Shared, table_csv, table_json

if TYPE_CHECKING:
    from fa_core.reporting.blocks import Block
    from fa_tui.widgets.chart import Chart


class Kind(NamedTuple):
    """A kind of file: key, suffix, description, default name, and other suffixes."""

    key: str
    ending: str
    what: str
    name: str
    others: tuple[str, ...] = ()

    @property
    def endings(self) -> str:
        """All accepted suffixes."""
        return " or ".join((self.ending, *self.others))


SCREEN = Kind("s", ".svg", "this screen as a picture", "fa-tui-screen")
FIGURE = Kind("f", ".svg", "figure of growth and gradient norms", "fa-tui-figure", (".pdf", ".png"))
CHARTS = Kind("g", ".svg", "the charts on this screen", "fa-tui-charts", FIGURE.others)
KINDS = (
    SCREEN,
    Kind("m", ".md", "report in Markdown, figures beside it", "fa-tui-report"),
    Kind("h", ".html", "report as one web page", "fa-tui-report"),
    FIGURE,
    Kind("c", ".csv", "all numbers, for a spreadsheet", "fa-tui-runs"),
    Kind("j", ".json", "audit table, to be opened again", "fa-tui-audit-table"),
)
"""Kinds of files of runs, in order."""

OF_RUNS = KINDS[1:]


def is_slow(kind: Kind) -> bool:
    """Whether a file of this kind may take longer than a moment."""
    return kind in OF_RUNS or kind == CHARTS


def kinds_of(shared: Shared) -> list[Kind]:
    """Kinds of files of a screen: picture, table, runs."""
    kinds = [SCREEN, *([CHARTS] if shared.charts else [])]
    if shared.table is not None:
        name = f"fa-tui-{shared.table.name}"
        kinds.append(Kind("t", ".csv", f"table of {shared.table.name}, for a spreadsheet", name))
        if shared.table.record is not None:
            kinds.append(Kind("d", ".json", f"{shared.table.name} with every digit", name))
    if shared.rows is None:
        return kinds
    return [*kinds, *OF_RUNS]


def name_problem(kind: Kind, text: str) -> str:
    """Why a name is invalid for a kind of file, or ``""``."""
    path = target(kind, text)
    if path.name in ("", ".", ".."):
        return "a file needs a name"
    if path.suffix.lower() not in (kind.ending, *kind.others):
        return f"the name must end in {kind.endings}, or in nothing"
    try:
        if not path.parent.is_dir():
            return f"no folder {path.parent}"
        taken = in_the_way(kind, path)
    except OSError as error:
        return f"{path} cannot be: {error.strerror}"
    if taken:
        return f"{taken} is there already: choose another name"
    return ""


def target(kind: Kind, text: str) -> Path:
    """The path of a typed name; the suffix is optional."""
    path = typed_path(text.strip())
    if path.suffix or path.name in ("", ".."):
        return path
    return path.with_name(path.name + kind.ending)


def in_the_way(kind: Kind, path: Path) -> Path | None:
    """An existing file that an export would overwrite; a Markdown report has figures ``NAME-*.svg``
    next to it."""
    if path.exists():
        return path
    figures = path.parent.glob(f"{glob.escape(path.stem)}-*.svg") if kind.ending == ".md" else ()
    return next(iter(sorted(figures)), None)


def free_name(path: Path, taken: Callable[[Path], object] = Path.exists) -> Path:
    """The path, numbered if it exists: ``fa-tui-report.md``, ``fa-tui-report-2.md``, ..."""
    number, free = 1, path
    while taken(free):
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def export(
    kind: Kind,
    text: str,
    shared: Shared,
    adapted: Callable[[list[Block]], list[Block]] = list,
) -> list[Path]:
    """Write a report, a table or a figure.

    Args:
        kind: one of `kinds_of`, but `SCREEN`.
        text: the typed name.
        shared: the content.
        adapted: changes a report's blocks before they are written.

    Returns:
        The files written.

    Raises:
        UsageError: an invalid or existing name, or no runs.
        FaError: the file cannot be written.
    """
    if not is_slow(kind):
        assert shared.table is not None
        write = table_csv if kind.ending == ".csv" else table_json
        return export_text(kind, text, write(shared.table))
    path = _free(kind, text)
    if kind == CHARTS:
        write_bytes(path, charts_picture(shared.charts, path.suffix.lower()))
        return [path]
    if not shared.rows:
        raise UsageError("no runs to export: the filter leaves none")
    if kind.ending == ".json":
        from msgspec.structs import replace

        from fa_core.formats.audit_table_writer import write_audit_table

        judged = []
        for row in shared.rows:
            judged.append(replace(row, report=row.report.with_thresholds(shared.thresholds)))
        write_audit_table(path, judged)
        return [path]
    from fa_core.formats.table import AuditTable
    from fa_core.reporting.form import write_report

    traces = shared.traces() if kind.ending in (".md", ".html") else ()
    table = AuditTable.from_rows(shared.rows)
    return write_report(path, table, shared.thresholds, traces, adapted=adapted)


def charts_picture(charts: Sequence[tuple[str, Chart]], kind: str) -> bytes:
    """Charts of a screen as a figure, two in a row, with their axes, curves and thresholds.

    Curves of methods have their colours; others use Matplotlib's.
    """
    from fa_core.reporting.panels import fixed_style, laid_out, page, rendered
    from fa_core.reporting.plotting import NullFormatter

    with fixed_style():
        columns = min(2, len(charts))
        figure, panels = page("Charts", {}, -(-len(charts) // columns), columns, {}, height=2.6)
        for panel in panels[len(charts) :]:
            panel.set_visible(False)
        for panel, (title, chart) in zip(panels, charts, strict=False):
            for curve in chart.curves:
                _, of_method, colour = curve.style.rpartition("method-")
                alone = len(curve.points) == 1
                drawn = f"#{colour}" if of_method else _COLOURS.get(curve.style)
                marker, label = ("x", "") if alone else ("", curve.name or curve.mark)
                panel.plot(
                    *zip(*curve.points, strict=True), color=drawn, marker=marker, label=label
                )
            for limit, _ in chart.limits:
                panel.axhline(limit, linestyle="--", color="grey")
            panel.set(
                title=title,
                xlabel=chart.x_label,
                xlim=(chart.x.lo, chart.x.hi),
                ylim=(chart.y.lo, chart.y.hi),
            )
            panel.set(
                xscale="log" if chart.x.log else "linear", yscale="log" if chart.y.log else "linear"
            )
            for scale, axis in ((chart.x, panel.xaxis), (chart.y, panel.yaxis)):
                if scale.log:
                    axis.set_major_formatter(_decade)
                    axis.set_minor_formatter(NullFormatter())
            if 0 < sum(bool(curve.name or curve.mark) for curve in chart.curves) <= _NAMED:
                panel.legend(fontsize="x-small")
        laid_out(figure)
    return rendered(figure, kind)


def _decade(value: float, position: object) -> str:
    """Label of a tick on a logarithmic axis."""
    return power_of_ten(round(math.log10(value)))


_COLOURS = {"strong": "black", "bad": "red", "faint": "lightgrey"}

_NAMED = 12
"""Maximum of curves with a legend, which would hide the chart."""


def left_out_words(kind: Kind, shared: Shared) -> str:
    """A note on parts of the screen that a file of these runs lacks, or ``""``.

    An audit table holds recorded numbers only: an assumed baseline would count as recorded.
    """
    if kind.ending != ".json" or kind not in OF_RUNS:
        return ""
    if not any(row.report.assumed_baseline_acc is not None for row in shared.rows or ()):
        return ""
    return "without the assumed frozen baseline, as recorded"


def export_text(kind: Kind, text: str, content: str) -> list[Path]:
    """Write a file of text, such as a picture of the screen.

    Args:
        kind: of the file.
        text: the name that was typed.
        content: its text.

    Raises:
        UsageError: an invalid or existing name.
        FaError: the file cannot be written.
    """
    path = _free(kind, text)
    write_bytes(path, content.encode())
    return [path]


def _free(kind: Kind, text: str) -> Path:
    problem = name_problem(kind, text)
    if problem:
        raise UsageError(problem)
    return target(kind, text)
