"""A run in words."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import ReferencePrecision
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.text import width_of
from fa_tui.widgets.detail import DetailPane, RunPage
from tests.fa_core.rows import row_of
from tests.fa_core.strategies import reports, thresholds
from tests.fa_tui.looks import Stage
from tests.fa_tui.odd_names import ODD_NAMES
from tests.fa_tui.waiting import until

T = DiagnosticThresholds()


@pytest.fixture(scope="module")
def dfa(published_table):
    data = json.loads(published_table.read_bytes())["reports"]["dfa_s42"]
    return row_of("dfa_s42", "audit.json", report=DiagnosticReport.from_dict(data))


def lines_of(page, row, thresholds=T):
    """The lines of a run, as the thresholds judge it."""
    judged = Session([row], thresholds=thresholds)
    return page.lines(thresholds, (judged.flags[0], judged.undecided[0]))


def text(row, width=70, glyphs=UNICODE, thresholds=T):
    lines = lines_of(RunPage(row, width, glyphs), row, thresholds)
    return "\n".join("".join(piece for piece, _ in line).rstrip() for line in lines)


def run(report, **fields):
    return row_of("m", "s", report=report, **fields)


def test_verdict_diagnostics_layers_and_source_of_a_published_run(dfa):
    shown = text(dfa)
    first = shown.splitlines()[0]
    assert first.startswith("DFA  seed 42") and first.endswith("✗ab-d")
    assert "needs walk-back: a, b, d fire" in first
    table = [re.split("  +", line) for line in shown.splitlines()[1:6]]
    assert table == [
        ["", "diagnostic", "number", "fires if", "how far"],
        ["✗ a growth per block", "2043×", "> 50×", "40.9× over"],
        ["✗ b deepest ‖g_L‖", "4.17e-9", "< 1e-7", "24× under"],
        ["✓ c drift cosine", "+0.047", "> 0.3", "0.253 below"],
        ["✗ d margin over frozen", "-3.83 pp", "< 2 pp", "5.83 pp under"],
    ]
    assert "a: most in block 0→1" in shown
    assert "source      audit.json" in shown and "run         dfa_s42" in shown
    layers = [line.split() for line in shown.splitlines() if line[:3].strip().isdigit()]
    assert [row[1] for row in layers] == ["35825", "7.32e7", "1.74e8", "3.39e8", "4.35e8"]


def test_the_norms_of_a_partial_log_are_shown_at_the_layers_that_it_names():
    partial = DiagnosticReport(
        residual_norms=[4096.0],
        bp_grad_norms=[2e-4],
        layers={"residual_norms": "L", "bp_grad_norms": "2"},
    )
    shown = text(run(partial)).splitlines()
    head = next(place for place, line in enumerate(shown) if line.startswith(" l  ‖h‖"))
    assert [line.split()[:2] for line in shown[head + 1 : head + 3]] == [
        ["2", "2e-4"],
        ["L", "4096"],
    ]
    unknown = text(
        run(DiagnosticReport(residual_norms=[4096.0], headline_acc=0.5, frozen_baseline_acc=0.4))
    ).splitlines()
    assert [line.split()[:2] for line in unknown if "4096" in line][-1] == ["?", "4096"]


def test_the_block_that_grows_most_is_marked(dfa):
    (marked,) = [line for line in text(dfa).splitlines() if UNICODE.grows in line]
    assert marked.split()[0] == "1" and "×2043 ▲" in marked


def test_nothing_is_marked_where_no_block_grows():
    assert UNICODE.grows not in text(run(DiagnosticReport(residual_norms=[3.0, 2.0, 1.0])))


def test_a_partial_audit_says_what_its_verdict_rests_on():
    shown = text(run(DiagnosticReport(residual_norms=[1.0, 1.1], bp_grad_norms=[1e-3, 1e-3])))
    assert "trustworthy on a, b" in shown
    assert re.search("· c drift cosine +not measured: not in the source", shown)


def test_a_differing_recorded_verdict_is_shown_and_an_equal_one_is_not():
    report = DiagnosticReport(residual_norms=[1.0, 100.0], recorded_verdict="trustworthy")
    assert "≠ recorded as “trustworthy”" in text(run(report))
    agreed = DiagnosticReport(residual_norms=[1.0, 1.0], recorded_verdict="trustworthy")
    assert "recorded" not in text(run(agreed))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("floor/dfa_lr0.01_s42", "cause of b: cancelled (γ_L 5e-7, ‖e_T‖ 0.86)"),
        ("floor/bp_data-digits_s42", "cause of b: converged (γ_L 0.49, ‖e_T‖ 3.6e-6)"),
    ],
)
def test_both_causes_of_a_fired_b_show_on_real_runs(sample_runs, name, words):
    report = DiagnosticReport.from_dict(
        json.loads((sample_runs / name / "audit.json").read_bytes())
    )
    assert words in text(run(report))
    assert "cause of b" not in text(
        run(report), thresholds=DiagnosticThresholds(g_norm_floor=1e-12)
    )


FIRM = DiagnosticReport(
    residual_norms=[1.0, 45.0],
    bp_grad_norms=[1e-3, 1e-3],
    credit={"gamma": [0.4, 0.1], "rho": [0.3, 0.2]},
    reference_precision=ReferencePrecision(
        cosine=[1 - 3e-9, None], worst=[0.5, None], norm_ratio=[1.0, None], lost=[0, 7], samples=16
    ),
)


@given(st.one_of(st.just(FIRM), reports()), st.lists(thresholds(), min_size=2, max_size=4))
def test_a_page_judged_again_says_what_a_new_one_says(report, judged_by):
    row = run(report)
    page = RunPage(row, 70, UNICODE)
    for each in judged_by:
        assert lines_of(page, row, each) == lines_of(RunPage(row, 70, UNICODE), row, each)


def test_reference_precision_stands_beside_the_layers_and_its_worst_below():
    layers = [line.split() for line in text(run(FIRM)).splitlines() if line[:3].strip().isdigit()]
    assert [line[-3:] for line in layers] == [["+0.40", "3e-9", "+0.30"], ["+0.10", "N/A", "+0.20"]]
    assert " ".join(text(run(FIRM)).split()).count("lost on 7 of 16 samples") == 1


def test_columns_that_do_not_fit_are_left_out_and_not_cut():
    for width in (34, 40, 46, 54):
        assert [line for line in text(run(FIRM), width).splitlines() if len(line) > width] == []
    assert "Γ" in text(run(FIRM), 40) and "1−cos  " not in text(run(FIRM), 40)


def test_an_unmeasured_checkpoint_says_which_key_measures_it():
    shown = text(run(DiagnosticReport(), checkpoint="/runs/dfa_s42"))
    assert "not measured yet: press m to measure" in shown
    assert "/runs/dfa_s42" in shown
    assert "no checkpoint to measure" in text(run(DiagnosticReport()))


def test_non_finite_layers_are_named_and_fire():
    shown = text(
        run(
            DiagnosticReport(
                residual_norms=[1.0, math.nan, math.inf], bp_grad_norms=[0.0, 1.0, 1.0]
            )
        )
    )
    assert re.search("✗ a growth per block +non-finite: residual norm at layer 1 is nan", shown)
    assert "∞" in shown


def test_growth_is_marked_where_the_stream_stops_being_finite_and_no_margin_is_told():
    report = DiagnosticReport(
        residual_norms=[1.0, 9.0, math.inf, math.nan], bp_grad_norms=[1.0, math.nan, 1e-9]
    )
    lines = text(run(report)).splitlines()
    assert any("most in block 1→2" in line for line in lines)
    (marked,) = [line for line in lines if UNICODE.grows in line]
    assert marked.split()[:2] == ["2", "inf"]
    assert "× over" not in "".join(lines)


def test_axes_stand_in_the_title_by_their_signs():
    row = row_of("dfa_s7", "s", axes={"lam": 0.01, "arch": "vit"})
    assert text(row).splitlines()[0].startswith("dfa  seed 7  arch=vit λ=0.01")


AVERAGED = {
    "gamma": [0.4, 0.1],
    "deep_gamma": 0.1,
    "gamma_L": 0.1,
    "aggregation": "mean over samples; deep = l >= 1",
}
DRAWN = {"deep_gamma_mean": 0.002, "deep_gamma_std": 0.022, "draws": 10, "rank": 1 / 11}


@pytest.mark.parametrize(
    ("credit", "words"),
    [
        (AVERAGED | {"zeros": [0.0, 0.0]}, "+0.10, Γ_L +0.10, mean over samples; deep = l >= 1"),
        ({"missing": {"gamma": "it was not saved"}}, "deep Γ N/A: it was not saved"),
        ({"null": DRAWN}, "null +0.00 ± 0.02 over 10 draws of fresh feedback, p 0.0909"),
        ({"gamma": [None, 0.9], "zeros": [1.0, 0.004]}, "exactly 0: 100% at l = 0, <1% at l = 1"),
    ],
)
def test_gamma_has_its_average_or_reason_a_null_its_draws_and_zeros_their_layers(credit, words):
    shown = text(run(DiagnosticReport(residual_norms=[1.0, 1.0], credit=credit)))
    assert words in " ".join(shown.split())
    assert ("zeros" in shown) == ("exactly 0" in words)


def test_provenance_is_listed():
    report = DiagnosticReport(
        residual_norms=[1.0, 1.0], batch_size=128, n_batches=10, dtype="float32",
        provenance={"device": "cpu", "versions": {"torch": "2.13", "cuda": None}, "data_hash": "sha256:" + 64 * "a"},
    )  # fmt: skip
    shown = text(run(report))
    assert "B = 128, K = 10" in shown and "float32" in shown
    assert "versions    torch 2.13\n" in shown
    assert f"data hash   sha256:{12 * 'a'}…" in shown


@pytest.mark.parametrize("width", [16, 18, 25, 34, 48, 60, 100])
@pytest.mark.parametrize("name", ODD_NAMES)
def test_no_line_is_wider_than_the_pane(dfa, width, name):
    row = replace(
        dfa, key=name, report=replace(dfa.report, method_name=name, notes=f"{name} {name}")
    )
    shown = text(row, width)
    assert [
        line for line in shown.split("\n") if width_of(line) > width
    ] == [] and shown.splitlines()[0][-5:] == "✗ab-d"


@pytest.mark.parametrize(
    ("width", "first"),
    [
        (70, "needs walk-back: a, b, d fire"),
        (48, "needs walk-back ─"),
        (31, "CREDIT_BRIDGE  seed 42"),
        (25, "CREDIT_BRIDGE s42 ─"),
        (17, "CREDIT… s42"),
    ],
)
def test_name_and_verdict_in_words_give_way_to_the_cell_which_is_never_cut(dfa, width, first):
    row = replace(dfa, report=replace(dfa.report, method_name="CREDIT_BRIDGE"))
    line = text(row, width).splitlines()[0]
    assert first in line and line.endswith(" ✗ab-d") and len(line) == width
    assert "needs walk-back" in text(row, width)


def test_where_the_growth_has_no_room_both_norms_are_whole(dfa):
    shown = text(dfa, 25)
    assert " l  ‖h‖      ‖g‖\n" in shown and " 1  7.32e7   4.19e-9\n" in shown


@pytest.mark.parametrize("width", [0, 1, 7])
def test_a_pane_too_small_to_read_is_drawn_all_the_same(dfa, width):
    assert text(dfa, width) == text(dfa, 16)


@pytest.mark.parametrize("width", [25, 40, 62, 78])
def test_each_diagnostic_has_one_line_at_any_width(dfa, width):
    shown = [line[:3] for line in text(replace(dfa, axes={"arch": "x" * 50}), width).splitlines()]
    assert shown[2:6] == ["✗ a", "✗ b", "✓ c", "✗ d"], "below the name and the headings"
    assert "2043×" in text(dfa, width)


def test_an_interval_that_has_no_column_stands_below():
    report = DiagnosticReport(residual_norms=[1.0, 45.0], intervals={"growth": (40.0, 55.0)})
    assert re.search("45× +> 50× +1.11× below +40 to 55", text(run(report), 78))
    assert "a: most in block 0→1; 95 % interval 40 to 55" in text(run(report), 44)


def test_at_eighty_columns_diagnostics_and_both_sparklines_take_seven_lines(dfa):
    seventh = text(dfa, 78).splitlines()[6]
    assert "stream ‖h‖ ▁" in seventh and "gradient ‖g‖ █" in seventh


def test_a_long_path_shows_its_end():
    row = row_of("m", "/a" * 80 + "/audit.json")
    (line,) = [line for line in text(row, 40).splitlines() if line.startswith("source")]
    assert line.endswith("/a/audit.json") and "…" in line and len(line) == 40


def test_ascii_is_ascii(dfa):
    assert text(dfa, glyphs=ASCII).isascii()
    assert text(run(FIRM, checkpoint="/runs/x"), glyphs=ASCII).isascii()


async def test_the_pane_scrolls_and_starts_at_the_top_for_the_next_run(dfa):
    pane = DetailPane()
    async with Stage(pane).run_test(size=(60, 10)) as pilot:
        assert "no run selected" in pane.render_line(0).text
        pane.show(Session([dfa]), 0)
        await pilot.pause()
        pane.focus()
        await pilot.press("down", "j")
        await until(pilot, lambda: pane.scroll_offset.y == 2)
        await pilot.press("G")
        await until(pilot, lambda: pane.is_vertical_scroll_end)
        assert pane.render_line(9).text.strip()
        pane.show(Session([run(dfa.report)]), 0)
        await pilot.pause()
        assert pane.scroll_offset.y == 0
        assert pane.render_line(0).text.startswith("DFA")
