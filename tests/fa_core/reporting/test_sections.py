"""Sections of the form: what they show, and what they say where numbers are missing."""

from msgspec.structs import replace

from fa_core.analysis.seeds import over_seeds
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import MeanError, ReferencePrecision
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import Grid, Paragraph, to_markdown
from fa_core.reporting.sections.analyses import seeds_blocks
from fa_core.reporting.sections.credit import beside_table, credit_table
from fa_core.reporting.sections.runs import (
    beyond_table,
    layer_tables,
    notes_on_runs,
    provenance,
    summary,
)
from tests.fa_core.analysis.runs import row, table

DEFAULT = DiagnosticThresholds()


def grid_of(blocks):
    """The first table of these blocks."""
    return next(block for block in blocks if isinstance(block, Grid))


CREDIT = {
    "gamma": [0.43, -0.01, -0.03, None],
    "rho": [0.5, 0.1, 0.1, 0.1],
    "missing": {"nudge": "the tail of the network cannot be run alone"},
    "null": {"draws": 10, "deep_gamma_mean": 0.0043, "deep_gamma_std": 0.007, "rank": 0.5},
}


def test_credit_is_shown_per_layer_with_its_deep_mean_and_the_null_below():
    layers = {"gamma": [0.0, 0.01, 0.98], "deep_gamma_std": 0.007}
    credit = {**CREDIT, "null": {**CREDIT["null"], **layers}}
    (grid,) = credit_table(table(row(growth=2.0, credit=credit)))
    assert [" | ".join(cells) for cells in grid.rows] == [
        "dfa_s42 | Γ | -0.0200 (l = 1,2) | +0.4300 | -0.0100 | -0.0300 | N/A",
        "dfa_s42 | ρ, ε = 1e-3 | +0.1000 | +0.5000 | +0.1000 | +0.1000 | +0.1000",
        "dfa_s42 | Γ, fresh (10 draws) | +0.0043 ± 0.0070 | +0.0000 | +0.0100 | +0.9800 | N/A",
    ]


def test_a_change_of_the_loss_too_small_for_four_decimals_keeps_its_sign():
    (grid,) = credit_table(table(row(growth=2.0, credit={"nudge": [3.4e-8, -1.4e-10]})))
    assert grid.rows[0][3:] == ("3.4e-8", "-1.4e-10")


def test_a_fired_floor_has_its_cause_beside_it():
    runs = table(
        row("dfa", g_L=4e-10, batch_size=128, error_norm=0.9),
        row("bp", g_L=5e-8, batch_size=128, error_norm=2e-5),
        row("ep", g_L=1e-3, batch_size=128, error_norm=0.9),
        row("fa", g_L=1e-9),
    )
    grid = grid_of(beyond_table(runs, DEFAULT))
    assert [cells[-1] for cells in grid.rows] == ["cancelled", "converged", "–", "undetermined"]
    assert [cells[-2] for cells in grid.rows] == ["scale failure", "–", "–", "scale failure"]
    assert grid.rows[0][2] == "250× under" and grid.rows[2][2] == "10000× above"
    assert grid.rows[3][5:7] == ("N/A", "N/A")


def test_what_was_measured_beside_a_fired_diagnostic_is_in_a_table():
    exact = ReferencePrecision(cosine=[1.0], worst=[1.0], norm_ratio=[1.0], lost=[0], samples=8)
    mean_error = MeanError(cosine=0.2, norm=0.1, label=3, excess=0.1)
    runs = table(
        row("dfa", 1, g_L=1e-9, cosine=0.4, reference_precision=exact, mean_error=mean_error),
        row("bp", 2, g_L=1e-3, cosine=0.1, mean_error=mean_error),
    )
    (grid,) = beside_table(runs, DEFAULT)
    said = {name: text for name, _, text in grid.rows}
    assert list(said) == ["dfa_s1 (b)", "dfa_s1 (c)"]
    assert "the gradient is small, not noise" in said["dfa_s1 (b)"]
    assert "+0.200 of it by the mean error" in said["dfa_s1 (c)"]
    assert not list(beside_table(table(row(growth=2.0)), DEFAULT))


def test_the_summary_names_recorded_verdicts_that_differ():
    runs = table(row(growth=100.0, recorded_verdict="trustworthy"))
    text = to_markdown(summary(runs, DEFAULT))
    assert "dfa_s42 is recorded as “trustworthy” in its source" in text


def test_provenance_flattens_hashes_and_says_when_there_are_none():
    known = table(
        row(growth=2.0, batch_size=128, provenance={"device": "cpu", "versions": {"torch": "2.13"}})
    )
    text = to_markdown(provenance(known))
    assert "- device: cpu" in text and "- versions torch: 2.13" in text and "| 1 | 128 |" in text
    text = to_markdown(provenance(table(row(growth=2.0))))
    assert "No hashes, versions or devices are recorded" in text


def test_norms_of_partial_logs_stand_under_the_layers_that_they_are_of():
    layers = {"residual_norms": "L", "bp_grad_norms": "2"}
    part = DiagnosticReport(residual_norms=[9.0], bp_grad_norms=[0.2], layers=layers)
    full = DiagnosticReport(residual_norms=[1.0, 2.0, 3.0], bp_grad_norms=[0.1, 0.1, 0.1])
    runs = (replace(row("bp", 1), report=full), replace(row("dfa", 1), report=part))
    h, g = (block for block in layer_tables(table(*runs)) if isinstance(block, Grid))
    assert h.headings == ("run", "l = 0", "l = 1", "l = 2", "l = L")
    assert h.rows[1] == ("dfa_s1", "N/A", "N/A", "N/A", "9.000")
    assert (g.headings[1:], g.rows[1]) == (
        ("l = 0", "l = 1", "l = 2"),
        ("dfa_s1", "N/A", "N/A", "0.2000"),
    )


def test_a_table_of_layers_holds_the_first_ones():
    deep = replace(row("bp", 1), report=DiagnosticReport(residual_norms=[1.0] * 1000))
    h, _ = layer_tables(table(deep))
    assert h.headings[-1] == "l = 255"
    assert h.caption.endswith("‖h_l‖; the first 256 at most.")


def test_a_summary_and_a_table_over_seeds_say_on_what_runs_are_trustworthy():
    runs = table(row("bp", growth=2.0, g_L=1e-3), row("dfa", growth=99.0))
    said = [one.text for one in summary(runs, DEFAULT) if isinstance(one, Paragraph)]
    assert said[1] == "1 trustworthy on a, b, 1 needs walk-back."
    grid = next(iter(seeds_blocks(over_seeds(runs))))
    assert [line[1] for line in grid.rows] == ["trustworthy on a, b", "walk-back"]


def test_what_is_said_of_many_runs_is_said_once():
    runs = [row("dfa", seed, acc=0.5, baseline=0.3, batch_size=64, g_L=1e-3) for seed in (1, 2)]
    _, said = notes_on_runs(table(*runs), DEFAULT)
    assert said.items == ("dfa_s1, dfa_s2: (b) B = 64, at B = 128 it would be about 5e-4",)
    assert not list(notes_on_runs(table(row("bp", growth=2.0)), DEFAULT))
