"""Figures tell the truth: like is compared with like, a method looks the same everywhere, labels are apart."""

import hashlib
import json
import math
import os
import subprocess
import sys

from xml.etree import ElementTree

import numpy as np
import pytest
from msgspec.structs import replace

from fa_core.analysis.timeline import timeline
from fa_core.errors import UsageError
from fa_core.facts.method_style import METHOD_STYLES, method_style, method_styles
from fa_core.formats import Trace, TraceEpoch, load_audits, scan
from fa_core.reporting import panels
from fa_core.reporting.blocks import Figure
from fa_core.reporting.epoch_figures import gamma_figure, timeline_figure
from fa_core.reporting.figures import methods_figure, penalty_figure, rescue_figure
from fa_core.reporting.form import reporting_form, write_report
from fa_core.reporting.panels import FIGURE_KINDS, UNMEASURED, rendered
from fa_core.table import AuditTable
from tests.fa_core.analysis.runs import row, table


SIGNS = {
    "hollow: passes",
    "filled: fires",
    "grey: not measured",
    "half: undecided",
    "frozen baseline",
    "with the margin of (d)",
    "mean over seeds",
} | {*("first fires", "line: mean over seeds")}
BEGINS = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}


@pytest.fixture
def published(published_table):
    return load_audits([published_table])


@pytest.fixture(scope="module")
def published_figure(published_table):
    """The published table's figure, drawn once; tests only look at it or render it."""
    return methods_figure(load_audits([published_table]))


def colours(figure):
    """Name → colour, as the legend says of methods."""
    return {
        line.get_label(): line.get_color()
        for line in handles(figure)
        if line.get_label() not in SIGNS
    }


def handles(figure):
    (legend,) = figure.legends
    return list(legend.legend_handles)


def curves(panel):
    """The connected lines of a panel in data coordinates."""
    return [
        line
        for line in panel.lines
        if line.get_linestyle() == "-"
        and line.get_transform() == panel.transData
        and len(line.get_xdata()) > 0
    ]


def texts(figure):
    from matplotlib.text import Text

    return [found.get_text() for found in figure.findobj(Text)]


def points(panel, filled):
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


def unmeasured(panel):
    """Heights of the grey markers."""
    grey = [line for line in panel.lines if line.get_markerfacecolor() == UNMEASURED]
    return [float(y) for line in grey for y in line.get_ydata()]


def test_an_accuracy_without_a_baseline_neither_fires_nor_passes():
    plain, judged = row("bp", acc=0.6, growth=2.0), row("dfa", acc=0.3, baseline=0.35, growth=2.0)
    penalised = [
        row("dfa", acc=0.4, baseline=0.35, axes={"lam": 0.1}),
        row("bp", acc=0.5, axes={"lam": 0.1}),
    ]
    drawn = rescue_figure(table(plain, judged, *penalised))
    panel = drawn.axes[0]
    assert sorted(unmeasured(panel)) == [0.5, 0.6]
    assert (points(panel, filled=True), points(panel, filled=False)) == ([0.3], [0.4])
    assert "grey: not measured" in texts(drawn)
    assert "grey: not measured" not in texts(rescue_figure(table(judged, penalised[0])))


def test_a_bound_that_does_not_fire_is_drawn_as_undecided_and_a_proxy_is_named():
    inexact = {"growth_bound": 8.0, "g_L": 1e-3, "evidence": {"a": "bound", "b": "proxy"}}
    drawn = methods_figure(table(row("dfa", acc=0.4, **inexact), row("dfa", 2, growth=2.0)))
    half = [line for panel in drawn.axes for line in panel.lines if line.get_fillstyle() == "left"]
    assert 8.0 in [float(y) for line in half for y in line.get_ydata()]
    assert "half: undecided" in texts(drawn)
    assert any("or its proxy" in text for text in texts(drawn))


def test_the_penalty_line_starts_at_the_same_network_without_it():
    runs = table(
        row(acc=0.55),
        row(acc=0.30, axes={"arch": "studentnet"}),
        row(acc=0.20, axes={"ln": "none"}),
        row(acc=0.50, axes={"lam": 0.01}),
    )
    (curve,) = curves(penalty_figure(runs).axes[0])
    assert list(curve.get_ydata()) == [0.55, 0.50], (
        "a pooled mean of 0.35 would say that the penalty raises accuracy"
    )


def test_families_of_one_method_are_named_by_what_differs():
    runs = table(
        *(
            row(acc=0.5, axes={"d": d, "input": 128, **lam})
            for d in (128, 256)
            for lam in ({}, {"lam": 0.1})
        )
    )
    figure = penalty_figure(runs)
    assert list(colours(figure)) == ["dfa (d 128)", "dfa (d 256)"]
    first, second = handles(figure)[:2]
    assert first.get_color() == second.get_color() and first.get_marker() != second.get_marker()


def test_without_two_runs_that_differ_in_the_penalty_alone_there_is_no_figure_of_it(
    tmp_path,
):
    runs = table(row(growth=2.0, axes={"d": 1}), row(growth=3.0, axes={"lam": 0.1}))
    drawn = [one.name for one in reporting_form(runs) if isinstance(one, Figure)]
    assert drawn == ["methods-1"]
    for name in ("lam", "rescue"):
        with pytest.raises(UsageError, match="no two runs differ in the penalty"):
            write_report(tmp_path / "x.svg", runs, figure=name)


def test_a_method_has_one_colour_in_every_figure_of_a_report():
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
    names = ["methods-1", "methods-2", "rescue-2", "lam-2", "timeline"]
    assert [one.name for one in figures] == names
    drawn = [colours(one.draw()) for one in figures]
    assert all(
        colour == METHOD_STYLES[name.split(" ")[0]].colour
        for one in drawn
        for name, colour in one.items()
    )
    assert {"dfa", "dfa (lam 0.1)", "ep"} == {name for one in drawn for name in one}


def test_methods_beyond_the_table_differ_by_marker_and_keep_their_colour():
    names = [f"m{i}" for i in range(20)]
    together = method_styles(names)
    assert list(together) == names and len(set(together.values())) == 20
    assert all(together[name].colour == method_style(name).colour for name in names)
    assert len(set(METHOD_STYLES.values())) == len(
        {style.colour for style in METHOD_STYLES.values()}
    )


def test_labels_of_neighbours_do_not_overlap():
    plain = [row(f"method_number_{i}", 1, cosine=0.1, growth=2.0) for i in range(24)]
    figure = methods_figure(table(*plain, row("nan", acc=math.nan, baseline=0.3)))
    for panel in figure.axes:
        for labels in ([*panel.get_xticklabels()], [*panel.get_yticklabels()], panel.texts):
            boxes = [label.get_window_extent() for label in labels if label.get_text()]
            assert not any(
                one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i]
            )
    (legend,) = figure.legends
    frame = legend.get_window_extent()
    assert frame.x0 >= 0 and frame.x1 <= figure.bbox.x1 and frame.y0 >= 0
    assert not any(frame.overlaps(one.get_tightbbox()) for one in figure.axes if one.get_visible())


def test_a_marker_per_run_is_filled_where_its_diagnostic_fires(published, published_figure):
    growth, gradient, drift, margin = published_figure.axes
    healthy = [m in ("bp", "ep") for m in published.method]
    for panel, column in ((growth, published.growth), (gradient, published.g_L)):
        assert sorted(points(panel, filled=False)) == sorted(np.asarray(column)[healthy])
        assert len(points(panel, filled=True)) == 9
    stability = np.asarray(published.stability)
    assert sorted(points(drift, filled=True)) == sorted(stability[stability > 0.3])
    measured = published.margin_pp[np.isfinite(published.margin_pp)]
    assert sorted(points(margin, filled=True)) == sorted(measured)


def test_the_rescue_has_marks_at_the_baseline_and_the_margin_and_a_line_at_bp():
    lams = [{}, {"lam": 1e-3}, {"lam": 1e-2}]
    runs = table(
        *(
            row("dfa", seed, acc=0.3, growth=2.0, baseline=0.349, axes=lam)
            for lam in lams
            for seed in (1, 2)
        ),
        row("bp", 1, acc=0.58, growth=2.0, baseline=0.349),
    )
    accuracy = rescue_figure(runs).axes[0]
    dashed = [line.get_ydata()[0] for line in accuracy.lines if line.get_linestyle() == "--"]
    assert dashed == [0.58] and "BP 0.58" in [text.get_text() for text in accuracy.texts]
    marks = [line for line in accuracy.lines if line.get_marker() == "_"]
    heights = [{round(float(y), 6) for y in line.get_ydata()} for line in marks]
    assert heights == [{0.349}, {0.369}]
    assert [text.get_text().replace("\n", " ") for text in accuracy.get_xticklabels()] == [
        "dfa",
        "dfa (lam 0.001)",
        "dfa (lam 0.01)",
    ]


def test_a_sweep_is_in_the_order_of_its_values():
    runs = table(*(row(acc=0.5, axes={"lam": lam} if lam else {}) for lam in (0.1, 1e-4, 0, 1e-2)))
    labels = [label.get_text() for label in penalty_figure(runs).axes[0].get_xticklabels()]
    assert labels == ["none", "1e-4", "0.01", "0.1"]


def test_log_axes_have_powers_of_ten_and_the_thresholds_lines(published_figure):
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
    assert dashed == [[50.0], [1e-7], [0.3], [2.0]]


def test_equal_growth_still_has_two_ticks_on_its_axis():
    panel = methods_figure(table(row(growth=2.0), row(seed=2, growth=2.0))).axes[0]
    low, high = panel.get_ylim()
    assert sum(low <= tick <= high for tick in panel.get_yticks()) >= 2


def test_a_name_with_dollars_is_no_formula():
    figure = methods_figure(table(row("$\\frac$ $x_1$", growth=2.0)))
    assert b"not an" not in rendered(figure) and "$\\frac$\n$x\n1$" in texts(figure)


DRAWN = {
    "methods": methods_figure,
    "rescue": rescue_figure,
    "lam": penalty_figure,
    "timeline": lambda runs: timeline_figure([]),
    "gamma": lambda runs: gamma_figure([]),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_comes_as_svg_pdf_and_png_without_dates(name):
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
    tmp_path, published_table, published_figure
):
    program = (
        "import sys, json, hashlib; from fa_core import load_audits; from fa_core.reporting.figures import *\n"
        "from fa_core.reporting.panels import rendered\n"
        "figure = methods_figure(load_audits([sys.argv[1]]))\n"
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


def test_matplotlib_is_imported_only_where_a_figure_is_drawn(published_table):
    program = (
        "import sys; from fa_core import load_audits; from fa_core.reporting.form import *\n"
        "form = reporting_form(load_audits([sys.argv[1]])); to_markdown(form)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import fa_core.numbers\n"
    )
    subprocess.run([sys.executable, "-c", program, str(published_table)], check=True)
    program = "import sys, fa_core.numbers; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def aligned(method, gammas, null=None):
    """A replayed run with Γ_l per epoch."""
    epochs = [TraceEpoch(epoch=i, gamma=gamma) for i, gamma in enumerate(gammas, 1)]
    return replace(timeline(Trace(source="t", key=method, method=method, epochs=epochs)), null=null)


def test_gamma_over_epochs_has_a_panel_per_layer_and_each_runs_own_null():
    dfa = aligned("dfa", [[0.9, 0.1, 0.3], [0.8, 0.2, None]], null=(0.01, 0.02))
    logged = aligned("fa", [[0.5], [0.6]], null=(0.5, 0.5))
    figure = gamma_figure([dfa, logged, aligned("bp", [[1.0] * 3])])
    panels = {panel.get_title(loc="left"): panel for panel in figure.axes if panel.get_visible()}
    assert list(panels) == ["deep Γ", "Γ at l = 0", "Γ at l = 1", "Γ at l = 2"]
    drawn = {title: list(curves(panel)[0].get_ydata()) for title, panel in panels.items()}
    assert drawn["deep Γ"] == pytest.approx([0.2, 0.2])
    assert drawn["Γ at l = 1"] == [0.1, 0.2]
    assert drawn["Γ at l = 2"][0] == 0.3 and math.isnan(drawn["Γ at l = 2"][1])
    # a single logged Γ is of no layer
    assert [len(curves(panel)) for panel in panels.values()] == [2] * 4
    dotted = {
        title: [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == ":"]
        for title, panel in panels.items()
    }
    assert dotted.pop("deep Γ") == [0.01] and not any(dotted.values())


def test_gamma_is_a_figure_by_name_where_a_trace_has_it(sample_runs, tmp_path):
    found = scan([sample_runs / "main" / "dfa_s42"])
    table = AuditTable.from_rows(found.rows)
    assert write_report(tmp_path / "g.svg", table, traces=found.traces, figure="gamma") == [
        tmp_path / "g.svg"
    ]
    (names,) = [
        [b.name for b in reporting_form(table, traces=found.traces) if isinstance(b, Figure)]
    ]
    assert names == ["methods-1", "timeline", "gamma"]
    bare = [Trace(source="t", key="bp", method="bp", epochs=[TraceEpoch(epoch=1, gamma=[0.5])])]
    with pytest.raises(UsageError, match="no trace here holds Γ per layer"):
        write_report(tmp_path / "h.svg", table, traces=bare, figure="gamma")


def seeds_of(method, *growths, **fields):
    return [row(method, seed, growth=value, **fields) for seed, value in enumerate(growths)]


def test_methods_stand_on_x_with_a_marker_per_seed_and_a_line_at_the_mean():
    runs = table(*seeds_of("state_bridge", 10.0, 100.0, 1000.0), *seeds_of("bp", 1.0, 1.0))
    drawn = methods_figure(runs)
    (panel,) = (one for one in drawn.axes if one.get_visible())
    assert [label.get_text() for label in panel.get_xticklabels()] == ["State\nBridge", "BP"]
    assert points(panel, filled=True) == [100.0, 1000.0]
    assert points(panel, filled=False) == [10.0, 1.0, 1.0]
    means = [list(line.get_ydata()) for line in curves(panel)]
    assert means == [pytest.approx([100.0, 100.0]), [1.0, 1.0]], "of growth the geometric one"
    assert "limit\n50" in texts(drawn)


def test_what_was_not_measured_and_controls_are_absent():
    runs = table(*seeds_of("dfa", 2.0, 3.0), *seeds_of("frozen", 2.0, 2.0), row("bp", g_L=1e-3))
    drawn = methods_figure(runs)
    shown = [panel.get_title(loc="left") for panel in drawn.axes if panel.get_visible()]
    assert shown == ["(a) growth per block", "(b) deepest BP gradient norm"]
    assert not {"N/A", "frozen", "grey: not measured"} & set(texts(drawn))


def test_a_number_that_is_not_finite_is_noted_and_has_no_mean():
    drawn = methods_figure(table(*seeds_of("dfa", 2.0, 3.0, math.nan)))
    assert "NaN/inf" in texts(drawn)
    assert all(math.isnan(y) for line in curves(drawn.axes[0]) for y in line.get_ydata())


def test_a_figure_is_as_wide_as_a_column_or_a_page(published):
    for width, inches in panels.WIDTHS.items():
        with panels.in_width(width):
            drawn = methods_figure(published)
        assert drawn.get_size_inches()[0] == inches
        places = {panel.get_position().x0 for panel in drawn.axes}
        assert len(places) == (1 if width == "column" else 2)
        assert not drawn.axes[0].title.get_parse_math(), "names may hold dollar signs"
    assert methods_figure(published).get_size_inches()[0] == 7.2


def test_methods_that_do_not_fit_below_a_panel_are_in_the_legend():
    few = methods_figure(table(*(row(f"m{i}", growth=2.0) for i in range(20))))
    many = methods_figure(table(*(row(f"m{i}", growth=2.0) for i in range(60))))
    assert "m3" not in colours(few) and "m3" in texts(few)
    assert "m3" in colours(many) and "60 of them, in order" in texts(many)
