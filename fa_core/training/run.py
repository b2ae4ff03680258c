"""One run in training: its network, its rule, and the folder that is kept complete after every epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from fa_core.data import DataSet, eval_batches
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.engine.loading import Evaluation
from fa_core.engine.provenance import versions
from fa_core.errors import UsageError
from fa_core.measure.credit import method_gamma
from fa_core.methods import make_method, method_class
from fa_core.models import build
from fa_core.report import DiagnosticReport
from fa_core.run_writer import RunWriter
from fa_core.runs import RESUME, Manifest, is_run, read_manifest
from fa_core.trace import trace_entry
from fa_core.training.audit import audit_run, measure_epoch, sibling_baseline
from fa_core.training.loop import Diverged, fitted_args, make_optimizer, steps_per_epoch, train_epoch
from fa_core.training.plan import RunPlan, there_already
from fa_core.training.resume import load_state, read_trace, save_state


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run stands, for whoever shows it.

    Attributes:
        run: the run's name.
        epoch: the epoch being trained, 1..epochs.
        epochs: how many there are.
        step: steps done in it.
        steps: steps per epoch.
        entry: the epoch's line of the trace, once it is complete.
        flags: letters that fired on it.
    """

    run: str
    epoch: int
    epochs: int
    step: int
    steps: int
    entry: Mapping[str, Any] | None = None
    flags: frozenset[str] = frozenset()


class Run:
    """The state of one run in training.

    Args:
        plan: what to train.
        data: the data set of its SPEC.
        folder: the run folder.
        device: where to train.
        thresholds: what fires is judged by.
    """

    def __init__(
        self, plan: RunPlan, data: DataSet, folder: Path, device: torch.device, thresholds: DiagnosticThresholds
    ) -> None:
        rule = method_class(plan.method)
        arch_args = rule.adapt_arch_args(fitted_args(plan.arch, plan.arch_args, data))
        self.data, self.device, self.thresholds = data, device, thresholds
        self.net = build(plan.arch, seed=plan.seed, **arch_args).to(device)
        self.method = make_method(plan.method, self.net, plan.seed, **plan.method_args)
        self.recipe = plan.recipe if rule.trains else msgspec.structs.replace(plan.recipe, epochs=0)
        self.optimizer = make_optimizer(self.recipe, self.method, self.net)
        self.batches = eval_batches(data, seed=plan.eval_seed)
        self.name = plan.name
        self.trace: list[dict[str, Any]] = []
        self.baseline: float | None = None
        self.writer = RunWriter(folder)
        self.manifest = Manifest(
            method=rule.name,
            arch=plan.arch,
            arch_args=self.net.arch_args,
            data=data.spec,
            data_hash=data.hash,
            eval_seed=plan.eval_seed,
            eval_batches=len(self.batches),
            eval_batch_size=len(self.batches[0][1]),
            seed=plan.seed,
            method_args=plan.method_args,
            recipe=msgspec.to_builtins(self.recipe),
            axes=plan.axes,
            versions=versions(),
            device=_device_name(device),
        )

    def take_up(self, *, resume: bool, overwrite: bool) -> Manifest | None:
        """Start, or go on from the last complete epoch; the manifest of a run that is already finished."""
        folder = self.writer.folder
        if is_run(folder) and not overwrite:
            found = read_manifest(folder)
            if not resume:
                raise there_already(folder)
            _check_same(found, self.manifest, folder)
            if found.stopped or (found.epochs_done >= self.recipe.epochs and not (folder / RESUME).exists()):
                return found
            self._restore(found)
            return None
        self.writer.start()
        self._save()
        return None

    def train(self, stop_on: frozenset[str], on_moment: Callable[[Moment], None]) -> None:
        """Train the epochs that are left."""
        steps = steps_per_epoch(self.data, self.recipe) if self.optimizer else 0
        self.baseline = sibling_baseline(self.writer.folder, self.manifest)
        while self.optimizer and self.manifest.epochs_done < self.recipe.epochs and not self.manifest.stopped:
            epoch = self.manifest.epochs_done + 1
            moment = Moment(run=self.name, epoch=epoch, epochs=self.recipe.epochs, step=0, steps=steps)
            self._train_epoch(epoch, stop_on, moment, on_moment)

    def _train_epoch(
        self, epoch: int, stop_on: frozenset[str], moment: Moment, on_moment: Callable[[Moment], None]
    ) -> None:
        assert self.optimizer is not None
        start, stopped = time.perf_counter(), None
        try:
            loss = train_epoch(
                self.net,
                self.method,
                self.optimizer,
                self.recipe,
                self.data,
                seed=self.manifest.seed,
                epoch=epoch,
                on_step=lambda step: on_moment(msgspec.structs.replace(moment, step=step)),
            )
        except Diverged as error:
            loss, stopped = float("nan"), f"diverged: {error.what}"
        given = {"thresholds": self.thresholds, "frozen_baseline_acc": self.baseline}
        report = measure_epoch(self.net, self.data, self.batches, **given)
        gamma = method_gamma(self.net, self.method, *self.batches[0])
        rate = self.optimizer.param_groups[0]["lr"]
        entry = trace_entry(epoch, report, time.perf_counter() - start, loss=loss, lr=rate, gamma=gamma)
        fired = report.flags & stop_on
        if fired and not stopped and epoch < self.recipe.epochs:
            saved = 100 * (self.recipe.epochs - epoch) / self.recipe.epochs
            letters = ", ".join(f"({letter})" for letter in sorted(fired))
            stopped = f"{letters} fired at epoch {epoch} of {self.recipe.epochs}: {saved:.0f} % of the epochs saved"
        self.trace.append(entry)
        self.manifest = msgspec.structs.replace(
            self.manifest, epochs_done=epoch, stopped=stopped, headline_acc=report.headline_acc
        )
        self._save()
        on_moment(msgspec.structs.replace(moment, step=moment.steps, entry=entry, flags=report.flags))

    def audit(self) -> DiagnosticReport:
        """Measure the finished run and write its report; what only an unfinished run needs goes."""
        held = Evaluation(self.data.test_x, self.data.test_y, self.batches, self.data.hash)
        report = audit_run(self.writer.folder, self.device, held)
        self.manifest = read_manifest(self.writer.folder)
        self.writer.finished()
        return report.with_thresholds(self.thresholds)

    def _save(self) -> None:
        """Everything up to this epoch; the resume state last, since it is what a resumed run believes."""
        self.writer.weights(self.manifest, self.net.state_dict(), self.method.state_dict())
        self.writer.trace(self.trace)
        self.writer.manifest(self.manifest)
        state = {
            "epochs_done": self.manifest.epochs_done,
            "stopped": self.manifest.stopped,
            "headline_acc": self.manifest.headline_acc,
            "net": self.net.state_dict(),
            "method": self.method.state_dict(),
            "training": self.method.training_state(),
            "optimizer": self.optimizer.state_dict() if self.optimizer else {},
        }
        save_state(self.writer.folder / RESUME, state)

    def _restore(self, found: Manifest) -> None:
        state = load_state(self.writer.folder / RESUME, self.device)
        self.net.load_state_dict(state["net"])
        self.method.load_state_dict(state["method"])
        self.method.load_training_state(state["training"])
        if self.optimizer:
            self.optimizer.load_state_dict(state["optimizer"])
        self.manifest = msgspec.structs.replace(
            found,
            epochs_done=state["epochs_done"],
            stopped=state["stopped"],
            headline_acc=state["headline_acc"],
        )
        self.trace = read_trace(self.writer.folder, state["epochs_done"])


def _check_same(found: Manifest, asked: Manifest, folder: Path) -> None:
    """A run is only resumed as what it is."""
    for name in ("method", "arch", "arch_args", "data", "data_hash", "seed", "method_args", "recipe", "eval_seed"):
        was, now = getattr(found, name), getattr(asked, name)
        if was != now:
            raise UsageError(
                f"the run there has {name} {was}, not {now}", where=folder, hint="train into another --out folder"
            )


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
