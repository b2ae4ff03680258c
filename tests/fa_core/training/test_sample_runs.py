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
from fa_core.report import DiagnosticReport
from fa_core.runs import AUDIT, RESUME, TRACE, read_manifest
from fa_core.train import Moment, RunPlan, audit_run, train_run

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


def test_every_planned_run_is_there_and_finished(sample_runs: Path, plans: dict[str, RunPlan]) -> None:
    for name, plan in plans.items():
        manifest = read_manifest(sample_runs / name)
        assert (manifest.method, manifest.seed, manifest.data) == (plan.method, plan.seed, plan.data), name
        assert manifest.stopped is None
        assert manifest.epochs_done == manifest.recipe["epochs"]
        trace = sample_runs / name / TRACE
        assert (len(trace.read_text().splitlines()) if trace.exists() else 0) == manifest.epochs_done
        assert not (sample_runs / name / RESUME).exists()


def test_the_main_set_has_one_recipe_for_all_methods(sample_runs: Path, plans: dict[str, RunPlan]) -> None:
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

    def after_one_epoch(moment: Moment) -> None:
        if moment.entry is not None:
            raise Enough

    with pytest.raises(Enough):
        train_run(plans[f"main/{method}_s42"], task, tmp_path, on_moment=after_one_epoch)
    again = json.loads((tmp_path / TRACE).read_text())
    recorded = json.loads((sample_runs / "main" / f"{method}_s42" / TRACE).read_text().splitlines()[0])
    assert again["loss"] == pytest.approx(recorded["loss"], rel=1e-3)
    for name in ("residual_norms", "bp_grad_norms"):
        assert again[name] == pytest.approx(recorded[name], rel=2e-2)
    assert again["test_acc"] == pytest.approx(recorded["test_acc"], abs=5e-3)


@pytest.mark.parametrize("name", ["bp_s42", "dfa_s42", "fa_s42", "credit_bridge_s123"])
def test_an_audit_made_again_gives_the_recorded_numbers(
    sample_runs: Path, task: DataSet, tmp_path: Path, name: str
) -> None:
    copy = tmp_path / name
    shutil.copytree(sample_runs / "main" / name, copy)
    held = Evaluation(task.test_x, task.test_y, eval_batches(task), task.hash)
    again, recorded = audit_run(copy, torch.device("cpu"), held), report_of(sample_runs / "main" / name)
    assert again.residual_norms == pytest.approx(recorded.residual_norms, rel=1e-4)
    assert again.bp_grad_norms == pytest.approx(recorded.bp_grad_norms, rel=1e-4)
    assert again.cross_batch_stability == pytest.approx(recorded.cross_batch_stability, rel=1e-4, abs=1e-5)
    assert again.headline_acc == pytest.approx(recorded.headline_acc, abs=2e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_dfa_explodes_and_backprop_and_ep_are_trustworthy(sample_runs: Path, seed: int) -> None:
    bp, ep, dfa = (main_report(sample_runs, method, seed) for method in ("bp", "ep", "dfa"))
    assert dfa.flags >= {"a", "d"}
    assert dfa.g_L < bp.g_L / 100
    for report in (bp, ep):
        assert (report.verdict, report.coverage) == ("trustworthy", "abcd")


def test_credit_bridge_as_published_is_walked_back_on_every_seed_and_explodes_on_some(sample_runs: Path) -> None:
    reports = [main_report(sample_runs, "credit_bridge", seed) for seed in SEEDS]
    assert all("d" in report.flags for report in reports)
    assert any("a" in report.flags for report in reports)


def test_penalty_and_a_missing_terminal_norm_each_prevent_the_collapse(sample_runs: Path) -> None:
    growth = {
        name: report_of(sample_runs / "controls" / name).max_per_block_growth
        for name in ("dfa_input128_s42", "dfa_input128_lam0.01_s42", "dfa_input128_ln-none_s42")
    }
    collapsed, penalised, bare = growth.values()
    assert collapsed > 50 > max(penalised, bare)


def test_the_floor_is_reached_by_cancellation_and_by_convergence(sample_runs: Path) -> None:
    cancelled = report_of(sample_runs / "floor" / "dfa_lr0.01_s42")
    converged = report_of(sample_runs / "floor" / "bp_data-digits_s42")
    assert {"a", "b"} <= cancelled.flags
    assert "b" in converged.flags and "a" not in converged.flags
    assert cancelled.error_norm > 0.1 > 1e-2 > converged.error_norm


def test_the_readme_tells_what_the_audits_say(sample_runs: Path) -> None:
    assert load_script(sample_runs / "readme.py").text() == (sample_runs / "README.md").read_text(encoding="utf-8")


def test_the_sample_runs_stay_small(sample_runs: Path) -> None:
    assert sum(path.stat().st_size for path in sample_runs.rglob("*") if path.is_file()) < 25e6
