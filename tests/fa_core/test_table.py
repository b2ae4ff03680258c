from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core import load_audits
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, letters_of
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem
from fa_core.table import AuditTable
from tests.fa_core.strategies import assuming, reports, thresholds


def row(method: str = "bp", seed: int | None = 1, **fields: object) -> AuditRow:
    report = DiagnosticReport(**fields)  # type: ignore[arg-type]  # by name
    return AuditRow(source="here", key=f"{method}_s{seed}", method=method, seed=seed, report=report)


def table_of(measured: list[DiagnosticReport]) -> AuditTable:
    return AuditTable.from_rows(
        [AuditRow(source="", key=str(i), method="bp", report=r) for i, r in enumerate(measured)]
    )


def kinds_of(evidence: dict[str, str], assumed: bool) -> DiagnosticReport:
    return DiagnosticReport(
        headline_acc=0.5, evidence=evidence, assumed_baseline_acc=0.3 if assumed else None
    )


@pytest.fixture(scope="module")
def resmlp(published_table: Path) -> AuditTable:
    return load_audits(published_table)


@pytest.fixture(scope="module")
def cnn(published_cnn: Path) -> AuditTable:
    return load_audits(published_cnn)


@given(st.lists(reports(nonfinite=True), max_size=6), thresholds())
def test_vectorised_flags_equal_those_of_each_report(
    measured: list[DiagnosticReport], limits: DiagnosticThresholds
) -> None:
    table = AuditTable.from_rows(
        [AuditRow(source="", key=str(i), method="bp", report=r) for i, r in enumerate(measured)]
    )
    judged = [r.with_thresholds(limits) for r in measured]
    assert [letters_of(mask) for mask in table.flags(limits)] == [
        "".join(sorted(r.flags)) for r in judged
    ]
    assert [letters_of(mask) for mask in table.coverage] == [r.coverage for r in judged]
    assert [letters_of(mask) for mask in table.nonfinite] == [
        "".join(sorted(r.nonfinite)) for r in judged
    ]
    assert table.verdicts(limits) == [r.verdict for r in judged]
    assert [letters_of(mask) for mask in table.undecided(limits)] == [
        "".join(sorted(r.undecided)) for r in judged
    ]


def test_a_stream_that_is_0_is_undecided_and_one_that_begins_at_0_fires() -> None:
    measured = [
        DiagnosticReport(residual_norms=norms)
        for norms in ([3.0, 0.0, 0.0], [0.0, 1.0], [3.0, 2.0])
    ]
    assert [letters_of(mask) for mask in table_of(measured).undecided()] == ["a", "", ""]
    assert ["".join(report.undecided) for report in measured] == ["a", "", ""]
    assert [letters_of(mask) for mask in table_of(measured).flags()] == ["", "a", ""]
    assert "‖h_1‖ is 0" in measured[0].describe()[0]


@given(st.lists(reports(nonfinite=True), min_size=1, max_size=6), thresholds(), st.floats(0, 1))
def test_vectorised_undecided_equals_that_of_each_report_against_an_assumed_baseline(
    measured: list[DiagnosticReport], limits: DiagnosticThresholds, baseline: float
) -> None:
    table = assuming(table_of(measured), bp=baseline)
    judged = [r.with_assumed_baseline(baseline).with_thresholds(limits) for r in measured]
    assert [letters_of(mask) for mask in table.undecided(limits)] == [
        "".join(sorted(r.undecided)) for r in judged
    ]


@given(st.lists(reports(nonfinite=True), max_size=6))
def test_columns_hold_the_numbers_of_each_report(measured: list[DiagnosticReport]) -> None:
    table = AuditTable.from_rows(
        [AuditRow(source="", key=str(i), method="bp", report=r) for i, r in enumerate(measured)]
    )
    for column, name in (
        (table.growth, "max_per_block_growth"),
        (table.g_L, "g_L"),
        (table.h_L, "h_L"),
        (table.stability, "cross_batch_stability"),
        (table.acc, "headline_acc"),
        (table.baseline, "frozen_baseline_acc"),
        (table.margin_pp, "margin_pp"),
    ):
        expected = [np.nan if (value := getattr(r, name)) is None else value for r in measured]
        np.testing.assert_array_equal(column, expected, err_msg=name)
    for index, r in enumerate(measured):
        np.testing.assert_array_equal(table.residual_norms[index], r.residual_norms)
        np.testing.assert_array_equal(table.bp_grad_norms[index], r.bp_grad_norms)


@given(st.floats(0, 1), st.floats(0, 1))
def test_margins_round_as_python_rounds(acc: float, baseline: float) -> None:
    one = row(headline_acc=acc, frozen_baseline_acc=baseline)
    assert AuditTable.from_rows([one]).margin_pp[0] == one.report.margin_pp


def test_published_verdicts_equal_the_recorded_ones(resmlp: AuditTable) -> None:
    assert resmlp.verdicts() == resmlp.recorded_verdict.tolist()
    assert resmlp.verdicts().count("trustworthy") == 6


def test_published_extremes_of_growth_and_gradient(resmlp: AuditTable) -> None:
    healthy = np.isin(resmlp.method, ["bp", "ep"])
    growth, g_L = resmlp.growth, resmlp.g_L
    assert growth[healthy].max() == pytest.approx(10.96098, abs=5e-6)
    assert growth[~healthy].min() == pytest.approx(694.45754, abs=5e-6)
    assert growth[~healthy].min() / growth[healthy].max() == pytest.approx(63.357, abs=5e-4)
    assert g_L[healthy].min() == pytest.approx(1.017407e-4, rel=1e-6)
    assert g_L[~healthy].max() == pytest.approx(4.180253e-9, rel=1e-6)
    assert g_L[healthy].min() / g_L[~healthy].max() == pytest.approx(24338, abs=0.5)


def test_published_drift_does_not_separate(resmlp: AuditTable) -> None:
    healthy = np.isin(resmlp.method, ["bp", "ep"])
    good, bad = resmlp.stability[healthy], resmlp.stability[~healthy]
    assert [round(x, 3) for x in (good.min(), good.max(), median(good))] == [-0.036, 0.120, 0.093]
    assert [round(x, 3) for x in (bad.min(), bad.max(), median(bad))] == [-0.005, 0.992, 0.352]
    assert (int((bad > 0.30).sum()), int((bad > 0.50).sum())) == (5, 3)


def test_published_baselines_fire_on_all_that_have_one(resmlp: AuditTable) -> None:
    measured = (resmlp.coverage & BIT["d"]) > 0
    assert int(measured.sum()) == 9
    assert ((resmlp.flags() & BIT["d"]) > 0)[measured].all()


def test_a_baseline_for_all_flips_every_ep_run_and_no_bp_run(resmlp: AuditTable) -> None:
    judged = assuming(resmlp, 0.349)
    ep, bp = judged.method == "ep", judged.method == "bp"
    assert judged.margin_pp[ep].tolist() == pytest.approx([1.00, -5.66, -5.14])
    assert (judged.flags()[ep] == BIT["d"]).all()
    assert (judged.flags()[bp] == 0).all()
    assert judged.report(4).verdict == judged.verdicts()[4]
    assert resmlp.verdicts()[4] == "trustworthy"


def test_published_cnn_fires_on_growth_alone(cnn: AuditTable) -> None:
    fired = {key for key, mask in zip(cnn.key, cnn.flags(), strict=True) if mask}
    assert fired == {
        f"{method}_s{seed}" for method in ("dfa", "credit_bridge") for seed in (42, 123, 456)
    }
    assert set(cnn.flags().tolist()) == {0, BIT["a"]}
    assert {letters_of(mask) for mask in cnn.coverage} == {"ab"}


def test_published_cnn_mean_growth(cnn: AuditTable) -> None:
    means = {method: float(cnn.growth[cnn.method == method].mean()) for method in cnn.methods}
    assert means == pytest.approx(
        {"bp": 1.31, "state_bridge": 2.40, "ep": 11.6, "credit_bridge": 96.4, "dfa": 237}, rel=5e-3
    )


@given(
    st.lists(
        st.builds(
            kinds_of,
            st.dictionaries(st.sampled_from("abd"), st.sampled_from(["bound", "proxy"])),
            st.booleans(),
        )
    ),
    st.data(),
)
def test_what_is_not_exact_in_some_rows_is_what_their_reports_say(
    measured: list[DiagnosticReport], data: st.DataObject
) -> None:
    table = table_of(measured)
    rows = data.draw(st.lists(st.sampled_from(range(len(measured))))) if measured else []
    said = {letter: kind for i in rows for letter, kind in measured[i].kinds.items()}
    found = table.select(np.array(rows, np.int64)).kinds
    assert list(found.items()) == list(said.items())


def test_a_default_baseline_leaves_recorded_ones_alone() -> None:
    table = AuditTable.from_rows(
        [row("bp", headline_acc=0.5, frozen_baseline_acc=0.1), row("ep", headline_acc=0.5)]
    )
    assert assuming(table, 0.49).margin_pp.tolist() == [40.0, 1.0]


def test_an_aimed_baseline_replaces_that_of_its_method() -> None:
    table = AuditTable.from_rows(
        [row("bp", headline_acc=0.5, frozen_baseline_acc=0.1), row("ep", headline_acc=0.5)]
    )
    aimed = assuming(table, bp=0.49)
    assert aimed.margin_pp[0] == 1.0
    assert np.isnan(aimed.margin_pp[1])
    assert letters_of(aimed.coverage[1]) == ""


def test_a_finite_baseline_replaces_a_broken_one() -> None:
    table = AuditTable.from_rows([row("bp", headline_acc=0.5, frozen_baseline_acc=float("nan"))])
    assert table.verdicts() != ["trustworthy"]
    assert assuming(table, bp=0.1).verdicts() == ["trustworthy"]


def test_selected_rows_keep_their_ragged_norms_and_reports() -> None:
    table = AuditTable.from_rows([row(seed=i, residual_norms=[float(i)] * i) for i in range(5)])
    for picked in (
        table.select([3, 1]),
        table.select(np.array([False, True, False, True, False])).select([1, 0]),
    ):
        assert picked.seed.tolist() == [3, 1]
        assert picked.residual_norms[0].tolist() == [3.0, 3.0, 3.0]
        assert picked.report(1).residual_norms == [1.0]
        assert picked.h_L.tolist() == [3.0, 1.0]


def test_concatenated_tables_keep_rows_problems_and_reports(
    resmlp: AuditTable, cnn: AuditTable
) -> None:
    first = AuditTable.from_rows([row("fa", residual_norms=[1.0, 2.0])], [Problem("a", "b")])
    both = AuditTable.concat([first, assuming(resmlp, 0.349), cnn])
    assert len(both) == 31
    assert both.problems == (Problem("a", "b"),)
    assert both.report(0).residual_norms == [1.0, 2.0]
    assert both.report(5) == assuming(resmlp, 0.349).report(4)
    assert both.row(16) == cnn.row(0)
    assert len(AuditTable.concat([])) == 0


def test_columns_cannot_be_written(resmlp: AuditTable) -> None:
    for column in (resmlp.growth, resmlp.coverage, resmlp.method, resmlp.residual_norms.flat):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_methods_stand_in_order_of_appearance_and_seeds_sorted(resmlp: AuditTable) -> None:
    assert resmlp.methods == ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]
    assert resmlp.seeds == [42, 123, 456]
    assert AuditTable.from_rows([row(seed=None), row(seed=3)]).seeds == [3, None]


def test_a_table_of_nothing_answers_everything() -> None:
    empty = AuditTable.from_rows([])
    assert (len(empty), empty.verdicts(), empty.methods, empty.flags().shape) == (0, [], [], (0,))
    assert len(assuming(empty, 0.3).select([])) == 0


def test_many_stored_reports_give_the_same_table_as_their_rows(
    tmp_path: Path, published_table: Path
) -> None:
    published = list(json.loads(published_table.read_text())["reports"].values())
    path = tmp_path / "many.json"
    reports_by_key = {f"m{i % 7}_s{i}": published[i % 15] for i in range(4100)}
    reports_by_key["m3_s4000"] = {**published[0], "headline_acc": 61.0}
    path.write_text(json.dumps({"reports": reports_by_key}))
    stored = load_audits(path)
    assert len(stored) == 4099
    assert len(stored.problems) == 1
    assert "m3_s4000" in stored.problems[0].message
    again = AuditTable.from_rows(stored.rows())
    assert again.key.tolist() == stored.key.tolist()
    assert again.method.tolist() == stored.method.tolist()
    assert again.recorded_verdict.tolist() == stored.recorded_verdict.tolist()
    np.testing.assert_array_equal(again.growth, stored.growth)
    np.testing.assert_array_equal(again.flags(), stored.flags())
