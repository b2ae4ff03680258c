"""The sample runs: they are what their manifests say, and making one again gives the same."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import torch

from fa_core.data import DataSet, eval_batches, load_data
from fa_core.engine.loading import Evaluation
from fa_core.facts.manifest import AUDIT, RESUME, TRACE, WEIGHTS, read_manifest
from fa_core.formats.scan import Scan, scan
from fa_core.judgement.gamma import deep_gamma
from fa_core.report import DiagnosticReport
from fa_core.training.plan import RunPlan
from fa_core.training.train import EpochProgress, audit_run, train_run

SEEDS = (42, 123, 456)


def load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plans(sample_runs: Path) -> dict[str, RunPlan]:
    groups = load_script(sample_runs / "make.py").GROUPS
    return {f"{group}/{plan.name}": plan for group, plans in groups.items() for plan in plans()}


@pytest.fixture(scope="module")
def task() -> DataSet:
    return load_data("synthetic:alpha=1.0,input=16")


def report_of(folder: Path) -> DiagnosticReport:
    return DiagnosticReport.from_dict(json.loads((folder / AUDIT).read_text()))


def main_report(sample_runs: Path, method: str, seed: int) -> DiagnosticReport:
    return report_of(sample_runs / "main" / f"{method}_s{seed}")


def wide_report(sample_runs: Path, kind: str, seed: int) -> DiagnosticReport:
    return report_of(sample_runs / "wide" / f"{kind}_s{seed}")


def growths(folder: Path) -> list[float | None]:
    """Growth at every epoch of a trace."""
    lines = map(json.loads, (folder / TRACE).read_text().splitlines())
    return [
        DiagnosticReport(residual_norms=line["residual_norms"]).max_per_block_growth
        for line in lines
    ]


def above_null(report: DiagnosticReport) -> float:
    """Deep Γ less its null, in standard deviations of the null."""
    null = report.credit["null"]
    return (report.credit["deep_gamma"] - null["deep_gamma_mean"]) / null["deep_gamma_std"]


def test_every_planned_run_is_there_and_finished(
    sample_runs: Path, plans: dict[str, RunPlan]
) -> None:
    in_folders = {name: plan for name, plan in plans.items() if not name.startswith("atlas/")}
    assert {str(path.parent.relative_to(sample_runs)) for path in sample_runs.rglob(AUDIT)} == set(
        in_folders
    )
    for name, plan in in_folders.items():
        manifest = read_manifest(sample_runs / name)
        assert (manifest.method, manifest.seed, manifest.data) == (
            plan.method,
            plan.seed,
            plan.data,
        ), name
        assert manifest.stopped is None
        assert manifest.epochs_done == manifest.recipe["epochs"]
        trace = sample_runs / name / TRACE
        assert (
            len(trace.read_text().splitlines()) if trace.exists() else 0
        ) == manifest.epochs_done
        assert not (sample_runs / name / RESUME).exists()


def test_the_main_set_has_one_recipe_for_all_methods(
    sample_runs: Path, plans: dict[str, RunPlan]
) -> None:
    manifests = [read_manifest(sample_runs / name) for name in plans if name.startswith("main/")]
    trained = [manifest for manifest in manifests if manifest.method != "random_init"]
    assert all(manifest.recipe == trained[0].recipe for manifest in trained)
    assert all(manifest.arch_args == trained[0].arch_args for manifest in manifests)


@pytest.mark.parametrize("method", ["frozen", "dfa"])
def test_the_first_epoch_made_again_agrees(
    sample_runs: Path, plans: dict[str, RunPlan], task: DataSet, tmp_path: Path, method: str
) -> None:
    class Enough(Exception):
        pass

    def after_one_epoch(progress: EpochProgress) -> None:
        if progress.entry is not None:
            raise Enough

    with pytest.raises(Enough):
        train_run(plans[f"main/{method}_s42"], task, tmp_path, on_progress=after_one_epoch)
    again = json.loads((tmp_path / TRACE).read_text())
    recorded = json.loads(
        (sample_runs / "main" / f"{method}_s42" / TRACE).read_text().splitlines()[0]
    )
    assert again["loss"] == pytest.approx(recorded["loss"], rel=1e-3)
    for name in ("residual_norms", "bp_grad_norms"):
        assert again[name] == pytest.approx(recorded[name], rel=2e-2)
    assert again["test_acc"] == pytest.approx(recorded["test_acc"], abs=5e-3)


@pytest.mark.parametrize(
    "name",
    ["main/bp_s42", "main/dfa_s42", "main/fa_s42", "main/credit_bridge_s123", "wide/dfa_s42"],
)
def test_an_audit_made_again_gives_the_recorded_numbers(
    sample_runs: Path, plans: dict[str, RunPlan], tmp_path: Path, name: str
) -> None:
    copy, task = tmp_path / name, load_data(plans[name].data)
    shutil.copytree(sample_runs / name, copy)
    held = Evaluation(task.test_x, task.test_y, eval_batches(task), task.hash)
    again, recorded = audit_run(copy, torch.device("cpu"), held), report_of(sample_runs / name)
    assert again.residual_norms == pytest.approx(recorded.residual_norms, rel=1e-4)
    assert again.bp_grad_norms == pytest.approx(recorded.bp_grad_norms, rel=1e-4)
    assert again.cross_batch_stability == pytest.approx(
        recorded.cross_batch_stability, rel=1e-4, abs=1e-5
    )
    assert again.headline_acc == pytest.approx(recorded.headline_acc, abs=2e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_dfa_explodes_and_backprop_and_ep_are_trustworthy(sample_runs: Path, seed: int) -> None:
    bp, ep, dfa = (main_report(sample_runs, method, seed) for method in ("bp", "ep", "dfa"))
    assert dfa.flags >= {"a", "d"}
    assert dfa.g_L < bp.g_L / 100
    for report in (bp, ep):
        assert (report.verdict, report.coverage) == ("trustworthy", "abcd")
    assert min(ep.credit["gamma"]) > 0.99


@pytest.mark.parametrize("seed", SEEDS)
def test_fa_explodes_more_than_dfa_in_the_main_set(sample_runs: Path, seed: int) -> None:
    fa, dfa = (main_report(sample_runs, method, seed) for method in ("fa", "dfa"))
    assert fa.max_per_block_growth > dfa.max_per_block_growth
    assert fa.g_L < dfa.g_L and fa.headline_acc < dfa.headline_acc


def test_credit_bridge_as_published_is_walked_back_on_every_seed_and_explodes_on_some(
    sample_runs: Path,
) -> None:
    reports = {seed: main_report(sample_runs, "credit_bridge", seed) for seed in SEEDS}
    assert all("d" in report.flags and report.headline_acc < 0.16 for report in reports.values())
    assert [seed for seed, report in reports.items() if "a" in report.flags] == [42, 456]
    wide = {seed: wide_report(sample_runs, "credit_bridge", seed) for seed in SEEDS}
    assert {seed: "".join(sorted(report.flags)) for seed, report in wide.items()} == {
        42: "abd",
        123: "d",
        456: "ad",
    }
    assert all(report.headline_acc == pytest.approx(0.1425, abs=5e-4) for report in wide.values())


@pytest.mark.parametrize(("group", "highest"), [("main", 1.4), ("wide", 1.1)])
def test_state_bridge_stays_healthy_at_every_epoch(
    sample_runs: Path, group: str, highest: float
) -> None:
    for seed in SEEDS:
        folder = sample_runs / group / f"state_bridge_s{seed}"
        assert report_of(folder).verdict == "trustworthy"
        assert max(growths(folder)) < highest


def test_an_untrained_net_fires_c_alone(sample_runs: Path) -> None:
    folders = sorted(sample_runs.glob("*/random_init_*"))
    assert len(folders) == 7
    assert all(report_of(folder).flags == {"c"} for folder in folders)


def test_frozen_blocks_come_out_alike_by_whichever_rule(sample_runs: Path) -> None:
    found = [report_of(folder).headline_acc for folder in sorted(sample_runs.glob("main/frozen_*"))]
    assert len(found) == 18 and max(found) - min(found) < 0.01
    assert all(
        main_report(sample_runs, "bp", seed).headline_acc - max(found) > 0.07 for seed in SEEDS
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_wide_set_has_the_published_regime(sample_runs: Path, seed: int) -> None:
    bp, ep, dfa, fa = (wide_report(sample_runs, kind, seed) for kind in ("bp", "ep", "dfa", "fa"))
    assert bp.verdict == ep.verdict == "trustworthy"
    for collapsed in (dfa, fa):
        assert collapsed.flags == {"a", "b", "d"} and not collapsed.undecided
        assert -13 < collapsed.margin_pp < -3.5
    between = [dfa.max_per_block_growth > fa.max_per_block_growth, dfa.g_L < fa.g_L]
    assert between == ([False, False] if seed == 456 else [True, True])
    assert (fa.headline_acc > dfa.headline_acc) == (seed == 42)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["dfa_lam0.001", "dfa_lam0.01", "dfa_ln-none"])
def test_penalty_and_a_missing_norm_rescue_the_scale_and_not_the_depth(
    sample_runs: Path, kind: str, seed: int
) -> None:
    report = wide_report(sample_runs, kind, seed)
    assert report.flags == {"d"} and "d" not in report.undecided
    assert report.max_per_block_growth < 1.1 and abs(report.margin_pp) < 1


@pytest.mark.parametrize("seed", SEEDS)
def test_studentnet_explodes_and_keeps_its_gradient(sample_runs: Path, seed: int) -> None:
    report = wide_report(sample_runs, "dfa_arch-studentnet", seed)
    assert report.flags == {"a", "d"} and "b" in report.undecided
    assert report.h_L > 1e14 and report.g_L > 5e-3
    assert report.error_norm == pytest.approx(2**0.5)
    assert all(0.4 < share < 0.5 for share in report.credit["zeros"])


@pytest.mark.parametrize("seed", SEEDS)
def test_ep_in_float32_loses_its_credit_and_fires_d_alone(sample_runs: Path, seed: int) -> None:
    lost, kept = (wide_report(sample_runs, kind, seed) for kind in ("ep_arithmetic-float32", "ep"))
    assert lost.flags == {"d"} and not lost.undecided
    assert min(lost.credit["zeros"]) > 0.95 and set(kept.credit["zeros"]) == {0.0}
    assert all(gamma is None or gamma < 0.6 for gamma in lost.credit["gamma"])
    assert kept.headline_acc - lost.headline_acc > 0.1 and lost.margin_pp < -4
    assert lost.provenance["frozen_baseline_from"] == f"frozen_arithmetic-float32_of-ep_s{seed}"


def test_deep_gamma_of_dfa_is_above_that_of_fa_until_the_free_layer_counts(
    sample_runs: Path,
) -> None:
    for group, end in [("main", f"s{seed}") for seed in SEEDS] + [("controls", "input128_s42")]:
        fa, dfa = (
            report_of(sample_runs / group / f"{rule}_{end}").credit for rule in ("fa", "dfa")
        )
        assert fa["deep_gamma"] < dfa["deep_gamma"] < fa["deep_gamma_with_free"]
    for seed in SEEDS:
        fa, dfa = (wide_report(sample_runs, rule, seed) for rule in ("fa", "dfa"))
        assert min(above_null(fa), above_null(dfa)) > 3
        assert max(*fa.credit["gamma"][2:4], *dfa.credit["gamma"][2:]) < 0.11


def test_gamma_rises_with_one_penalty_and_not_with_the_other(sample_runs: Path) -> None:
    for seed in SEEDS:
        without, mild, strong = (
            wide_report(sample_runs, kind, seed).credit
            for kind in ("dfa", "dfa_lam0.001", "dfa_lam0.01")
        )
        assert max(map(abs, without["gamma"][2:])) < 0.08 < 0.13 < min(mild["gamma"][2:])
        assert max(strong["gamma"][2:]) < 0.1
        assert strong["deep_gamma"] < without["deep_gamma"] + 0.005
    assert above_null(wide_report(sample_runs, "dfa_lam0.01", 456)) < 2
    collapsed, penalised = (
        report_of(sample_runs / "controls" / f"dfa_input128_{end}").credit["gamma"][2:]
        for end in ("s42", "lam0.01_s42")
    )
    assert max(collapsed) < 0.14 < 0.22 < min(penalised)


def test_most_of_what_is_undecided_is_drift(sample_runs: Path) -> None:
    audits = (path.parent for path in sample_runs.rglob(AUDIT))
    found = {folder.relative_to(sample_runs): report_of(folder) for folder in audits}
    others = {
        str(place): report.undecided - {"c"}
        for place, report in found.items()
        if report.undecided - {"c"}
    }
    students = {f"wide/dfa_arch-studentnet_s{seed}": {"b"} for seed in SEEDS}
    assert others == students | {"main/dfa_s456": {"a"}}


def test_penalty_and_a_missing_terminal_norm_each_prevent_the_collapse(sample_runs: Path) -> None:
    growth = {
        name: report_of(sample_runs / "controls" / name).max_per_block_growth
        for name in ("dfa_input128_s42", "dfa_input128_lam0.01_s42", "dfa_input128_ln-none_s42")
    }
    collapsed, penalised, bare = growth.values()
    assert collapsed > 50 > max(penalised, bare)
    assert report_of(sample_runs / "controls" / "fa_input128_s42").max_per_block_growth > 50
    assert "d" in report_of(sample_runs / "controls" / "bp_input128_s42").flags


def test_the_floor_is_reached_by_cancellation_and_by_convergence(sample_runs: Path) -> None:
    cancelled = report_of(sample_runs / "floor" / "dfa_lr0.01_s42")
    converged = report_of(sample_runs / "floor" / "bp_data-digits_s42")
    assert {"a", "b"} <= cancelled.flags
    assert "b" in converged.flags and "a" not in converged.flags
    assert cancelled.error_norm > 0.1 > 1e-2 > converged.error_norm


def test_the_pages_say_what_the_audits_say(sample_runs: Path) -> None:
    script = load_script(sample_runs / "readme.py")
    assert script.readme() == (sample_runs / "README.md").read_text(encoding="utf-8")
    assert script.atlas() == (sample_runs.parent / "docs" / "atlas.md").read_text(encoding="utf-8")


def test_the_sample_runs_stay_small(sample_runs: Path, plans: dict[str, RunPlan]) -> None:
    sizes = {
        path.relative_to(sample_runs): path.stat().st_size
        for path in sample_runs.rglob("*")
        if path.is_file()
    }
    atlas = sum(size for path, size in sizes.items() if path.parts[0] == "atlas")
    assert atlas < 12e6 and sum(sizes.values()) - atlas < 20e6
    kept = {name for name in plans if (sample_runs / name / WEIGHTS).exists()}
    keeps = load_script(sample_runs / "make.py").keeps_weights
    assert kept == {name for name, plan in plans.items() if keeps(name.partition("/")[0], plan)}


@pytest.fixture(scope="module")
def atlas(sample_runs: Path) -> Scan:
    return scan([sample_runs / "atlas"])


def test_every_planned_run_of_the_atlas_is_in_its_table_with_its_own_trace(
    atlas: Scan, plans: dict[str, RunPlan]
) -> None:
    planned = {
        name.removeprefix("atlas/"): plan
        for name, plan in plans.items()
        if name.startswith("atlas/")
    }
    assert not atlas.problems
    assert {row.key: (row.method, row.seed, row.axes) for row in atlas.rows} == {
        name: (plan.method, plan.seed, plan.axes) for name, plan in planned.items()
    }
    epochs = {trace.key: len(trace.epochs) for trace in atlas.traces}
    trained = {name: plan for name, plan in planned.items() if plan.method != "random_init"}
    assert epochs == {name: plan.recipe.epochs for name, plan in trained.items()}


def test_runs_are_gathered_into_the_table_beside_those_that_are_there(
    sample_runs: Path, tmp_path: Path
) -> None:
    gather = load_script(sample_runs / "make.py").gather
    for seeds in ([42, 123], [123]):
        for seed in seeds:
            shutil.copytree(sample_runs / "main" / f"bp_s{seed}", tmp_path / f"bp_s{seed}")
        gather(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audits.json", "traces.jsonl"]
    found = scan([tmp_path])
    assert [row.key for row in found.rows] == ["bp_s42", "bp_s123"]
    assert [row.report.numbers for row in found.rows] == [
        main_report(sample_runs, "bp", seed).numbers for seed in (42, 123)
    ]
    assert [len(trace.epochs) for trace in found.traces] == [12, 12]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_atlas_has_healthy_methods_without_backprop_and_walked_back_ones(
    atlas: Scan, seed: int
) -> None:
    reports = {row.key: row.report for row in atlas.rows}

    def flags(method: str, arch: str) -> frozenset[str]:
        return reports[f"{method}_arch-{arch}_s{seed}"].flags

    for method in ("bp", "dfa", "fa_weights", "usf", "kp", "weight_mirror", "dtp", "local_loss"):
        assert not flags(method, "small_resnet")
    assert not flags("bp", "vit_mini")
    assert {"a", "d"} <= flags("dfa", "vit_mini") & flags("fa", "vit_mini")


@pytest.mark.parametrize("seed", SEEDS)
def test_digits_need_no_depth_and_show_the_same_explosion(atlas: Scan, seed: int) -> None:
    reports = {row.key: row.report for row in atlas.rows}
    bp, dfa = reports[f"bp_data-digits_s{seed}"], reports[f"dfa_data-digits_s{seed}"]
    assert bp.flags == {"d"}
    assert dfa.max_per_block_growth > 10 * bp.max_per_block_growth
    assert dfa.headline_acc < bp.headline_acc


@pytest.mark.parametrize("seed", SEEDS)
def test_learned_feedback_aligns_over_epochs_and_fixed_feedback_stays_apart(
    atlas: Scan, seed: int
) -> None:
    traces = {trace.key: trace for trace in atlas.traces}

    def ends(method: str) -> list[float]:
        epochs = traces[f"{method}_arch-small_resnet_s{seed}"].epochs
        return [deep_gamma({"gamma": epochs[at].gamma}, method) for at in (0, -1)]

    assert all(
        first < last for first, last in map(ends, ("kp", "weight_mirror", "fa_weights", "dfa"))
    )
    assert ends("dfa")[1] < ends("fa_weights")[1] < ends("kp")[1] < ends("weight_mirror")[1]
