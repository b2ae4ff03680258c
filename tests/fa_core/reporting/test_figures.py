"""Figures tell the truth: like is compared with like, a method looks the same everywhere, labels are apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fa_core.errors import UsageError
from fa_core.formats import Trace, TraceEpoch
from fa_core.reporting import audit_figure, axis_figure, reporting_form, write_report
from fa_core.reporting.blocks import Figure
from fa_core.reporting.figures import styles
from tests.fa_core.analysis.runs import row, table

LEGEND = re.compile(
    r"<line [^>]*stroke='(#\w+)' stroke-width='1.5'/>\n<\w+ [^>]*/>\n<text [^>]*font-size='11' [^>]*>([^<]+)</text>"
)


def colours(svg: str) -> dict[str, str]:
    return {name: colour for colour, name in LEGEND.findall(svg)}


def heights(svg: str, colour: str) -> list[float]:
    """The line's ends in each panel, top of the page 0."""
    lines = re.findall(rf"<polyline points='([^']*)' fill='none' stroke='{colour}'", svg)
    return [float(point.split(",")[1]) for line in lines[:1] for point in line.split()]


def test_the_penalty_line_starts_at_the_same_network_without_it() -> None:
    runs = table(
        row(acc=0.55),
        row(acc=0.30, axes={"arch": "studentnet"}),
        row(acc=0.20, axes={"ln": "none"}),
        row(acc=0.50, axes={"lam": 0.01}),
    )
    svg = axis_figure(runs, "lam")
    without, penalised = heights(svg, styles(["dfa"])["dfa"][0])
    assert without < penalised, "the penalty lowers accuracy here; a pooled mean of 0.35 would say it raises it"


def test_families_of_one_method_are_named_by_what_differs() -> None:
    runs = table(*(row(acc=0.5, axes={"d": d, "input": 128, **lam}) for d in (128, 256) for lam in ({}, {"lam": 0.1})))
    assert list(colours(axis_figure(runs, "lam"))) == ["dfa (d 128)", "dfa (d 256)"]


def test_an_axis_without_two_comparable_runs_has_no_figure(tmp_path: Path) -> None:
    runs = table(row(acc=0.5, axes={"d": 1}), row(acc=0.4, axes={"lam": 0.1}))
    assert not [one for one in reporting_form(runs) if isinstance(one, Figure) and one.name.startswith("axis")]
    with pytest.raises(UsageError, match="no two runs differ in lam alone"):
        write_report(tmp_path / "x.svg", runs, figure="lam")


def test_a_run_without_normalisation_is_not_mixed_up_with_one_that_does_not_say() -> None:
    svg = axis_figure(table(row(acc=0.5), row(acc=0.4, axes={"ln": "none"})), "ln")
    assert svg.count(">unset<") == svg.count(">none<") == 3


def test_a_method_has_one_colour_in_every_figure_of_a_report() -> None:
    runs = table(
        row("bp", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.5, growth=2.0, source="one.json"),
        row("dfa", acc=0.4, growth=3.0, source="two.json"),
        row("dfa", 43, acc=0.4, growth=3.0, source="two.json", axes={"lam": 0.1}),
    )
    epochs = [TraceEpoch(epoch=e, test_acc=0.3) for e in (1, 2)]
    traces = [Trace(source="t", key=f"{m}_s1", method=m, seed=1, epochs=epochs) for m in ("ep", "dfa")]
    figures = [one for one in reporting_form(runs, traces=traces) if isinstance(one, Figure)]
    assert [one.name for one in figures] == ["audit-1", "audit-2", "axis-2-lam", "timeline"]
    assert len({colours(one.svg)["dfa"] for one in figures}) == 1
    assert len({colour for one in figures for colour in colours(one.svg).values()}) == 3


def test_methods_beyond_the_colours_differ_by_marker() -> None:
    looks = styles([f"m{i}" for i in range(20)])
    assert len(set(looks.values())) == 20


def test_labels_of_neighbours_without_a_value_do_not_overlap() -> None:
    missing = [row(f"method{i}", 1, cosine=0.1, growth=2.0) for i in range(9)]
    svg = audit_figure(table(row("bp", acc=0.5, baseline=0.4), *missing, row("nan", acc=float("nan"), baseline=0.3)))
    labels = [
        (float(x), float(y), len(words) * 8.5 * 0.6)
        for x, y, words in re.findall(r"<text x='([\d.]+)' y='([\d.]+)' font-size='8.5'[^>]*>([^<]+)<", svg)
    ]
    assert len(labels) >= 10
    for i, (x, y, width) in enumerate(labels):
        for other_x, other_y, other_width in labels[:i]:
            assert abs(y - other_y) >= 8.5 or abs(x - other_x) >= (width + other_width) / 2
