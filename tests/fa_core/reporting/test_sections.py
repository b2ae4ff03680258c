"""Sections of the form: what they show, and what they say where numbers are missing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fa_core import load_audits
from fa_core.analysis.seeds import over_seeds
from fa_core.facts.measurements import ReferencePrecision
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.report import DiagnosticReport
from fa_core.reporting.blocks import Bullets, Grid, Paragraph, to_markdown
from fa_core.reporting.sections.analyses import seeds_blocks, smallest_words
from fa_core.reporting.sections.confidence_credit import confidence_tables, credit_table
from fa_core.reporting.sections.runs import (
    beyond_table,
    evidence_note,
    layer_tables,
    notes_on_runs,
    pitfalls_block,
    provenance,
    summary,
)
from tests.fa_core.analysis.runs import row, table

CREDIT: dict[str, Any] = {
    "gamma": [0.43, -0.01, -0.03, None],
    "rho": [0.5, 0.1, 0.1, 0.1],
    "missing": {"nudge": "the tail of the network cannot be run alone"},
    "null": {"draws": 10, "deep_gamma_mean": 0.0043, "deep_gamma_std": 0.007, "rank": 0.5},
}


def test_credit_is_shown_per_layer_with_its_deep_mean_and_the_null() -> None:
    blocks = list(credit_table(table(row(growth=2.0, credit=CREDIT))))
    grid = next(block for block in blocks if isinstance(block, Grid))
    assert grid.rows[0] == ("dfa_s42", "Γ", "-0.0200", "+0.4300", "-0.0100", "-0.0300", "N/A")
    assert grid.rows[1][:3] == ("dfa_s42", "ρ, ε = 1e-3", "+0.1000")
    assert "nudge: N/A for dfa_s42: the tail of the network" in to_markdown(blocks)


def test_the_null_stands_beside_the_observed_gamma_layer_by_layer() -> None:
    layers = {"gamma": [0.0, 0.01, 0.98], "deep_gamma_std": 0.007}
    fresh = {**CREDIT, "gamma": [0.43, 0.152, 0.15, None], "null": {**CREDIT["null"], **layers}}
    *_, null = (
        block
        for block in credit_table(table(row(growth=2.0, credit=fresh)))
        if isinstance(block, Grid)
    )
    assert null.rows == (
        ("dfa_s42", "+0.1510", "+0.0043 ± 0.0070", "10", "0.5", "+0.0000", "+0.0100", "+0.9800"),
    )


def test_a_change_of_the_loss_too_small_for_four_decimals_keeps_its_sign() -> None:
    (grid,) = credit_table(table(row(growth=2.0, credit={"nudge": [3.4e-8, -1.4e-10]})))
    assert isinstance(grid, Grid)
    assert grid.rows[0][3:] == ("3.4e-8", "-1.4e-10")


def test_a_method_without_credit_has_a_reason_and_no_row() -> None:
    nothing = {
        "gamma": [None, None],
        "missing": {"gamma, rho, nudge": "the method gives no credit signal"},
    }
    (said,) = credit_table(
        table(row("random_init", 1, credit=nothing), row("random_init", 2, credit=nothing))
    )
    assert isinstance(said, Paragraph)
    words = "N/A for random_init_s1, random_init_s2: the method gives no credit signal."
    assert said.text == f"Γ, ρ, nudge: {words}"


def test_a_control_says_why_its_layers_have_no_gamma() -> None:
    runs = table(
        row("random_init", 1, credit={"gamma": [None, None, None]}),
        row("frozen", 1, credit={"gamma": [0.5, None, None]}),
        row("dfa", 1, credit={"gamma": [0.5, None, 0.1]}),
        row("bp", 1, credit={"gamma": [1.0, 1.0, 1.0]}),
    )
    *_, said = credit_table(runs)
    assert isinstance(said, Bullets)
    assert said.items == (
        "Γ and what follows it at every layer: N/A for random_init_s1: a control has no credit rule.",
        "Γ and what follows it at l ≥ 1: N/A for frozen_s1: frozen blocks are not trained.",
        "Γ and what follows it at l = 1: N/A for dfa_s1: no credit there, or a gradient of norm 0.",
    )


def test_a_nudge_of_any_size_keeps_its_significant_digits() -> None:
    (grid,) = credit_table(table(row(growth=2.0, credit={"nudge": [-67281324.6493, -6.8e-06]})))
    assert isinstance(grid, Grid)
    assert grid.rows[0][2:] == ("-6.8e-6", "-6.73e7", "-6.8e-6")


def test_credit_that_was_not_saved_reads_na_with_the_reason() -> None:
    runs = table(
        row(growth=2.0),
        row("bp", growth=2.0, unmeasured={"credit": "the checkpoint has no feedback beside it"}),
    )
    text = to_markdown(credit_table(runs))
    assert (
        "N/A for dfa_s42: no credit signal (feedback matrices, bridge nets) is recorded with the numbers."
        in text
    )
    assert "N/A for bp_s42: the checkpoint has no feedback beside it." in text
    assert "+1.0" not in text


def test_a_fired_floor_has_its_cause_beside_it() -> None:
    runs = table(
        row("dfa", g_L=4e-10, batch_size=128, error_norm=0.9),
        row("bp", g_L=5e-8, batch_size=128, error_norm=2e-5),
        row("ep", g_L=1e-3, batch_size=128, error_norm=0.9),
        row("fa", g_L=1e-9),
    )
    (grid,) = (
        block for block in beyond_table(runs, DiagnosticThresholds()) if isinstance(block, Grid)
    )
    assert [cells[-1] for cells in grid.rows] == ["cancelled", "converged", "–", "undetermined"]
    assert [cells[-2] for cells in grid.rows] == ["scale failure", "–", "–", "scale failure"]
    assert grid.rows[0][2] == "−250x" and grid.rows[2][2] == "+10000x"
    assert grid.rows[3][5:7] == ("N/A", "N/A")


def test_both_causes_of_a_fired_floor_show_on_real_runs(sample_runs: Path) -> None:
    runs = load_audits([sample_runs / "floor"])
    (grid,) = (
        block for block in beyond_table(runs, DiagnosticThresholds()) if isinstance(block, Grid)
    )
    assert {cells[0].split("_")[0]: cells[-1] for cells in grid.rows} == {
        "bp": "converged",
        "dfa": "cancelled",
        "frozen": "–",
    }


def test_confidence_shows_the_distance_from_float64_or_the_option_that_measures_it() -> None:
    facts = {"norm_ratio": [1.0, None], "lost": [0, 7], "samples": 16}
    part = ReferencePrecision(cosine=[1 - 3e-9, None], worst=[0.75, None], **facts)
    broken = ReferencePrecision(cosine=[math.nan, 1.0], worst=[math.nan, 1.0], **facts)
    runs = table(
        row("dfa", growth=45.0, reference_precision=part),
        row("bp", growth=math.nan, reference_precision=broken),
        row("fa", growth=2.0, unmeasured={"reference_precision": "the network casts to float32"}),
    )
    blocks = list(confidence_tables(runs, DiagnosticThresholds()))
    distances = next(b for b in blocks if isinstance(b, Grid) and "arithmetic" in b.headings)
    assert distances.marked == {0, 1}
    assert distances.rows == (
        ("dfa_s42", "float32", "3.0e-9", "N/A", "0.25", "7"),
        ("bp_s42", "float32", "NaN", "0", "NaN", "7"),
    )
    text = to_markdown(blocks)
    assert "fa_s42: reference precision is N/A: the network casts to float32" in text
    text = to_markdown(confidence_tables(table(row(growth=2.0)), DiagnosticThresholds()))
    assert "--precision" in text and "|" not in text


def test_a_nan_fires_at_every_threshold_in_the_margin_table() -> None:
    (grid,) = (
        b
        for b in beyond_table(table(row(growth=float("nan"))), DiagnosticThresholds())
        if isinstance(b, Grid)
    )
    assert grid.rows[0][1] == "fires always"


def test_the_summary_names_recorded_verdicts_that_differ() -> None:
    runs = table(row(growth=100.0, recorded_verdict="trustworthy"))
    text = to_markdown(summary(runs, DiagnosticThresholds()))
    assert "dfa_s42 is recorded as “trustworthy” in its source" in text


def test_bounds_and_proxies_are_counted() -> None:
    (note,) = evidence_note(table(row(acc=0.3, growth_bound=8.0, evidence={"a": "bound"})))
    assert isinstance(note, Paragraph)
    assert "(a) is a bound on 1 run." in note.text
    assert list(evidence_note(table(row(growth=2.0)))) == []


def test_provenance_flattens_hashes_and_says_when_there_are_none() -> None:
    known = table(
        row(growth=2.0, batch_size=128, provenance={"device": "cpu", "versions": {"torch": "2.13"}})
    )
    text = to_markdown(provenance(known))
    assert "- device: cpu" in text and "- versions torch: 2.13" in text and "| 1 | 128 |" in text
    text = to_markdown(provenance(table(row(growth=2.0))))
    assert "No hashes, versions or devices are recorded" in text


def test_the_disclosure_has_the_seven_pitfalls_numbered() -> None:
    (listed,) = (block for block in pitfalls_block() if isinstance(block, Bullets))
    assert listed.numbered and len(listed.items) == 7


def test_sufficient_sets_read_as_words() -> None:
    assert "nothing" in smallest_words(())
    assert smallest_words(("",)).startswith("No diagnostic is needed")
    assert "{(a), (c)} or {(b), (c)}" in smallest_words(("ac", "bc"))


def test_a_remark_on_a_thousand_runs_names_a_few_of_them() -> None:
    runs = table(*(row(f"method{number}", 42) for number in range(1000)))
    blocks = [
        *summary(runs, DiagnosticThresholds()),
        *seeds_blocks(over_seeds(runs, DiagnosticThresholds())),
    ]
    said = [line for block in blocks if isinstance(block, Bullets) for line in block.items]
    said += [block.text for block in blocks if isinstance(block, Paragraph)]
    assert any(" and 992 more: one seed" in line for line in said)
    assert max(map(len, said)) < 500


def test_exact_zeros_of_the_credit_are_listed_where_there_are_any() -> None:
    lost = row("ep", 1, credit={"gamma": [None, 0.9, 1.0], "zeros": [1.0, 0.25, 0.0]})
    whole = row("bp", 1, credit={"gamma": [1.0, 1.0, 1.0], "zeros": [0.0, 0.0, 0.0]})
    grid = next(block for block in credit_table(table(lost, whole)) if isinstance(block, Grid))
    assert [line for line in grid.rows if line[1] != "Γ"] == [
        ("ep_s1", "share of a_l that is 0", "12%", "100%", "25%", "0%")
    ]


def test_norms_of_partial_logs_stand_under_the_layers_that_they_are_of() -> None:
    part = DiagnosticReport(
        residual_norms=[9.0],
        bp_grad_norms=[0.2],
        layers={"residual_norms": "L", "bp_grad_norms": "2"},
    )
    full = DiagnosticReport(residual_norms=[1.0, 2.0, 3.0], bp_grad_norms=[0.1, 0.1, 0.1])
    runs = (replace(row("bp", 1), report=full), replace(row("dfa", 1), report=part))
    h, g = (block for block in layer_tables(table(*runs)) if isinstance(block, Grid))
    assert h.headings == ("run", "l = 0", "l = 1", "l = 2", "l = L")
    assert h.rows[1] == ("dfa_s1", "N/A", "N/A", "N/A", "9.000")
    assert (g.headings[1:], g.rows[1]) == (
        ("l = 0", "l = 1", "l = 2"),
        ("dfa_s1", "N/A", "N/A", "0.2000"),
    )


def test_gamma_as_one_number_is_given_five_ways() -> None:
    credit = {
        "gamma": [0.43, -0.02, 0.07, None],
        "gamma_of_batch_means": 0.05,
        "gamma_concatenated": None,
    }
    _, ways = (
        block
        for block in credit_table(table(row(growth=2.0, credit=credit)))
        if isinstance(block, Grid)
    )
    assert ways.headings[1:] == (
        "mean, all l",
        "mean, l ≥ 1",
        "median, all l",
        "batch means, l ≥ 1",
        "concatenated, l ≥ 1",
    )
    assert ways.rows == (("dfa_s42", "+0.1600", "+0.0250", "+0.0700", "+0.0500", "N/A"),)


def test_a_summary_and_a_table_over_seeds_say_on_what_runs_are_trustworthy() -> None:
    runs = table(row("bp", growth=2.0, g_L=1e-3), row("dfa", growth=99.0))
    said = [
        block.text
        for block in summary(runs, DiagnosticThresholds())
        if isinstance(block, Paragraph)
    ]
    assert said[1] == "1 trustworthy on a, b, 1 needs walk-back."
    grid = next(iter(seeds_blocks(over_seeds(runs))))
    assert [line[1] for line in grid.rows] == ["trustworthy on a, b", "walk-back"]


def test_a_summary_counts_runs_with_a_number_that_is_not_finite() -> None:
    runs = table(row("ep", 1, growth=1.0), row("ep", 2, growth=float("nan")))
    text = to_markdown(list(summary(runs, DiagnosticThresholds())))
    assert "(a) is NaN or infinite on 1 run" in text


def test_what_is_said_of_many_runs_is_said_once_and_margins_are_a_table() -> None:
    others = {"other_frozen_baselines": {"fa": 0.4, "bp": 0.45}}
    first = row("dfa", 1, acc=0.5, baseline=0.3, batch_size=64, g_L=1e-3, provenance=others)
    second = row("dfa", 2, acc=0.5, baseline=0.3, batch_size=64, g_L=1e-3)
    blocks = list(notes_on_runs(table(first, second), DiagnosticThresholds()))
    (said,) = (block for block in blocks if isinstance(block, Bullets))
    assert said.items == ("dfa_s1, dfa_s2: (b) B = 64, at B = 128 it is 5e-4",)
    (grid,) = (block for block in blocks if isinstance(block, Grid))
    assert (grid.headings, grid.rows) == (
        ("run", "its own", "bp", "fa"),
        (("dfa_s1", "+20.00", "+5.00", "+10.00"),),
    )
    assert not list(notes_on_runs(table(row("bp", growth=2.0)), DiagnosticThresholds()))
