"""Figures tell the truth: like is compared with like, a method looks the same everywhere, labels are apart."""

import hashlib
import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from msgspec.structs import replace

from fa_core.formats import load_audits
from fa_core.report.method_style import METHOD_STYLES
from fa_core.reporting.blocks import Figure
from fa_core.reporting.figures import gamma_figure, methods_figure, rescue_figure
from fa_core.reporting.form import reporting_form
from fa_core.reporting.panels import FIGURE_KINDS, UNMEASURED, rendered
from tests.fa_core.analysis.runs import row, seeds_of, table, timeline, trace

SIGNS = [
    "hollow: passes",
    "filled: fires",
    "grey: not measured",
    "star: undecided",
    "frozen baseline",
    "with the margin of (d)",
    "mean over seeds",
    "first fires",
    "line: mean over seeds",
]


@pytest.fixture(scope="module")
def published_figure(published_table):
    """The published table's figure, drawn once; tests only look at it or render it."""
    return methods_figure(load_audits([published_table]))


def colours(figure):
    """Name → colour, as the legend says of methods."""
    found = {line.get_label(): line.get_color() for line in handles(figure)}
    return {name: colour for name, colour in found.items() if name not in SIGNS}


def handles(figure):
    (legend,) = figure.legends
    return list(legend.legend_handles)


def shown(figure):
    return {one.get_title(loc="left"): one for one in figure.axes if one.get_visible()}


def heights(panel, style="-", marker=None):
    """The y values of the lines of a style and a marker, one list a line."""
    lines = [line for line in panel.lines if line.get_linestyle() == style]
    lines = [line for line in lines if marker in (None, line.get_marker())]
    if style == "-":
        lines = [line for line in lines if line.get_transform() == panel.transData]
    return [list(line.get_ydata()) for line in lines if len(line.get_ydata())]


def texts(figure):
    from matplotlib.text import Text

    return [found.get_text() for found in figure.findobj(Text)]


def points(panel, kind):
    """Heights of the markers without a line that are filled, hollow or grey."""
    found = {"filled": [], "hollow": [], "grey": []}
    for line in panel.lines:
        if line.get_linestyle() == "None" and line.get_marker() != "_":
            face = {UNMEASURED: "grey", "white": "hollow"}.get(line.get_markerfacecolor(), "filled")
            found[face] += map(float, line.get_ydata())
    return found[kind]


def test_an_accuracy_without_a_baseline_neither_fires_nor_passes():
    plain, judged = row("bp", acc=0.6, growth=2.0), row("dfa", acc=0.3, baseline=0.35, growth=2.0)
    penalised = [
        row("dfa", acc=0.4, baseline=0.35, axes={"lam": 0.1}),
        row("bp", acc=0.5, axes={"lam": 0.1}),
    ]
    drawn = rescue_figure(table(plain, judged, *penalised))
    panel = drawn.axes[0]
    assert sorted(points(panel, "grey")) == [0.5, 0.6]
    assert (points(panel, "filled"), points(panel, "hollow")) == ([0.3], [0.4])


def test_a_long_name_is_cut_in_its_middle_and_shorter_where_there_are_many():
    ends = ["a" * 300 + "1", "b" * 300 + "2"]
    labels = [text for text in texts(methods_figure(table(*map(row, ends)))) if "…" in text]
    assert {(len(label), label[0], label[-1]) for label in labels} == {
        (61, "a", "1"),
        (61, "b", "2"),
    }
    many = methods_figure(table(*(row("a" * 300 + str(number)) for number in range(200))))
    assert max(map(len, texts(many))) < 61


def test_a_bound_that_does_not_fire_and_a_proxy_are_named():
    inexact = {"growth_bound": 8.0, "g_L": 1e-3, "evidence": {"a": "bound", "b": "proxy"}}
    drawn = methods_figure(table(row("dfa", acc=0.4, **inexact), row("dfa", 2, growth=2.0)))
    assert "star: undecided" in texts(drawn)
    assert any("or its proxy" in text for text in texts(drawn))


def test_seeds_of_two_networks_have_a_place_and_a_mean_each():
    nets = {"mlp": (2.0, 8.0), "cnn": (100.0, 400.0)}
    runs = [seeds_of("dfa", *pair, provenance={"arch": net}) for net, pair in nets.items()]
    drawn = methods_figure(table(*runs[0], *runs[1]))
    means = [ys[0] for ys in heights(drawn.axes[0]) if ys[0] == ys[-1]]
    assert means == pytest.approx([4.0, 200.0])
    assert [label.get_text() for label in drawn.axes[0].get_xticklabels()] == [
        "DFA arch=mlp",
        "DFA arch=cnn",
    ]


def test_the_penalty_line_starts_at_the_same_network_without_it():
    others = row(acc=0.30, axes={"arch": "studentnet"}), row(acc=0.20, axes={"ln": "none"})
    runs = table(row(acc=0.55), *others, row(acc=0.50, axes={"lam": 0.01}))
    # a pooled mean of 0.35 would say that the penalty raises accuracy
    assert heights(rescue_figure(runs).axes[0]) == [[0.55, 0.50]]


def test_families_of_one_method_are_named_by_what_differs():
    axes = [{"d": d, "input": 128, **lam} for d in (128, 256) for lam in ({}, {"lam": 0.1})]
    figure = rescue_figure(table(*(row(acc=0.5, axes=one) for one in axes)))
    assert list(colours(figure)) == ["dfa d=128", "dfa d=256"]
    first, second = handles(figure)[:2]
    assert first.get_color() == second.get_color() and first.get_marker() != second.get_marker()


def test_a_method_has_one_colour_in_every_figure_of_a_report():
    runs = table(
        row("bp", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.4, growth=3.0, source="two.json"),
        row("dfa", 43, acc=0.4, growth=3.0, source="two.json", axes={"lam": 0.1}),
    )
    traces = [trace(method, 1, test_acc=[0.3, 0.3]) for method in ("ep", "dfa")]
    figures = [one for one in reporting_form(runs, traces=traces) if isinstance(one, Figure)]
    names = ["methods-1", "methods-2", "rescue-2", "timeline"]
    assert [one.name for one in figures] == names
    drawn = [colours(one.draw()) for one in figures]
    every = {pair for one in drawn for pair in one.items()}
    assert {name for name, _ in every} == {"dfa", "ep"}
    assert all(colour == METHOD_STYLES[name.split(" ")[0]].colour for name, colour in every)


def test_names_below_a_panel_are_a_line_apart_and_the_legend_lies_below():
    plain = [row(f"method_number_{i}", 1, cosine=0.1, growth=2.0) for i in range(60)]
    figure = methods_figure(table(*plain, row("nan", acc=math.nan, baseline=0.3)))
    for panel in figure.axes:
        ends = [panel.transData.transform((place, 0))[0] for place in panel.get_xticks()]
        heights = {label.get_fontsize() * figure.dpi / 72 for label in panel.get_xticklabels()}
        # turned by 45°, lines are √2 closer than their ends
        assert min(np.diff(ends)) / math.sqrt(2) >= max(heights)
    (legend,) = figure.legends
    frame = legend.get_window_extent()
    assert frame.x0 >= 0 and frame.x1 <= figure.bbox.x1 and frame.y0 >= 0
    assert not any(frame.overlaps(one.get_tightbbox()) for one in figure.axes if one.get_visible())


def test_the_rescue_has_marks_at_the_baseline_and_the_margin():
    runs = []
    for lam in ({}, {"lam": 1e-3}, {"lam": 1e-2}):
        runs += seeds_of("dfa", 2.0, 2.0, acc=0.3, baseline=0.349, axes=lam)
    accuracy = rescue_figure(table(*runs)).axes[0]
    marks = [{round(float(y), 6) for y in line} for line in heights(accuracy, "None", "_")]
    assert marks == [{0.349}, {0.369}]
    assert [text.get_text() for text in accuracy.get_xticklabels()] == ["none", "0.001", "0.01"]


def test_thresholds_are_dashed_lines_with_their_names(published_figure):
    assert "10⁻⁸" in [label.get_text() for label in published_figure.axes[1].get_yticklabels()]
    assert {"limit\n50", "floor\n1e-7", "ceiling\n0.3"} <= set(texts(published_figure))
    dashed = [[line[0] for line in heights(panel, "--")] for panel in published_figure.axes]
    assert dashed == [[50.0], [1e-7], [0.3], [2.0]]


def test_a_name_with_dollars_is_no_formula():
    figure = methods_figure(table(row("$\\frac$ $x_1$", growth=2.0)))
    assert b"not an" not in rendered(figure) and "$\\frac$ $x_1$" in texts(figure)


def test_two_processes_with_other_settings_write_the_same_bytes_and_one_without_figures_no_matplotlib(
    tmp_path, published_table, published_figure
):
    program = (
        "import sys, json, hashlib, fa_core.report.numbers; assert 'numpy' not in sys.modules\n"
        "from fa_core import load_audits; from fa_core.reporting.form import *\n"
        "runs = load_audits([sys.argv[1]]); to_markdown(reporting_form(runs))\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from fa_core.reporting.figures import *; from fa_core.reporting.panels import rendered\n"
        "figure, kinds = methods_figure(runs), ('.svg', '.pdf', '.png')\n"
        "print(json.dumps([hashlib.sha256(rendered(figure, kind)).hexdigest() for kind in kinds]))\n"
    )
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.grid: True\nsvg.fonttype: none\n")
    environment = {**os.environ, "MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", program, str(published_table)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    hashes = [hashlib.sha256(rendered(published_figure, kind)).hexdigest() for kind in FIGURE_KINDS]
    assert json.loads(found.stdout) == hashes
    assert found.stderr == ""


def aligned(method, gammas, null=None):
    """A replayed run with Γ_l per epoch."""
    return replace(timeline(trace(method, gamma=gammas)), null=null)


def test_gamma_over_epochs_has_a_panel_per_layer_and_each_runs_own_null():
    dfa = aligned("dfa", [[0.9, 0.1, 0.3], [0.8, 0.2, None]], null=(0.01, 0.02))
    dfa, other = (replace(dfa, null_gamma=layers) for layers in ((0.7, 0.0, None), (0.6,)))
    logged = aligned("fa", [[0.5], [0.6]], null=(0.5, 0.5))
    dfa, other = replace(dfa, collection="main"), replace(other, collection="wide")
    drawn = gamma_figure([dfa, logged, other])
    assert {"dfa from=main", "dfa from=wide"} <= set(texts(drawn))
    panels = shown(drawn)
    assert list(panels) == ["deep Γ", "Γ at l = 0", "Γ at l = 1", "Γ at l = 2"]
    drawn = [heights(panel) for panel in panels.values()]
    # a single logged Γ is of no layer
    assert [len(lines) for lines in drawn] == [2] * 4
    expected = [
        pytest.approx([0.2, math.nan], nan_ok=True),
        [0.9, 0.8],
        [0.1, 0.2],
        pytest.approx([0.3, math.nan], nan_ok=True),
    ]
    assert [lines[0] for lines in drawn] == expected
    assert [[line[0] for line in heights(one, ":")] for one in panels.values()] == [
        [0.01, 0.01],
        [0.7, 0.6],
        [0.0],
        [],
    ]


def test_methods_stand_on_x_with_a_marker_per_seed_and_a_line_at_the_mean():
    runs = table(*seeds_of("state_bridge", 10.0, 100.0, 1000.0), *seeds_of("bp", 1.0, 1.0))
    drawn = methods_figure(runs)
    (panel,) = shown(drawn).values()
    assert [label.get_text() for label in panel.get_xticklabels()] == ["State Bridge", "BP"]
    assert points(panel, "filled") == [100.0, 1000.0]
    assert points(panel, "hollow") == [10.0, 1.0, 1.0]
    assert heights(panel) == [pytest.approx([100.0, 100.0]), [1.0, 1.0]], (
        "of growth the geometric one"
    )
    assert "limit\n50" in texts(drawn)


def test_what_was_not_measured_and_controls_are_absent():
    runs = table(*seeds_of("dfa", 2.0, 3.0), *seeds_of("frozen", 2.0, 2.0), row("bp", g_L=1e-3))
    drawn = methods_figure(runs)
    assert [*shown(drawn)] == ["(a) growth per block", "(b) deepest ‖g_L‖"]
    assert not {"N/A", "frozen", "grey: not measured"} & set(texts(drawn))
    assert texts(drawn).count("n.m.") == 3


def test_a_number_that_an_axis_cannot_show_is_noted_and_has_no_mean():
    drawn = methods_figure(table(*seeds_of("dfa", 2.0, 3.0, math.nan), row("bp", g_L=0.0)))
    assert {"NaN/inf", "0"} <= set(texts(drawn)) and "not measured" not in texts(drawn)
    assert all(math.isnan(y) for line in heights(drawn.axes[0]) for y in line)
