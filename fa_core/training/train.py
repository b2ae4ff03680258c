"""Train one run into a run folder: deterministic, resumable, watched by the four diagnostics.

The folder is complete after every epoch. A finished run is measured from its files, exactly as
`fa-tui audit` measures them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from fa_core.atomic import write_json
from fa_core.data import DataSet, eval_batches
from fa_core.decode import loads, reading
from fa_core.engine.group_runner import measure_run
from fa_core.engine.jobs import Job, MeasureOptions, Watch, input_hashes, versions
from fa_core.engine.loading import TEST_BATCH, Evaluation
from fa_core.errors import FaError, UsageError
from fa_core.facts.controls import FROZEN
from fa_core.facts.provenance import BASELINE_RULE
from fa_core.facts.runs import (
    AUDIT,
    RESUME,
    TRACE,
    Manifest,
    is_run,
    read_manifest,
)
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.files import read_file
from fa_core.formats.audit_table_writer import printable_drift
from fa_core.formats.run_folder import judged_by_siblings
from fa_core.judgement.diagnostics import diagnostic_letters
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
from fa_core.measure.null_gamma import method_gamma
from fa_core.methods import make_method, method_class
from fa_core.models import ARCHS, build
from fa_core.option_values import unknown_name
from fa_core.report import DiagnosticReport
from fa_core.run_progress import ProgressFiles
from fa_core.trace import trace_entry
from fa_core.training.plan import Recipe, RunPlan, there_already
from fa_core.training.run_files import RunWriter, load_state, save_state

Batches = list[tuple[Tensor, Tensor]]

CHECK_EVERY = 50
"""Steps between two looks at whether the loss is still finite: on a GPU each look waits for the
device."""


class Diverged(FaError):
    """The training loss is no longer finite."""


_PROGRESS = ("epochs_done", "stopped", "headline_acc")
"""What of a manifest changes while the run is trained."""


class Moment(msgspec.Struct, frozen=True):
    """How far a run is, for its progress display.

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


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run: its folder, manifest and report; `skipped` if it was finished before."""

    folder: Path
    manifest: Manifest
    report: DiagnosticReport | None
    skipped: bool = False


OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def steps_per_epoch(data: DataSet, recipe: Recipe) -> int:
    """Full batches in the training samples.

    Raises:
        UsageError: the batch is larger than the data set.
    """
    steps = len(data.train_y) // recipe.batch_size
    if steps == 0:
        samples = f"the {len(data.train_y)} training samples of {data.spec}"
        raise UsageError(
            f"a batch of {recipe.batch_size} is larger than {samples}",
            hint="give a smaller --batch-size",
        )
    return steps


def sample_order(count: int, seed: int, epoch: int) -> Tensor:
    """The permutation of an epoch: it depends on seed and epoch only, so a resumed run sees the
    same samples."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(count, generator=generator)


@contextmanager
def deterministic(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded generators and deterministic kernels inside; the caller's afterwards."""
    strict = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)


def fitted_args(arch: str, given: dict[str, Any], data: DataSet) -> dict[str, Any]:
    """The given arguments, completed by those that the data decide: input size, classes.

    Args:
        arch: built-in network name.
        given: what the user chose; it is kept.
        data: the data set.

    Raises:
        UsageError: unknown network, or data of a kind it does not take (both shapes are said).
    """
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    known = signature(ARCHS[arch]).parameters
    decided: dict[str, Any] = {"num_classes": data.num_classes}
    if "input_dim" in known:
        decided["input_dim"] = math.prod(data.input_shape)
    elif "vocab" in known:
        decided |= _token_args(arch, data)
    else:
        decided |= _image_args(arch, data)
    return {name: value for name, value in decided.items() if name in known} | given


def _token_args(arch: str, data: DataSet) -> dict[str, Any]:
    """Length and vocabulary of token data."""
    x = data.train_x
    if x.dim() != 2 or int(x.min()) < 0 or not torch.equal(x, x.round()):
        raise UsageError(
            f"{arch} takes token numbers (samples, tokens), {_shape_of(data)}",
            hint="choose data of whole numbers from 0 on, the label the token that follows",
        )
    top = max(int(x.max()), int(data.test_x.max()))
    return {"length": x.shape[1], "vocab": max(top + 1, data.num_classes)}


def _image_args(arch: str, data: DataSet) -> dict[str, Any]:
    """Channels and size of square images."""
    shape = data.input_shape
    if len(shape) != 3 or shape[1] != shape[2]:
        raise UsageError(
            f"{arch} takes square images (channels, size, size), {_shape_of(data)}",
            hint="choose image data such as cifar10:DIR, or --arch resmlp",
        )
    return {"channels": shape[0], "image": shape[1]}


def _shape_of(data: DataSet) -> str:
    return f"{data.spec} gives samples of shape {data.input_shape}"


class Training:
    """The state of one run in training.

    Args:
        plan: what to train.
        data: the data set of its SPEC.
        folder: the run folder.
        device: where to train.
        thresholds: what fires is judged by.
    """

    def __init__(
        self,
        plan: RunPlan,
        data: DataSet,
        folder: Path,
        device: torch.device,
        thresholds: DiagnosticThresholds,
    ) -> None:
        rule = method_class(plan.method)
        arch_args = rule.adapt_arch_args(fitted_args(plan.arch, plan.arch_args, data))
        self.data, self.device, self.thresholds = data, device, thresholds
        self.net = build(plan.arch, seed=plan.seed, **arch_args).to(device)
        self.method = make_method(plan.method, self.net, plan.seed, **plan.method_args)
        if rule.trains:
            self.recipe = plan.recipe
        else:
            self.recipe = msgspec.structs.replace(plan.recipe, epochs=0)
        self.optimizer: torch.optim.Optimizer | None = None
        if trained := self.method.trained_parameters(self.net):
            kind, lr = OPTIMIZERS[self.recipe.optimizer], self.recipe.lr
            self.optimizer = kind(trained, lr=lr, weight_decay=self.recipe.weight_decay)
        self.batches = eval_batches(data, seed=plan.eval_seed)
        self.name = plan.name
        self.trace: list[dict[str, Any]] = []
        self.baseline: float | None = None
        self.writer = RunWriter(folder)
        self.manifest = Manifest(
            method=rule.name,
            arch=plan.arch,
            seed=plan.seed,
            eval_seed=plan.eval_seed,
            method_args=plan.method_args,
            axes=plan.axes,
            arch_args=self.net.arch_args,
            data=data.spec,
            data_hash=data.hash,
            eval_batches=len(self.batches),
            eval_batch_size=len(self.batches[0][1]),
            recipe=msgspec.to_builtins(self.recipe),
            versions=versions(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
        )

    def take_up(self, *, resume: bool, overwrite: bool) -> Manifest | None:
        """Start, or go on from the last complete epoch; the manifest of a run that is already
        finished."""
        folder = self.writer.folder
        if is_run(folder) and not overwrite:
            found = read_manifest(folder)
            if not resume:
                raise there_already(folder)
            _check_same(found, self.manifest, folder)
            complete = found.epochs_done >= self.recipe.epochs and not (folder / RESUME).exists()
            if found.stopped or complete:
                return found
            self._restore(found)
            return None
        self.writer.start()
        self._save()
        return None

    def train(self, stop_on: frozenset[str], on_moment: Callable[[Moment], None]) -> None:
        """Train the epochs that are left."""
        if self.optimizer is None:
            return
        found = judged_by_siblings(DiagnosticReport(), self.writer.folder, self.manifest)
        self.baseline = found.frozen_baseline_acc
        if self.manifest.method == FROZEN:
            # a baseline must not stop before the runs that are compared with it
            stop_on = frozenset()
        while self.manifest.epochs_done < self.recipe.epochs and not self.manifest.stopped:
            self._train_epoch(stop_on, on_moment)

    def epoch(self, epoch: int, on_step: Callable[[int], None] = lambda step: None) -> float:
        """Train one epoch: the same few lines for every method.

        Args:
            epoch: 1, 2, ...
            on_step: called with the number of steps done.

        Returns:
            Mean cross entropy over the epoch's steps.

        Raises:
            Diverged: it became NaN or infinite.
        """
        assert self.optimizer is not None
        self.net.train()
        data, recipe, steps = self.data, self.recipe, steps_per_epoch(self.data, self.recipe)
        order = sample_order(len(data.train_y), self.manifest.seed, epoch).to(data.train_y.device)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for step in range(steps):
            rate = recipe.lr_at((epoch - 1) * steps + step, recipe.epochs * steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            rows = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
            x, y = data.train_x[rows].to(self.device), data.train_y[rows].to(self.device)
            loss, info = self.method.loss(self.net, x, y, recipe.lam)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.method.extra_step(self.net, info)
            total += info.ce
            if (step + 1) % CHECK_EVERY == 0 or step + 1 == steps:
                if not math.isfinite(float(total)):
                    raise Diverged(
                        f"the loss is {float(info.ce)} by step {step + 1} of epoch {epoch}"
                    )
                on_step(step + 1)
        return float(total) / steps

    def _train_epoch(self, stop_on: frozenset[str], on_moment: Callable[[Moment], None]) -> None:
        """Train the next epoch, measure it, and save everything up to it."""
        assert self.optimizer is not None
        epoch, epochs = self.manifest.epochs_done + 1, self.recipe.epochs
        steps = steps_per_epoch(self.data, self.recipe)

        def on_step(step: int) -> None:
            on_moment(Moment(self.name, epoch, epochs, step, steps))

        start = time.perf_counter()
        stopped = None
        try:
            loss = self.epoch(epoch, on_step)
        except Diverged as error:
            loss = math.nan
            stopped = f"diverged: {error.what}"
        report = self._measured()
        entry = trace_entry(
            epoch,
            report,
            time.perf_counter() - start,
            loss=loss,
            lr=self.optimizer.param_groups[0]["lr"],
            gamma=method_gamma(self.net, self.method, *self.batches[0]),
        )
        fired = report.flags & stop_on
        if fired and not stopped and epoch < epochs:
            letters = ", ".join(f"({letter})" for letter in sorted(fired))
            saved = 100 * (epochs - epoch) / epochs
            when = f"{letters} fired at epoch {epoch} of {epochs}"
            stopped = f"{when}: {saved:.0f} % of the epochs saved"
        self.trace.append(entry)
        self.manifest = msgspec.structs.replace(
            self.manifest, epochs_done=epoch, stopped=stopped, headline_acc=report.headline_acc
        )
        self._save()
        on_moment(Moment(self.name, epoch, epochs, steps, steps, entry, report.flags))

    def _measured(self) -> DiagnosticReport:
        """The four diagnostics on the evaluation batches, with the accuracy on the whole test
        part."""
        x = torch.split(self.data.test_x, TEST_BATCH)
        y = torch.split(self.data.test_y, TEST_BATCH)
        acc = accuracy(self.net, zip(x, y, strict=True))
        return diagnose(self.net, self.batches, acc, self.baseline, thresholds=self.thresholds)

    def audit(self) -> DiagnosticReport:
        """Measure the finished run and write its report; what only an unfinished run needs goes."""
        held = Evaluation(self.data.test_x, self.data.test_y, self.batches, self.data.hash)
        report = audit_run(self.writer.folder, self.device, held)
        self.manifest = read_manifest(self.writer.folder)
        (self.writer.folder / RESUME).unlink(missing_ok=True)
        return report.with_thresholds(self.thresholds)

    def _save(self) -> None:
        """Everything up to this epoch; the resume state last, since it is what a resumed run
        believes."""
        net, method = self.net.state_dict(), self.method.state_dict()
        self.writer.weights(self.manifest, net, method)
        self.writer.trace(self.trace)
        self.writer.manifest(self.manifest)
        state = {"net": net, "method": method, "training": self.method.training_state()}
        state |= {name: getattr(self.manifest, name) for name in _PROGRESS}
        state["optimizer"] = self.optimizer.state_dict() if self.optimizer else {}
        save_state(self.writer.folder / RESUME, state)

    def _restore(self, found: Manifest) -> None:
        state = load_state(self.writer.folder / RESUME, self.device)
        self.net.load_state_dict(state["net"])
        self.method.load_state_dict(state["method"])
        self.method.load_training_state(state["training"])
        if self.optimizer:
            self.optimizer.load_state_dict(state["optimizer"])
        self.manifest = msgspec.structs.replace(found, **{name: state[name] for name in _PROGRESS})
        trace, done = self.writer.folder / TRACE, state["epochs_done"]
        self.trace = []
        if done:
            with reading(trace, "cannot resume from it"):
                self.trace = [loads(line) for line in read_file(trace).splitlines()[:done]]


_SAME_ON_RESUME = (
    *("method", "arch", "arch_args", "data", "data_hash"),
    *("seed", "method_args", "recipe", "eval_seed"),
)


def _check_same(found: Manifest, asked: Manifest, folder: Path) -> None:
    """Refuse to resume a run with other settings."""
    for name in _SAME_ON_RESUME:
        was, now = getattr(found, name), getattr(asked, name)
        if was != now:
            hint = "train into another --out folder"
            raise UsageError(f"the run there has {name} {was}, not {now}", where=folder, hint=hint)


def audit_run(
    folder: Path, device: torch.device, samples: Evaluation | None = None, resamples: int = 0
) -> DiagnosticReport:
    """Look for (d)'s baseline next to a run, measure the run, and write its manifest and
    ``audit.json``.

    Args:
        folder: the run folder.
        device: where to measure.
        samples: its evaluation samples, if they are loaded already.
        resamples: R of the bootstrap over batches and samples; 0 = none.

    Raises:
        FaError: it cannot be read or measured, or the report cannot be written.
    """
    manifest = msgspec.structs.replace(
        read_manifest(folder), frozen_baseline_acc=None, frozen_baseline_rule=None
    )
    RunWriter(folder).manifest(manifest)
    job = Job(id=folder.name, checkpoint=str(folder), options=MeasureOptions(resamples=resamples))
    report = measure_run(job, str(device), Watch(), samples)
    report = judged_by_siblings(report, folder, manifest)
    found = {
        "headline_acc": report.headline_acc,
        "frozen_baseline_acc": report.frozen_baseline_acc,
        "frozen_baseline_rule": report.provenance.get(BASELINE_RULE),
    }
    RunWriter(folder).manifest(msgspec.structs.replace(manifest, **found))
    provenance = {**report.provenance, "checkpoint": folder.name, "hashes": input_hashes(folder)}
    report = msgspec.structs.replace(report, provenance=provenance)
    write_json(folder / AUDIT, printable_drift(report))
    return report


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

    After every epoch the folder is complete up to it: an interrupt or a kill loses at most the
    epoch that was under way. A loss that becomes NaN ends the run, which is kept and audited as it
    is.

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
        run = Training(plan, data, folder, device, thresholds or DiagnosticThresholds())
        finished = run.take_up(resume=resume, overwrite=overwrite)
        if finished is not None:
            return Trained(folder=folder, manifest=finished, report=None, skipped=True)
        with ProgressFiles() as files, files.of(folder, "training"):

            def note(moment: Moment) -> None:
                files.update(folder, moment.epoch, moment.epochs, moment.step, moment.steps)
                on_moment(moment)

            run.train(diagnostic_letters(stop_on, "--stop-on"), note)
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
    """Refuse now what `train_run` would refuse later, so that no run is trained before a typo is
    found.

    Raises:
        UsageError: as `train_run`.
    """
    diagnostic_letters(stop_on, "--stop-on")
    _check_folder(out)
    for plan in plans:
        run = Training(plan, data, out / plan.name, torch.device("cpu"), DiagnosticThresholds())
        if run.optimizer:
            steps_per_epoch(data, run.recipe)
        if is_run(out / plan.name) and not (resume or overwrite):
            raise there_already(out / plan.name)


def _check_folder(out: Path) -> None:
    """Refuse a path of which an existing part is no folder."""
    for place in (out, *out.absolute().parents):
        if place.is_dir():
            return
        if place.exists() or place.is_symlink():
            hint = "--out names the folder of the run folders"
            raise UsageError("is a file, not a folder", where=place, hint=hint)
