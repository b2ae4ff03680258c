"""The sample runs: they are what their manifests say, and making one again gives the same."""

import importlib.util
import json
import shutil

import pytest
import torch

from fa_core.audit.jobs import JobProgress
from fa_core.audit.loading import Evaluation
from fa_core.formats.scan import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, RESUME, TRACE, WEIGHTS, read_manifest
from fa_core.training.plan import Order
from fa_core.training.train import audit_run, train_run
from fa_core.zoo.data import eval_batches, load_data
from tests.json_files import json_of

SEEDS = (42, 123, 456)


def load_script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plans(sample_runs):
    groups = load_script(sample_runs / "make.py").GROUPS
    return {f"{group}/{plan.name}": plan for group, plans in groups.items() for plan in plans()}


@pytest.fixture(scope="module")
def task():
    return load_data("synthetic:alpha=1.0,input=16")


def report_of(folder):
    return DiagnosticReport.from_dict(json_of(folder / AUDIT))


def test_every_planned_run_is_there_and_finished(sample_runs, plans):
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


@pytest.mark.parametrize("method", ["frozen", "dfa"])
def test_the_first_epoch_made_again_agrees(sample_runs, plans, task, tmp_path, method):
    class Enough(Exception):
        pass

    def after_one_epoch(note):
        raise Enough

    once = JobProgress(note=after_one_epoch)
    with pytest.raises(Enough):
        train_run(Order(plan=plans[f"main/{method}_s42"]), task, tmp_path, progress=once)
    again = json_of(tmp_path / TRACE)
    recorded = json.loads(
        (sample_runs / "main" / f"{method}_s42" / TRACE).read_text().splitlines()[0]
    )
    assert again["loss"] == pytest.approx(recorded["loss"], rel=1e-3)
    for name in ("residual_norms", "bp_grad_norms"):
        assert again[name] == pytest.approx(recorded[name], rel=2e-2)
    assert again["test_acc"] == pytest.approx(recorded["test_acc"], abs=5e-3)


@pytest.mark.parametrize(
    "name",
    ["main/bp_s42", "main/credit_bridge_s123", "wide/dfa_s42"],
)
def test_an_audit_made_again_gives_the_recorded_numbers(sample_runs, plans, tmp_path, name):
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


FLAGS = {
    "main/bp": "- - -",
    "main/ep": "- - -",
    "main/dfa": "ad ad d",
    "main/fa": "ad ad ad",
    "main/state_bridge": "- - -",
    "main/credit_bridge": "ad d ad",
    "wide/bp": "- - -",
    "wide/ep": "- - -",
    "wide/dfa": "abd abd abd",
    "wide/fa": "abd abd abd",
    "wide/state_bridge": "- - -",
    "wide/credit_bridge": "abd d ad",
    "wide/dfa_lam0.001": "d d d",
    "wide/dfa_lam0.01": "d d d",
    "wide/dfa_ln-none": "d d d",
    "wide/dfa_arch-studentnet": "ad ad ad",
    "wide/ep_arithmetic-float32": "d d d",
    "wide/random_init": "c - -",
}
"""Runs → what fires on the seeds 42, 123 and 456."""


def test_the_same_diagnostics_fire_on_every_seed_as_the_pages_say(sample_runs):
    found = {}
    for name in FLAGS:
        reports = [report_of(sample_runs / f"{name}_s{seed}") for seed in SEEDS]
        assert {report.coverage for report in reports} <= {"abcd", "abc"}
        found[name] = " ".join("".join(sorted(report.flags)) or "-" for report in reports)
    assert found == FLAGS


def test_the_pages_say_what_the_audits_say(sample_runs):
    script = load_script(sample_runs / "readme.py")
    assert script.readme() == (sample_runs / "README.md").read_text(encoding="utf-8")
    assert script.atlas() == (sample_runs.parent / "docs" / "atlas.md").read_text(encoding="utf-8")


def test_the_sample_runs_stay_small(sample_runs, plans):
    sizes = {
        path.relative_to(sample_runs): path.stat().st_size
        for path in sample_runs.rglob("*")
        if path.is_file()
    }
    atlas = sum(size for path, size in sizes.items() if path.parts[0] == "atlas")
    assert atlas < 5e6 and sum(sizes.values()) - atlas < 20e6
    kept = {name for name in plans if (sample_runs / name / WEIGHTS).exists()}
    keeps = load_script(sample_runs / "make.py").keeps_weights
    assert kept == {name for name, plan in plans.items() if keeps(name.partition("/")[0], plan)}


@pytest.fixture(scope="module")
def atlas(sample_runs):
    return scan([sample_runs / "atlas"])


def test_every_planned_run_of_the_atlas_is_in_its_table_with_its_own_trace(atlas, plans):
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
