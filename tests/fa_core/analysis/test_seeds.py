"""Means over seeds, disagreement, second axes, and data that cannot say."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.seeds import over_seeds
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.reporting.sections.analyses import fires_on, seeds_blocks
from tests.fa_core.analysis.runs import row, seeds_of, table
from tests.fa_core.rows import row_of


def group_of(*rows):
    """The one group that these runs are."""
    (group,) = over_seeds(table(*rows)).groups
    return group


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8))
def test_mean_and_std_equal_the_textbook_ones(values):
    group = group_of(*seeds_of("dfa", *values))
    stat = group.stats["growth"]
    assert stat.mean == pytest.approx(statistics.fmean(values))
    assert stat.std == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert stat.geometric_mean == pytest.approx(statistics.geometric_mean(values))
    assert stat.factor == pytest.approx(math.exp(statistics.stdev(map(math.log, values))), rel=1e-6)
    assert (stat.n, stat.min, stat.max) == (len(values), min(values), max(values))


def test_the_same_runs_in_two_files_are_not_averaged_together():
    files = ("mlp.json", 2.0), ("cnn.json", 4.0)
    runs = table(*(row(seed=s, growth=v, source=file) for file, v in files for s in (1, 2)))
    means = {group.collection: group.stats["growth"].mean for group in over_seeds(runs).groups}
    assert means == {"mlp.json": 2.0, "cnn.json": 4.0}


NET = {"arch": "resmlp", "arch_args": {"d": 64}, "data": "digits", "data_hash": "sha256:1"}
MARGIN = {"headline_acc": 0.5, "frozen_baseline_acc": 0.4}


TRAINED = [
    ({name: one}, {name: two}, ({name: one}, {name: two}))
    for name, one, two in (
        ("epochs_done", 6, 1),
        ("trained_on", "sha256:1", "sha256:2"),
        ("network", "nets.Net", "nets.Wide"),
        ("fan_in", 32, 256),
    )
]
TRAINED += [
    (
        {"settings": {"model": "nets:Net"}},
        {"settings": {"model": "nets:Net?d=8"}},
        ({"model": "nets:Net"}, {"model": "nets:Net?d=8"}),
    ),
    (
        {"method_args": {}},
        {"method_args": {"steps": 5}},
        ({"rule": "dfa"}, {"rule": "dfa(steps=5)"}),
    ),
    ({"method_args": {"lam": 0.1}}, {"method_args": {}}, ({},)),
    ({"epochs_done": 6}, {"settings": {}}, ({},)),
]


@pytest.mark.parametrize(
    ("one", "two", "axes"),
    [
        ({"provenance": NET}, {"provenance": NET}, ({},)),
        ({"provenance": NET}, {}, ({},)),
        ({"provenance": NET, **MARGIN}, MARGIN, ({"source": "audit"}, {"source": "record"})),
        ({"provenance": NET}, {"provenance": NET | {"arch_args": {"d": 8}}}, ({"d": 64}, {"d": 8})),
        (
            {"provenance": NET},
            {"provenance": NET | {"data": "cifar"}},
            ({"data": "digits"}, {"data": "cifar"}),
        ),
        *(
            ({"provenance": {**NET, **one}}, {"provenance": {**NET, **two}}, axes)
            for one, two, axes in TRAINED
        ),
        (
            {"tap_names": ["h_0", "h_1"], "provenance": {"settings": {"taps": ["nets:stream"]}}},
            {"tap_names": ["h_0", "h_1"], "provenance": {"settings": {"taps": []}}},
            ({"taps": ["nets:stream"]}, {"taps": ["h_0", "h_1"]}),
        ),
        (
            {"residual_norms": [1.0] * 3},
            {"residual_norms": [1.0] * 5},
            ({"layers": 2}, {"layers": 4}),
        ),
        (
            {"residual_norms": [1.0] * 3},
            {"growth_bound": 2.0, "evidence": {"a": "bound"}},
            ({"source": "record"}, {"source": "log"}),
        ),
    ],
)
def test_seeds_of_one_method_agree_in_source_kind_network_data_and_training(one, two, axes):
    rows = []
    for seed, facts in enumerate((one, two, one)):
        report = DiagnosticReport(method_name="dfa", seed=seed, **facts)
        rows.append(row_of("dfa", f"{seed}.json", seed=seed, report=report))
    found = over_seeds(table(*rows)).groups
    assert tuple(group.axes for group in found) == axes
    assert [group.seeds for group in found] == ([(0, 2), (1,)] if len(axes) > 1 else [(0, 1, 2)])


def test_only_runs_that_a_fact_parts_are_named_by_it():
    facts = [{"epochs_done": done} for done in (6, 6, 1, 6)]
    methods = ("bp", "dfa", "dfa", "dfa")
    runs = [row(name, seed, provenance=facts[seed]) for seed, name in enumerate(methods)]
    found = {group.seeds: group.axes for group in over_seeds(table(*runs)).groups}
    assert found == {(0,): {}, (1, 3): {"epochs_done": 6}, (2,): {"epochs_done": 1}}


def test_a_seed_that_is_there_twice_is_asked_about():
    (note,) = group_of(row(seed=1, growth=2.0), row(seed=1, growth=2.0)).notes
    assert note == "seed 1 more than once: are these the same runs?"


def test_letters_that_fire_or_lack_on_some_seeds_are_counted_and_unmeasured_ones_named():
    runs = (row(seed=1, growth=99.0, g_L=1e-3), row(seed=2, growth=2.0), row(seed=3))
    assert fires_on(group_of(*runs)) == "a 1/2, b 0/1, c N/A, d N/A"


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ([{"growth": 2.0, "g_L": 1e-3}, {"growth": 2.0}], "trustworthy on (a) alone"),
        ([{"growth": 2.0}, {"g_L": 1e-3}], "undecided"),
        ([{"growth": 2.0}, {"acc": 0.5}], "undecided"),
        ([{"growth": 99.0}, {"acc": 0.5}], "walk-back"),
    ],
)
def test_a_verdict_over_seeds_stands_on_what_was_measured_on_every_one(runs, verdict):
    analysis = over_seeds(table(*(row(seed=n, **run) for n, run in enumerate(runs))))
    (means, *_) = seeds_blocks(analysis)
    assert dict(zip(means.headings, means.rows[0], strict=True))["verdict"] == verdict
    assert verdict.startswith(analysis.groups[0].verdict)


def test_a_table_shows_the_range_and_on_how_many_seeds_a_number_was_measured():
    runs = seeds_of("dfa", 0.298, 0.305, 0.315, of="acc", growth=2.0)
    means, ranges, *_ = seeds_blocks(over_seeds(table(*runs, row(seed=4, growth=4.0))))
    cells = dict(zip(means.headings, means.rows[0], strict=True))
    ends = dict(zip(ranges.headings, ranges.rows[0], strict=True))
    assert cells["n"] == "4"
    assert (cells["acc"], ends["acc"]) == ("0.3060 ± 0.0085", "0.298 … 0.315 (n = 3)")
    assert (cells["(a) growth"], ends["(a) growth"]) == ("2.38 (×1.4)", "2 … 4")
    assert cells["(c) drift"] == ends["(c) drift"] == "N/A"


def test_credit_has_a_mean_and_a_sample_deviation_over_seeds_like_every_other_number():
    known = {"rho": [0.4, 0.2, 0.8], "nudge": [-0.3, -0.1, -0.5], "free_layers": [2]}
    gammas = (([0.5, 0.1, 0.9], 0.02), ([0.5, 0.3, 0.7], -0.02))
    credits = [{**known, "gamma": g, "null": {"deep_gamma_mean": null}} for g, null in gammas]
    frozen_runs = seeds_of("frozen", {"gamma": [0.5, None, None]}, None, of="credit")
    analysis = over_seeds(table(*seeds_of("fa", *credits, of="credit"), *frozen_runs))
    fa, frozen = analysis.groups
    found = {name: (stat.mean, stat.std) for name, stat in fa.stats.items() if stat.n == 2}
    expected = {
        "mean_gamma": (0.5, 0),
        "deep_gamma": (0.2, 0.2 / math.sqrt(2)),
        "null_gamma": (0, 0.04 / math.sqrt(2)),
        "deep_rho": (0.2, 0),
        "deep_nudge": (-0.1, 0),
    }
    assert found == {name: pytest.approx(pair) for name, pair in expected.items()}
    assert (frozen.stats["mean_gamma"].n, frozen.stats["deep_gamma"].n) == (0, 0)
    _, _, credit, *_ = seeds_blocks(analysis)
    assert credit.headings[1:] == (
        "Γ, all l",
        "deep Γ",
        "null Γ",
        "deep ρ",
        "deep nudge",
    )
    assert credit.rows[1] == ("frozen", *["N/A"] * 5)


def test_gamma_of_other_layers_is_not_averaged_and_lost_credit_does_not_raise_it():
    whole = {"gamma": [0.9, 0.1, 0.3], "zeros": [0.0] * 3}
    none = {"gamma": [0.9, None, 0.3], "zeros": [0.0, None, 0.0]}
    lost = {"gamma": [0.9, None, 0.3], "zeros": [0.0, 1.0, 0.0]}
    for credits, n, said in (
        ([whole, whole], 2, ""),
        ([whole, none], 0, "Γ not averaged: its layers are l = 1,2 / 2"),
        ([lost, lost], 0, ""),
    ):
        runs = table(*(row("dfa", seed, credit=c) for seed, c in enumerate(credits)))
        (group,) = over_seeds(runs).groups
        assert group.stats["deep_gamma"].n == n
        assert [note for note in group.notes if "Γ" in note] == ([said] if said else [])
