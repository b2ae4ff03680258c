"""Partial audits: bounds on growth, and what they rest on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.seeds import over_seeds
from fa_core.formats import load_audits, scan
from fa_core.report import DiagnosticReport
from fa_core.trace import with_growth_bound
from tests.fa_core.strategies import assuming


def penalty_log(folder: Path, lam: float, seed: int, acc: float) -> None:
    """A log as published: ‖h_L‖ and ‖g_2‖ per epoch only."""
    log = [
        {"epoch": e, "h_L_norm": 3.56e4, "g_2_norm": 1e-4, "test_acc": acc} for e in range(1, 31)
    ]
    text = json.dumps({"lam": lam, "seed": seed, "final_test_acc": acc, "log": log})
    (folder / f"dfa_pen_lam{lam}_s{seed}.json").write_text(text)


def test_the_published_penalty_case_comes_out(tmp_path: Path) -> None:
    """(a) undecided by the bound of about 8x, (b) passes by proxy, (c) unmeasured, (d) fires."""
    for seed, margin in ((42, 1.35), (123, 1.4), (456, 1.45)):
        penalty_log(tmp_path, 0.01, seed, 0.349 + margin / 100)
    reports = []
    for row in scan([tmp_path]).rows:
        bounded = with_growth_bound(row.report, h_0=8.7, depth=4)
        reports.append(bounded.with_frozen_baseline(0.349))
    assert len(reports) == 3
    for report in reports:
        assert report.max_per_block_growth == pytest.approx(8.0, abs=0.1)
        assert report.kinds == {"a": "bound", "b": "proxy"}
        assert (report.flags, report.undecided) == ({"d"}, {"a"})
        assert "c" not in report.coverage


def test_penalty_logs_group_by_lambda(tmp_path: Path) -> None:
    for lam, acc in ((0.01, 0.3629), (0.001, 0.3721)):
        for seed in (42, 123):
            penalty_log(tmp_path, lam, seed, acc)
    analysis = over_seeds(assuming(load_audits([tmp_path]), 0.349))
    verdicts = {group.axes["lam"]: (group.fired["d"], group.verdict) for group in analysis.groups}
    assert verdicts == {0.01: (2, "walk-back"), 0.001: (0, "trustworthy")}


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=8))
def test_the_bound_never_exceeds_the_growth_it_stands_for(norms: list[float]) -> None:
    full = DiagnosticReport(residual_norms=norms)
    bounded = with_growth_bound(
        DiagnosticReport(residual_norms=norms[-1:]), norms[0], len(norms) - 1
    )
    growth, bound = full.max_per_block_growth, bounded.max_per_block_growth
    assert growth is not None and bound is not None
    assert bound <= growth * (1 + 1e-12)


def test_a_bound_above_the_limit_proves_the_fire() -> None:
    report = with_growth_bound(DiagnosticReport(residual_norms=[1e8]), 1.0, 4)
    assert report.max_per_block_growth == pytest.approx(100.0)
    assert report.flags == {"a"}


def test_norms_of_every_layer_are_not_replaced_by_a_bound() -> None:
    report = DiagnosticReport(residual_norms=[1.0, 2.0, 4.0])
    assert with_growth_bound(report, 1.0, 2) is report


@pytest.mark.parametrize(("h_0", "depth"), [(0.0, 4), (math.nan, 4), (1.0, 0)])
def test_a_bound_from_impossible_inputs_is_refused(h_0: float, depth: int) -> None:
    with pytest.raises(ValueError, match="bound needs"):
        with_growth_bound(DiagnosticReport(residual_norms=[1.0]), h_0, depth)


def test_a_norm_of_an_earlier_layer_is_bounded_over_the_blocks_below_it() -> None:
    report = DiagnosticReport(residual_norms=[8.0], layers={"residual_norms": "3"})
    assert with_growth_bound(report, 1.0, 12).growth_bound == pytest.approx(2.0)
    last = DiagnosticReport(residual_norms=[16.0], layers={"residual_norms": "L"})
    assert with_growth_bound(last, 1.0, 4).growth_bound == pytest.approx(2.0)
