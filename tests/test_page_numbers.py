"""Numbers in the text of the pages are those that the program and the shipped audits give now."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from fa_core.formats.scan import scan
from fa_core.formats.table import AuditTable
from fa_core.report.beside import deepest_gain
from fa_core.report.diagnostics import BIT
from fa_core.report.gamma import deep_over_epochs, null_gamma
from fa_core.report.intervals import median_ranks, packed, paired_margin, share_interval
from fa_core.report.numbers import brief
from fa_core.report.quantities import BY_NAME
from tests.conftest import REPOSITORY

PROTOCOL = REPOSITORY / "docs" / "protocol"
SAMPLES = REPOSITORY / "sample_runs"


@pytest.fixture(scope="module")
def weighed():
    """The sample runs that have their weights."""
    found = [scan([SAMPLES / group]).rows for group in ("main", "wide", "controls", "floor")]
    rows = itertools.chain.from_iterable(found)
    return AuditTable.from_rows([row for row in rows if [*Path(row.source).glob("*.safetensors")]])


def says(page, *texts):
    """The page has these texts, wherever its lines break."""
    words = " ".join((PROTOCOL / f"{page}.md").read_text(encoding="utf-8").split())
    for text in texts:
        assert text in words, f"{page}: {text}"


def ends(values, form):
    return f"{min(values):{form}} to {max(values):{form}}".replace("-", "−")


def of(runs, column, group, *methods):
    """A number of the plain runs of some methods in one folder."""
    return [
        value
        for row, value in zip(runs.rows(), getattr(runs, column).tolist(), strict=True)
        if row.method in methods and not row.axes and Path(row.source).parent.name == group
    ]


def test_what_the_page_of_drift_counts_on_the_sample_runs(weighed):
    batches = [(row.report.n_batches or 0) >= 8 for row in weighed.rows()]
    runs = weighed.select(np.array(batches))
    above, calm = int((runs.stability > 0.3).sum()), int((runs.stability < 0.1).sum())
    undecided = int(((runs.undecided() & BIT["c"]) != 0).sum())
    numbers = {6: "six", 7: "seven"}
    says(
        "drift",
        f"({len(runs)} with weights and at least 8 eval batches, K = 10",
        f"of the {numbers[above]} with c above the ceiling",
        f"Of the {calm} with c < 0.1",
        f"On the {len(runs)} sample runs with weights, {undecided} are undecided on (c) at K = 10",
    )


def table_of(page):
    """The rows of the tables of a page or section, as cells without quotes of code."""
    for line in page.splitlines():
        if line.startswith("| "):
            yield [cell.strip("` ") for cell in line.strip("|").split("|")]


def test_the_tables_of_drift_and_of_the_reference_have_the_numbers_of_the_audits(weighed):
    reports = {"/".join(Path(row.source).parts[-2:]): row.report for row in weighed.rows()}
    page = (PROTOCOL / "additions.md").read_text(encoding="utf-8")
    found = [cells for cells in table_of(page) if cells[0] in reports]
    for name, gradient, _, _, error, scale in found:
        report = reports[name]
        gain = (deepest_gain(report) or 0) * report.residual_norms[-1]
        numbers = (report.bp_grad_norms[-1], report.error_norm, gain)
        assert [gradient, error, scale] == [brief(number, 2) for number in numbers]
    assert {name for name, *_ in found} == {
        name for name, report in reports.items() if "b" in report.flags
    }
    for name, drift, *_ in table_of((PROTOCOL / "drift.md").read_text(encoding="utf-8")):
        run, _, seeds = name.partition("`, seeds ")
        if "/" in run:
            own = [reports[f"{run}_s{seed}"] for seed in (seeds or "42").split(", ")]
            assert drift == ", ".join(f"{one.cross_batch_stability:+.3f}" for one in own)


@pytest.mark.parametrize(
    ("title", "file"),
    [
        ("The 5 × 3 audit", "audit_table_s42_s123_s456.json"),
        ("The CNN audit", "audit_cnn_3seed.json"),
    ],
)
def test_the_published_figures_are_those_of_the_published_audits(title, file):
    page = (REPOSITORY / "docs" / "cifar.md").read_text(encoding="utf-8")
    (section,) = (part for part in page.split("\n## ") if part.startswith(title))
    reports = {(row.method, row.seed): row.report for row in scan([SAMPLES / file]).rows}
    _, *found = (cells for cells in table_of(section) if len(cells) == 3)
    assert {method for method, *_ in found} == {method for method, _ in reports}
    for method, name, published in found:
        own = [reports[method, seed] for seed in (42, 123, 456)]
        if name.startswith("fires of "):
            fires = ["".join(sorted(one.flags & {*name[9:]})) or "–" for one in own]
        else:
            fires = [brief(BY_NAME[name].of(one)) for one in own]
        assert published == "/".join(fires), (method, name)


def test_what_the_pages_count_of_b_of_depth_and_of_the_stream(weighed):
    fires = int(((weighed.flags() & BIT["b"]) != 0).sum())
    frozen = int(np.isfinite(weighed.baseline).sum())
    assert fires == 6
    says("additions", "Six of those that have their weights fire (b)")
    says("additions", f"and on the {len(weighed) - fires} others", f"On the {frozen} sample runs")
    grown = []
    table = AuditTable.from_rows(scan([SAMPLES]).rows)
    for row in table.rows():
        norms = row.report.residual_norms
        if len(norms) > 1 and norms[0] > 0 and row.report.states["a"] == "passes":
            grown.append(norms[-1] / norms[0])
    over = [ratio for ratio in grown if ratio > 50]
    says(
        "additions",
        f"{len(over)} of those that pass (a) are so, from {min(over):.0f} to {max(over):.0f}",
    )
    for methods, form in (
        (("bp", "ep"), "+.1f"),
        (("dfa", "fa"), "+.1f"),
        (("credit_bridge",), "+.1f"),
    ):
        says("additions", ends(of(weighed, "margin_pp", "main", *methods), form))


def test_what_the_page_of_credit_says_of_deep_gamma_and_its_null():
    runs = AuditTable.from_rows([*scan([SAMPLES / "main"]).rows, *scan([SAMPLES / "wide"]).rows])
    nulls = []
    for group, method in itertools.product(("main", "wide"), ("fa", "dfa")):
        found = of(runs, "deep_gamma", group, method)
        nulls += of(runs, "null_gamma", group, method)
        says("credit", f"{method.upper()} {min(found):.2f}–{max(found):.2f}")
    largest = max(map(abs, nulls))
    says("credit", f"every null is within ±{largest:.3f}")


def test_what_pages_say_of_the_spread_of_the_null_and_of_gamma_over_epochs():
    found = {group: scan([SAMPLES / group]) for group in ("main", "wide")}
    spreads = []
    for row in found["main"].rows:
        if row.method in ("fa", "dfa"):
            _, spread = null_gamma(row.report.credit, row.method)
            spreads.append(spread)
    says("credit", f"FA and DFA {min(spreads):.3f}–{max(spreads):.3f} at d = 64 over 200 draws")
    courses = [
        deep_over_epochs([epoch.gamma for epoch in trace.epochs], trace.method)
        for trace in found["wide"].traces
        if trace.axes == {"lam": 0.001}
    ]
    first, last = ([course[place] for course in courses] for place in (0, -1))
    grown = f"−{-min(first):.2f} to {abs(max(first)):.2f} after the first epoch and "
    says("analyses", f"{grown}{min(last):.2f}–{max(last):.2f} after the last")


def test_closed_forms_that_pages_quote():
    low, high = median_ranks(128) or (0, 0)
    says("intervals", f"n = 128: the {low + 1}rd and the {high + 1}th value")
    right, wrong = packed([True] * 20), packed([False] * 20)
    least, most = paired_margin(right, wrong) or (0.0, 0.0)
    says("intervals", f"20 right of 20 against none right is {least:+.0f} to {most:+.0f} pp")
    alike, _ = share_interval(20, 20)
    says("intervals", f"at least {(2 * alike - 1) ** 2:.2f} times their mean |cosine|")
    says("additions", f"at {45.0**12:.0e})".replace("+", ""))
