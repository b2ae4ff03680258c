"""Figures tell the truth: like is compared with like, a method looks the same everywhere, labels are apart."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from fa_core.analysis.timeline import Timeline, timeline
from fa_core.errors import UnreadableInput, UsageError
from fa_core.facts.method_style import METHOD_STYLES, method_style, method_styles
from fa_core.formats import Trace, TraceEpoch, load_audits, scan
from fa_core.reporting import panels
from fa_core.reporting.blocks import Figure
from fa_core.reporting.epoch_figures import gamma_figure, timeline_figure
from fa_core.reporting.figures import (
    FIGURES,
    architecture_figure,
    audit_figure,
    axis_figure,
    layers_figure,
    rescue_figure,
)
from fa_core.reporting.form import Extras, reporting_form, write_report
from fa_core.reporting.methods_figure import default_figure, methods_figure
from fa_core.reporting.panels import FIGURE_KINDS, UNMEASURED, rendered
from fa_core.table import AuditTable
from tests.fa_core.analysis.runs import row, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.lines import Line2D

SIGNS = {
    "hollow: passes",
    "filled: fires",
    "grey: not measured",
    "half: undecided",
    "frozen baseline",
    "with the margin of (d)",
    "mean over seeds",
} | {*("first fires", "healthy group", "degenerate group")}
BEGINS = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}


@pytest.fixture
def published(published_table: Path) -> AuditTable:
    return load_audits([published_table])


@pytest.fixture(scope="module")
def published_figure(published_table: Path) -> Drawing:
    """The published table's figure, drawn once; tests only look at it or render it."""
    return audit_figure(load_audits([published_table]))


def colours(figure: Drawing) -> dict[str, object]:
    """Name → colour, as the legend says of methods."""
    return {
        line.get_label(): line.get_color()
        for line in handles(figure)
        if line.get_label() not in SIGNS
    }


def handles(figure: Drawing) -> list[Any]:
    (legend,) = figure.legends
    return list(legend.legend_handles)


def curves(panel: Axes) -> list[Line2D]:
    """The connected lines of a panel in data coordinates."""
    return [
        line
        for line in panel.lines
        if line.get_linestyle() == "-"
        and line.get_transform() == panel.transData
        and len(line.get_xdata()) > 0
    ]


def texts(figure: Drawing) -> list[str]:
    from matplotlib.text import Text

    return [found.get_text() for found in figure.findobj(Text)]


def points(panel: Axes, filled: bool) -> list[float]:
    """Heights of the markers without a line that are filled, or hollow."""
    dots = [
        line for line in panel.lines if line.get_linestyle() == "None" and line.get_marker() != "_"
    ]
    shown = [line for line in dots if line.get_markerfacecolor() != UNMEASURED]
    return [
        float(y)
        for line in shown
        if (line.get_markerfacecolor() != "white") == filled
        for y in line.get_ydata()
    ]


def unmeasured(panel: Axes) -> list[float]:
    """Heights of the grey markers."""
    grey = [line for line in panel.lines if line.get_markerfacecolor() == UNMEASURED]
    return [float(y) for line in grey for y in line.get_ydata()]


@pytest.mark.parametrize("figure", [audit_figure, architecture_figure, rescue_figure])
def test_an_accuracy_without_a_baseline_neither_fires_nor_passes(figure: Any) -> None:
    plain, judged = row("bp", acc=0.6, growth=2.0), row("dfa", acc=0.3, baseline=0.35, growth=2.0)
    penalised = [
        row("dfa", acc=0.4, baseline=0.35, axes={"lam": 0.1}),
        row("bp", acc=0.5, axes={"lam": 0.1}),
    ]
    drawn = figure(table(plain, judged, *penalised))
    panel = next(one for one in drawn.axes if 0.6 in unmeasured(one))
    assert sorted(unmeasured(panel)) == [0.5, 0.6]
    assert (points(panel, filled=True), points(panel, filled=False)) == ([0.3], [0.4])
    assert "grey: not measured" in texts(drawn)
    assert "grey: not measured" not in texts(figure(table(judged, penalised[0])))


@pytest.mark.parametrize("figure", [audit_figure, architecture_figure, rescue_figure])
def test_a_bound_that_does_not_fire_is_drawn_as_undecided_and_a_proxy_is_named(figure: Any) -> None:
    inexact = {"growth_bound": 8.0, "g_L": 1e-3, "evidence": {"a": "bound", "b": "proxy"}}
    drawn = figure(
        table(row("dfa", acc=0.4, axes={"lam": 0.1}, **inexact), row("dfa", acc=0.6, growth=2.0))
    )
    half = [line for panel in drawn.axes for line in panel.lines if line.get_fillstyle() == "left"]
    heights = [float(y) for line in half for y in line.get_ydata()]
    assert "half: undecided" in texts(drawn)
    assert 8.0 in heights or figure is architecture_figure
    assert any("or its proxy" in text for text in texts(drawn))


def test_the_penalty_line_starts_at_the_same_network_without_it() -> None:
    runs = table(
        row(acc=0.55),
        row(acc=0.30, axes={"arch": "studentnet"}),
        row(acc=0.20, axes={"ln": "none"}),
        row(acc=0.50, axes={"lam": 0.01}),
    )
    (curve,) = curves(axis_figure(runs, "lam").axes[0])
    assert list(curve.get_ydata()) == [0.55, 0.50], (
        "a pooled mean of 0.35 would say that the penalty raises accuracy"
    )


def test_families_of_one_method_are_named_by_what_differs() -> None:
    runs = table(
        *(
            row(acc=0.5, axes={"d": d, "input": 128, **lam})
            for d in (128, 256)
            for lam in ({}, {"lam": 0.1})
        )
    )
    figure = axis_figure(runs, "lam")
    assert list(colours(figure)) == ["dfa (d 128)", "dfa (d 256)"]
    first, second = handles(figure)[:2]
    assert first.get_color() == second.get_color() and first.get_marker() != second.get_marker()


def test_an_axis_without_two_comparable_runs_has_no_figure(tmp_path: Path) -> None:
    runs = table(row(acc=0.5, axes={"d": 1}), row(acc=0.4, axes={"lam": 0.1}))
    assert not [
        one
        for one in reporting_form(runs)
        if isinstance(one, Figure) and one.name.startswith("axis")
    ]
    with pytest.raises(UsageError, match="no two runs differ in lam alone"):
        write_report(tmp_path / "x.svg", runs, figure="lam")


def test_a_run_without_normalisation_is_not_mixed_up_with_one_that_does_not_say() -> None:
    figure = axis_figure(table(row(acc=0.5), row(acc=0.4, axes={"ln": "none"})), "ln")
    assert [[label.get_text() for label in panel.get_xticklabels()] for panel in figure.axes] == [
        ["unset", "none"]
    ] * 3


def test_a_method_has_one_colour_in_every_figure_of_a_report() -> None:
    runs = table(
        row("bp", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.4, growth=3.0, source="two.json"),
        row("dfa", 43, acc=0.4, growth=3.0, source="two.json", axes={"lam": 0.1}),
    )
    epochs = [TraceEpoch(epoch=e, test_acc=0.3) for e in (1, 2)]
    traces = [
        Trace(source="t", key=f"{m}_s1", method=m, seed=1, epochs=epochs) for m in ("ep", "dfa")
    ]
    figures = [one for one in reporting_form(runs, traces=traces) if isinstance(one, Figure)]
    names = (
        "architectures",
        "audit-1",
        "layers-1",
        "audit-2",
        "layers-2",
        "rescue-2",
        "axis-2-lam",
        "timeline",
    )
    assert [one.name for one in figures] == [*names]
    drawn = [colours(one.draw()) for one in figures]
    assert all(
        colour == METHOD_STYLES[name.split(" ")[0]].colour
        for one in drawn
        for name, colour in one.items()
    )
    assert {name for one in drawn for name in one} == {"bp", "dfa", "dfa (lam 0.1)", "ep"}


def test_methods_beyond_the_table_differ_by_marker_and_keep_their_colour() -> None:
    names = [f"m{i}" for i in range(20)]
    together = method_styles(names)
    assert list(together) == names and len(set(together.values())) == 20
    assert all(together[name].colour == method_style(name).colour for name in names)
    assert len(set(METHOD_STYLES.values())) == len(
        {style.colour for style in METHOD_STYLES.values()}
    )


@pytest.mark.parametrize("names", [9, 24])
def test_labels_of_neighbours_do_not_overlap(names: int) -> None:
    missing = [row(f"method_number_{i}", 1, cosine=0.1, growth=2.0) for i in range(names)]
    runs = table(
        row("bp", acc=0.5, baseline=0.4), *missing, row("nan", acc=float("nan"), baseline=0.3)
    )
    figure = audit_figure(runs)
    for panel in figure.axes:
        for labels in ([*panel.get_xticklabels()], [*panel.get_yticklabels()], panel.texts):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert not any(
                one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i]
            )
    (legend,) = figure.legends
    frame = legend.get_window_extent()
    assert frame.x0 >= 0 and frame.x1 <= figure.bbox.x1 and frame.y0 >= 0
    assert not any(frame.overlaps(panel.get_tightbbox()) for panel in figure.axes)
    assert sum(label.get_text() == "N/A" for label in figure.axes[3].texts) == names
    assert sum(label.get_text() == "NaN/inf" for label in figure.axes[3].texts) == 1


def test_the_audit_has_a_marker_per_run_by_ascending_accuracy_filled_where_it_fires(
    published: AuditTable, published_figure: Drawing
) -> None:
    growth, gradient, drift, accuracy = published_figure.axes
    healthy = [m in ("bp", "ep") for m in published.method]
    shown = (
        (growth, published.growth, False),
        (gradient, published.g_L, False),
        (accuracy, published.acc, True),
    )
    for panel, column, unjudged in shown:
        hollow = unmeasured(panel) if unjudged else points(panel, filled=False)
        assert sorted(hollow) == sorted(np.asarray(column)[healthy])
        assert len(points(panel, filled=True)) == 9
    stability = np.asarray(published.stability)
    assert sorted(points(drift, filled=True)) == sorted(stability[stability > 0.3])
    dots = [line for line in accuracy.lines if line.get_marker() not in ("_", "None")]
    placed = sorted(
        (x, y) for line in dots for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    )
    assert [y for _, y in placed] == sorted(published.acc) and [x for x, _ in placed] == list(
        range(15)
    )
    named = [label.get_text() for label in accuracy.get_xticklabels()]
    assert named[0] == "state_bridge_s42" and named[-1].startswith("bp_")
    assert list(colours(published_figure)) == ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]


def test_accuracies_have_marks_at_their_frozen_baselines_and_where_the_margin_is_met(
    published_figure: Drawing,
) -> None:
    marks = [line for line in published_figure.axes[3].lines if line.get_marker() == "_"]
    heights = [
        sorted({round(float(y), 6) for y in line.get_ydata() if math.isfinite(y)}) for line in marks
    ]
    assert heights == [[0.349], [0.369]]


def test_healthy_and_degenerate_runs_have_backgrounds_of_their_own(
    published_figure: Drawing,
) -> None:
    from matplotlib.colors import to_hex

    patches = [
        patch
        for patch in published_figure.axes[0].patches
        if patch.get_width() == pytest.approx(1.0)
    ]
    shades = [to_hex(patch.get_facecolor()) for patch in patches]
    legend = {
        one.get_label(): to_hex(one.get_facecolor()) for one in handles(published_figure)[-2:]
    }
    assert {name: shades.count(shade) for name, shade in legend.items()} == {
        "healthy group": 6,
        "degenerate group": 9,
    }


def test_layers_have_a_curve_per_run(published: AuditTable) -> None:
    stream, gradient = layers_figure(published).axes
    assert len(curves(stream)) == len(curves(gradient)) == 15


def test_variants_of_a_method_are_told_apart_everywhere() -> None:
    runs = table(row(growth=2.0, acc=0.5), row(seed=2, growth=3.0, acc=0.4, axes={"ln": "none"}))
    for name, draw in FIGURES.items():
        if name not in ("rescue", "methods"):
            first, second = handles(draw(runs, None))[:2]
            assert (first.get_label(), second.get_label()) == ("dfa", "dfa (ln none)")
            assert (
                first.get_color() == second.get_color()
                and first.get_marker() != second.get_marker()
            )


def test_architectures_stand_in_columns_of_three_numbers() -> None:
    runs = table(
        *(
            row("bp", seed, growth=2.0, g_L=1e-3, acc=0.5, baseline=0.4, axes={"arch": a})
            for a in "xyz"
            for seed in (1, 2)
        )
    )
    panels = FIGURES["architectures"](runs, None).axes
    assert [panel.get_title(loc="left") for panel in panels[:3]] == ["x", "y", "z"] and len(
        panels
    ) == 9
    assert [len(points(panel, filled=False)) for panel in panels] == [2] * 9


def test_the_rescue_has_lines_at_the_baseline_the_margin_and_bp() -> None:
    lams: list[dict[str, Any]] = [{}, {"lam": 1e-3}, {"lam": 1e-2}]
    runs = table(
        *(
            row("dfa", seed, acc=0.3, growth=2.0, baseline=0.349, axes=lam)
            for lam in lams
            for seed in (1, 2)
        ),
        row("bp", 1, acc=0.58, growth=2.0, baseline=0.349),
    )
    accuracy = FIGURES["rescue"](runs, None).axes[0]
    dashed = [line.get_ydata()[0] for line in accuracy.lines if line.get_linestyle() == "--"]
    assert dashed == pytest.approx([0.349, 0.369, 0.58])
    assert {"frozen 0.349", "+2 pp", "BP 0.58"} <= {text.get_text() for text in accuracy.texts}
    assert [text.get_text().replace("\n", " ") for text in accuracy.get_xticklabels()] == [
        "dfa",
        "dfa (lam 0.001)",
        "dfa (lam 0.01)",
    ]


def test_a_rescue_of_methods_with_other_baselines_has_no_line_that_is_nobodys() -> None:
    conditions = [
        ("dfa", 0.349, {}),
        ("dfa", 0.349, {"lam": 1e-2}),
        ("bp", 0.6, {"lam": 1e-2}),
        ("bp", 0.6, {}),
    ]
    runs = table(
        *(row(method, acc=0.3, baseline=acc, axes=axes) for method, acc, axes in conditions)
    )
    accuracy = FIGURES["rescue"](runs, None).axes[0]
    assert [line.get_ydata()[0] for line in accuracy.lines if line.get_linestyle() == "--"] == [0.3]


def test_a_sweep_is_in_the_order_of_its_values() -> None:
    runs = table(*(row(acc=0.5, axes={"lam": lam} if lam else {}) for lam in (0.1, 1e-4, 0, 1e-2)))
    labels = [label.get_text() for label in axis_figure(runs, "lam").axes[0].get_xticklabels()]
    assert labels == ["none", "0.0001", "0.01", "0.1"]


def test_log_axes_have_powers_of_ten_and_the_thresholds_lines(published_figure: Drawing) -> None:
    figure = published_figure
    for panel in figure.axes[:2]:
        low, high = panel.get_ylim()
        ticks = [tick for tick in panel.get_yticks() if low <= tick <= high]
        assert len(ticks) >= 2 and all(
            math.log10(tick) == pytest.approx(round(math.log10(tick))) for tick in ticks
        )
    assert "10⁻⁷" in [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert {"limit\n50", "floor\n1e-7", "ceiling\n0.3"} <= set(texts(figure))
    dashed = [
        [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == "--"]
        for panel in figure.axes
    ]
    assert dashed == [[50.0], [1e-7], [0.3], []]


def test_equal_growth_still_has_two_ticks_on_its_axis() -> None:
    panel = audit_figure(table(row(growth=2.0), row(seed=2, growth=2.0))).axes[0]
    low, high = panel.get_ylim()
    assert sum(low <= tick <= high for tick in panel.get_yticks()) >= 2


def test_a_strip_of_many_runs_keeps_its_extremes() -> None:
    runs = table(*(row(seed=i, cosine=i / 1000) for i in range(1000)))
    drift = audit_figure(runs).axes[2]
    shown = points(drift, filled=False) + points(drift, filled=True)
    assert len(shown) == 200 and (min(shown), max(shown)) == (0.0, 0.999)


def test_of_very_many_runs_some_curves_are_drawn() -> None:
    runs = table(*(row(seed=i, growth=float(i + 2), g_L=1e-3) for i in range(210)))
    assert [len(curves(panel)) for panel in layers_figure(runs).axes] == [200, 200]


def test_the_legend_of_very_many_methods_says_how_many_more_there_are() -> None:
    figure = audit_figure(table(*(row(f"m{i}", growth=2.0) for i in range(150))))
    assert len(colours(figure)) == 121 and list(colours(figure))[-1] == "and 30 more"


def test_a_name_with_dollars_is_no_formula() -> None:
    figure = audit_figure(table(row("$\\frac$ $x_1$", growth=2.0)))
    assert b"not an" not in rendered(figure) and "$\\frac$ $x_1$" in colours(figure)


DRAWN: dict[str, Callable[[AuditTable], Drawing]] = {
    "audit": audit_figure,
    "axis": lambda runs: axis_figure(runs, "lam"),
    "timeline": lambda runs: timeline_figure([]),
    "gamma": lambda runs: gamma_figure([]),
    **{name: partial(draw, thresholds=None) for name, draw in FIGURES.items()},
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_comes_as_svg_pdf_and_png_without_dates(name: str) -> None:
    runs = table(row(growth=2.0, acc=0.4), row(growth=3.0, acc=0.5, axes={"lam": 0.1}))
    first, second = DRAWN[name](runs), DRAWN[name](runs)
    files = {kind: rendered(first, kind) for kind in FIGURE_KINDS}
    # drawn twice, and rendered in another order: the same bytes
    assert {kind: rendered(second, kind) for kind in reversed(FIGURE_KINDS)} == files
    for kind, content in files.items():
        assert content.startswith(BEGINS[kind])
        assert not any(
            word in content for word in (b"CreationDate", b"dc:date", b"Software", b"/Producer")
        )
    ElementTree.fromstring(files[".svg"])


def test_two_processes_with_other_settings_write_the_same_bytes(
    tmp_path: Path, published_table: Path, published_figure: Drawing
) -> None:
    program = (
        "import sys, json, hashlib; from fa_core import load_audits; from fa_core.reporting.figures import *\n"
        "from fa_core.reporting.panels import rendered\n"
        "figure = audit_figure(load_audits([sys.argv[1]]))\n"
        "kinds = ('.svg', '.pdf', '.png')\n"
        "print(json.dumps([hashlib.sha256(rendered(figure, kind)).hexdigest() for kind in kinds]))\n"
    )
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.grid: True\nsvg.fonttype: none\n")
    found = subprocess.run(
        [sys.executable, "-c", program, str(published_table)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7"},
    )
    hashes = [hashlib.sha256(rendered(published_figure, kind)).hexdigest() for kind in FIGURE_KINDS]
    assert json.loads(found.stdout) == hashes
    assert found.stderr == ""


def test_matplotlib_is_imported_only_where_a_figure_is_drawn(published_table: Path) -> None:
    program = (
        "import sys; from fa_core import load_audits; from fa_core.reporting.form import *\n"
        "form = reporting_form(load_audits([sys.argv[1]])); to_markdown(form)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import fa_core.numbers\n"
    )
    subprocess.run([sys.executable, "-c", program, str(published_table)], check=True)
    program = "import sys, fa_core.numbers; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def aligned(
    method: str, gammas: list[list[float | None]], null: tuple[float, float] | None = None
) -> Timeline:
    """A replayed run with Γ_l per epoch."""
    epochs = [TraceEpoch(epoch=i, gamma=gamma) for i, gamma in enumerate(gammas, 1)]
    return replace(timeline(Trace(source="t", key=method, method=method, epochs=epochs)), null=null)


def test_gamma_over_epochs_has_a_panel_per_layer_and_the_null_shaded() -> None:
    dfa = aligned("dfa", [[0.9, 0.1, 0.3], [0.8, 0.2, None]], null=(0.01, 0.02))
    logged = aligned("fa", [[0.5], [0.6]], null=(0.5, 0.5))
    figure = gamma_figure([dfa, logged, aligned("bp", [[1.0] * 3])])
    panels = {panel.get_title(loc="left"): panel for panel in figure.axes if panel.get_visible()}
    assert list(panels) == ["deep Γ", "Γ at l = 0", "Γ at l = 1", "Γ at l = 2"]
    drawn = {title: list(panel.lines[0].get_ydata()) for title, panel in panels.items()}
    assert drawn["deep Γ"] == pytest.approx([0.2, 0.2])
    assert drawn["Γ at l = 1"] == [0.1, 0.2]
    assert drawn["Γ at l = 2"][0] == 0.3 and math.isnan(drawn["Γ at l = 2"][1])
    assert all(
        len(panel.lines) == 2 for panel in panels.values()
    )  # a single logged Γ is of no layer
    bands = {
        title: panel.patches[0].get_extents().transformed(panel.transData.inverted())
        for title, panel in panels.items()
    }
    assert [bands["deep Γ"].y0, bands["deep Γ"].y1] == pytest.approx([-0.03, 0.05])
    assert bands["Γ at l = 1"].y1 == pytest.approx(0.05 * math.sqrt(2))


def test_of_very_many_layers_some_are_drawn_first_and_last_included() -> None:
    figure = gamma_figure([aligned("dfa", [[0.1] * 40])])
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert len(titles) == 12 and titles[1] == "Γ at l = 0" and titles[-1] == "Γ at l = 39"


def test_gamma_is_a_figure_by_name_where_a_trace_has_it(sample_runs: Path, tmp_path: Path) -> None:
    found = scan([sample_runs / "main" / "dfa_s42"])
    table = AuditTable.from_rows(found.rows)
    assert write_report(tmp_path / "g.svg", table, traces=found.traces, figure="gamma") == [
        tmp_path / "g.svg"
    ]
    (names,) = [
        [b.name for b in reporting_form(table, traces=found.traces) if isinstance(b, Figure)]
    ]
    assert names == ["audit-1", "layers-1", "timeline", "gamma"]
    bare = [Trace(source="t", key="bp", method="bp", epochs=[TraceEpoch(epoch=1, gamma=[0.5])])]
    with pytest.raises(UsageError, match="no trace here holds Γ per layer"):
        write_report(tmp_path / "h.svg", table, traces=bare, figure="gamma")


def seeds_of(method: str, *growths: float, **fields: Any) -> list[Any]:
    return [row(method, seed, growth=value, **fields) for seed, value in enumerate(growths)]


def test_methods_stand_on_x_with_a_marker_per_seed_and_the_interval_of_the_mean() -> None:
    runs = table(*seeds_of("state_bridge", 10.0, 100.0, 1000.0), *seeds_of("bp", 1.0, 1.0))
    drawn = methods_figure(runs)
    (panel,) = (one for one in drawn.axes if one.get_visible())
    assert [label.get_text() for label in panel.get_xticklabels()] == ["State\nBridge", "BP"]
    assert points(panel, filled=True) == [100.0, 1000.0]
    assert points(panel, filled=False) == [10.0, 1.0, 1.0]
    bar = next(line for line in curves(panel) if line.get_linewidth() == 3)
    reach = stats.t.ppf(0.975, 2) / math.sqrt(3)
    assert list(bar.get_ydata()) == pytest.approx([10 ** (2 - reach), 10 ** (2 + reach)])
    assert "limit\n50" in texts(drawn)


def test_what_was_not_measured_and_controls_are_absent() -> None:
    runs = table(*seeds_of("dfa", 2.0, 3.0), *seeds_of("frozen", 2.0, 2.0), row("bp", g_L=1e-3))
    drawn = methods_figure(runs)
    shown = [panel.get_title(loc="left") for panel in drawn.axes if panel.get_visible()]
    assert shown == ["(a) growth per block", "(b) deepest BP gradient norm"]
    assert not {"N/A", "frozen", "grey: not measured"} & set(texts(drawn))


def test_a_number_that_is_not_finite_is_noted_and_has_no_interval() -> None:
    drawn = methods_figure(table(*seeds_of("dfa", 2.0, 3.0, math.nan)))
    assert "NaN/inf" in texts(drawn)
    assert not [line for line in curves(drawn.axes[0]) if line.get_linewidth() == 3]


def test_runs_with_seeds_are_drawn_by_method_and_others_run_by_run() -> None:
    assert default_figure(table(*seeds_of("dfa", 2.0, 3.0))) == "methods"
    assert default_figure(table(row("dfa", growth=2.0), row("bp", growth=1.0))) == "audit"


def test_a_figure_is_as_wide_as_a_column_or_a_page(published_table: Path, tmp_path: Path) -> None:
    runs = load_audits([published_table])
    style = tmp_path / "mine.mplstyle"
    style.write_text("font.size: 5\naxes.edgecolor: ff0000\ntext.parse_math: True\n")
    for width, inches in panels.WIDTHS.items():
        with panels.customised(width, style):
            drawn = methods_figure(runs)
        assert drawn.get_size_inches()[0] == inches
        places = {panel.get_position().x0 for panel in drawn.axes}
        assert len(places) == (1 if width == "column" else 2)
        assert drawn.axes[0].spines["left"].get_edgecolor() == (1.0, 0.0, 0.0, 1.0)
        assert not drawn.axes[0].title.get_parse_math(), "names may hold dollar signs"
    assert methods_figure(runs).get_size_inches()[0] == 7.2


def test_a_style_file_that_is_none_is_refused(tmp_path: Path) -> None:
    style = tmp_path / "mine.mplstyle"
    style.write_text("font.size: large as life\n")
    with pytest.raises(UsageError, match="not a Matplotlib style"), panels.customised("", style):
        pass
    with pytest.raises(UnreadableInput), panels.customised("", tmp_path / "none.mplstyle"):
        pass


def test_only_some_diagnostics_are_drawn_and_tabled(published_table: Path, tmp_path: Path) -> None:
    runs = load_audits([published_table])
    drawn = methods_figure(runs, letters="ad")
    assert [panel.get_title(loc="left")[:3] for panel in drawn.axes] == ["(a)", "(d)"]
    (path,) = write_report(tmp_path / "t.tex", runs, extras=Extras(letters="ad"))
    assert "growth & pp" in path.read_text()
    with pytest.raises(UsageError, match="--only"):
        write_report(tmp_path / "t.html", runs, extras=Extras(letters="ad"))


def test_methods_that_do_not_fit_below_a_panel_are_in_the_legend() -> None:
    few = methods_figure(table(*(row(f"m{i}", growth=2.0) for i in range(20))))
    many = methods_figure(table(*(row(f"m{i}", growth=2.0) for i in range(60))))
    assert "m3" not in colours(few) and "m3" in texts(few)
    assert "m3" in colours(many) and "60 of them, in order" in texts(many)
