"""Train one run into a run folder: deterministic, resumable, watched by the four diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from fa_core.data import DataSet
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_core.naming import diagnostic_letters
from fa_core.report import DiagnosticReport
from fa_core.runs import Manifest, is_run
from fa_core.training.loop import deterministic, steps_per_epoch
from fa_core.training.plan import Recipe, RunPlan, plan_runs, there_already
from fa_core.training.run import Moment, Run

__all__ = ["Moment", "Recipe", "RunPlan", "Trained", "check_plans", "plan_runs", "train_run"]


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: its folder, manifest and report; `skipped` if it was finished before."""

    folder: Path
    manifest: Manifest
    report: DiagnosticReport | None
    skipped: bool = False


def train_run(
    plan: RunPlan,
    data: DataSet,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    stop_on: str = "",
    thresholds: DiagnosticThresholds | None = None,
    on_moment: Callable[[Moment], None] = lambda moment: None,
) -> Trained:
    """Train, measure every epoch, and leave a run folder.

    After every epoch the folder is complete up to it: an interrupt or a kill loses at most the epoch
    that was under way. A loss that becomes NaN ends the run, which is kept and audited as it is.

    Args:
        plan: what to train.
        data: the data set of the plan's SPEC.
        folder: the run folder.
        device: where to train.
        resume: go on with an unfinished run in `folder`; a finished one is left alone.
        overwrite: train over whatever run lies in `folder`.
        stop_on: letters of diagnostics that end the run when they fire, e.g. ``"ab"``.
        thresholds: what `stop_on` judges by.
        on_moment: called with progress.

    Returns:
        The run, audited.

    Raises:
        UsageError: a name, size or letter that cannot be meant, or a run already in `folder`.
        FaError: the folder cannot be written.
    """
    device = torch.device(device)
    with deterministic(plan.seed, device):
        run = Run(plan, data, folder, device, thresholds or DiagnosticThresholds())
        finished = run.take_up(resume=resume, overwrite=overwrite)
        if finished is not None:
            return Trained(folder=folder, manifest=finished, report=None, skipped=True)
        run.train(diagnostic_letters(stop_on, "--stop-on"), on_moment)
        report = run.audit()
        return Trained(folder=folder, manifest=run.manifest, report=report)


def check_plans(
    plans: Sequence[RunPlan],
    data: DataSet,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    stop_on: str = "",
) -> None:
    """Refuse now what `train_run` would refuse later, so that no run is trained before a typo is found.

    Raises:
        UsageError: as `train_run`.
    """
    diagnostic_letters(stop_on, "--stop-on")
    standing = next(place for place in (out, *out.absolute().parents) if place.exists() or place.is_symlink())
    if not standing.is_dir():
        raise UsageError("is a file, not a folder", where=standing, hint="--out names the folder of the run folders")
    for plan in plans:
        run = Run(plan, data, out / plan.name, torch.device("cpu"), DiagnosticThresholds())
        if run.optimizer:
            steps_per_epoch(data, run.recipe)
        if is_run(out / plan.name) and not (resume or overwrite):
            raise there_already(out / plan.name)
