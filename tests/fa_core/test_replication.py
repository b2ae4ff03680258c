"""What agrees with a published figure, by hand-made runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fa_core.formats import Scan, Trace, TraceEpoch, scan
from fa_core.replication import Claim, Compared, Experiment, compared, experiments
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.options import sample_runs


def one(published: list[Any], rows: list[AuditRow], traces: list[Trace] | None = None) -> Compared:
    chosen = Experiment(name="x", title="x", folder="x", steps=[], published=[published])
    (found,) = compared(chosen, Scan(rows, traces or []))
    return found


def row(seed: int, method: str = "dfa", axes: dict[str, Any] | None = None, **numbers: Any) -> AuditRow:
    report = DiagnosticReport(method_name=method, **numbers)
    return AuditRow(source="x", key=f"{method}_s{seed}", method=method, seed=seed, axes=axes or {}, report=report)


def test_an_accuracy_agrees_within_its_band_or_three_published_deviations() -> None:
    rows = [row(1, headline_acc=0.30), row(2, headline_acc=0.32)]
    found = one(["dfa", "acc", 0.335], rows)
    assert found.here == pytest.approx((0.31, math.sqrt(2) * 0.01)) and found.agrees
    assert one(["dfa", "acc", 0.345], rows).agrees is False
    assert one(["dfa", "acc", 0.345, 0.02], rows).agrees is True


def test_three_figures_are_those_of_the_seeds() -> None:
    found = one(["fa", "acc", 0.347, 0.346, 0.341], [])
    assert found.published == pytest.approx((1.034 / 3, 0.00321455)) and found.agrees is None


def test_a_norm_agrees_within_a_factor_of_its_geometric_mean() -> None:
    rows = [row(1, residual_norms=[1.0, 1e7]), row(2, residual_norms=[1.0, 1e9])]
    found = one(["dfa", "h_L", 5e8], rows)
    assert found.here[0] == pytest.approx(1e8) and found.agrees
    assert one(["dfa", "h_L", 2e9], rows).agrees is False


def test_runs_are_chosen_by_method_and_every_axis() -> None:
    rows = [row(1, axes={"lam": 0.01}, headline_acc=0.5), row(1, headline_acc=0.1), row(1, "frozen", headline_acc=0.9)]
    assert one(["dfa lam=0.01", "acc", 0.5], rows).here == (0.5,)
    assert one(["dfa", "acc", 0.5], rows).here == (0.1,)


def test_letters_are_compared_where_they_were_published() -> None:
    rows = [row(1, residual_norms=[1.0, 100.0], bp_grad_norms=[1.0, 1.0], headline_acc=0.1, frozen_baseline_acc=0.5)]
    assert one(["dfa", "fires", "a", "ab"], rows).agrees is True
    assert one(["dfa", "fires", "a", "abd"], rows).agrees is False
    assert one(["dfa", "fires", "", "b"], rows).agrees is True


def test_epochs_are_compared_seed_by_seed_and_never_is_no_epoch() -> None:
    def trace(seed: int, at: int) -> Trace:
        norms = [[1.0, 1e3 if epoch >= at else 1.0] for epoch in range(1, 13)]
        epochs = [TraceEpoch(epoch=i, residual_norms=h, bp_grad_norms=[1.0, 1.0]) for i, h in enumerate(norms, 1)]
        return Trace(source=f"t{seed}", key=f"dfa_s{seed}", method="dfa", seed=seed, axes={}, epochs=epochs)

    found = one(["dfa", "first_a", 8, 11, 8], [], [trace(456, 9), trace(42, 6), trace(123, 12)])
    assert found.here == (6, 12, 9) and found.agrees
    assert one(["dfa", "first_a", 8, 11, 0], [], [trace(42, 8), trace(123, 11), trace(456, 9)]).agrees is False
    assert one(["dfa", "first_b", 0, 0, 0], [], [trace(42, 8)]).agrees is True


@pytest.mark.parametrize("chosen", [one for one in experiments() if one.table], ids=lambda chosen: chosen.name)
def test_a_published_audit_agrees_with_itself(chosen: Experiment) -> None:
    published = scan([sample_runs() / chosen.table])
    found = compared(chosen, published, published)
    assert found and all(figure.agrees and figure.published == figure.here for figure in found)


def test_the_page_of_the_experiments_holds_every_command_and_figure() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cifar.md").read_text(encoding="utf-8")
    for chosen in experiments():
        assert f"## {chosen.title}\n" in page
        for command in chosen.commands("DIR", "DIR", "replication"):
            assert f"    fa-tui {' '.join(command)}\n" in page
        assert all(f"| {figure[0]} | {figure[1]} |" in page for figure in chosen.published)


def test_a_claim_agrees_to_the_digits_that_are_published() -> None:
    assert Claim("", "", "", 63.357).agrees(63.35724) and not Claim("", "", "", 63.357).agrees(63.358)
    assert Claim("", "", "", 5).agrees(5) and not Claim("", "", "", 5).agrees(6)
    assert Claim("", "", "", 0).agrees(0) and not Claim("", "", "", 0).agrees(1)
