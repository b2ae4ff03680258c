"""Train one run into a run folder: deterministic, resumable, diagnosed after every epoch.

The folder is complete after every epoch. A finished run is measured from its files, exactly like
`fa-tui audit`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace

from fa_core.audit.jobs import Job, JobProgress, versions
from fa_core.audit.loading import TEST_BATCH, Evaluation, memory_for
from fa_core.audit.measuring import measure_run
from fa_core.errors import UsageError
from fa_core.files.atomic import remove, write_json
from fa_core.files.decode import Json, loads, reading
from fa_core.files.opening import is_file, read_file
from fa_core.formats.audit_table import printable_drift
from fa_core.formats.checkpoint_file import STAMP, input_hashes, stamp
from fa_core.formats.frozen_runs import with_baselines
from fa_core.formats.rows import row_of_manifest
from fa_core.formats.run_folder import ProgressFiles
from fa_core.formats.trace import trace_entry
from fa_core.measure.accuracy import accuracy
from fa_core.measure.credit import method_gamma
from fa_core.measure.diagnose import diagnose
from fa_core.option_values import check_known
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, RESUME, TRACE, Manifest, is_run, read_manifest
from fa_core.report.method_style import FROZEN
from fa_core.report.provenance import BASELINE_FROM
from fa_core.training.plan import Order, Recipe, RunPlan, stopping_letters, there_already
from fa_core.training.run_files import ResumeState, RunWriter, load_state, save_state
from fa_core.zoo.data import DataSet, eval_batches
from fa_core.zoo.methods import make_method, method_class
from fa_core.zoo.methods.base import OPTIMIZERS, restore_optimizer
from fa_core.zoo.models import ARCHS, build, build_on_meta


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run.

    Attributes:
        folder: the run folder.
        manifest: as written.
        report: its audit; None for a run that was finished before.
    """

    folder: Path
    manifest: Manifest
    report: DiagnosticReport | None

    @property
    def words(self) -> str:
        """The result in one line."""
        report = self.report
        if report is None:
            return f"{self.folder}: finished before, left alone"
        why = f"; {self.manifest.stopped}" if self.manifest.stopped else ""
        return (
            f"{self.folder}: {report.words} [{report.coverage} measured], accuracy "
            f"{report.headline_acc:.4f}{why}"
        )


SMALL = 500_000
"""Parameters below which a network of vectors is trained on one CPU thread."""


def threads_for(plans: Sequence[RunPlan], data: DataSet) -> int | None:
    """CPU threads of a training: 1 for networks so small that threads cost more than they gain;
    None = PyTorch's own number.

    Measured at d = 64, L = 4 on two idle cores: an epoch takes as long on one thread as on two,
    with two thirds of the processor time; where other programs run, a quarter of it.
    """
    for plan in plans:
        net = build_on_meta(plan.arch, sys.maxsize, **fitted_args(plan, data))
        of_vectors = all(len(shape) == 1 for shape in net.state_shapes)
        if not of_vectors or sum(one.numel() for one in net.parameters()) >= SMALL:
            return None
    return 1


def steps_per_epoch(data: DataSet, recipe: Recipe) -> int:
    """Number of full batches in the training samples.

    Raises:
        UsageError: the batch is larger than the data set.
    """
    samples = len(data.train_y)
    if samples < recipe.batch_size:
        raise UsageError(
            f"a batch of {recipe.batch_size} is larger than the {samples} training samples of "
            f"{data.spec}",
            hint="give a smaller --batch-size",
        )
    return samples // recipe.batch_size


@contextmanager
def deterministic(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded generators and deterministic kernels inside; the previous settings afterwards."""
    strict = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)


def fitted_args(plan: RunPlan, data: DataSet) -> Json:
    """The network arguments of a plan, completed from the data: input size, number of classes.

    Raises:
        UsageError: unknown network, or data of a shape that it does not take.
    """
    check_known("network", plan.arch, ARCHS)
    if "input_dim" in signature(ARCHS[plan.arch]).parameters:
        fitted = {"input_dim": math.prod(data.input_shape)}
    else:
        shape = data.input_shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UsageError(
                f"{plan.arch} takes square images (channels, size, size), "
                f"{data.spec} gives samples of shape {shape}",
                hint="choose image data such as cifar10:DIR, or --arch resmlp",
            )
        fitted = {"channels": shape[0], "image": shape[1]}
    fitted["num_classes"] = data.num_classes
    return {**fitted, **plan.arch_args}


class Training:
    """A run in training.

    Args:
        order: the run, and how it is trained.
        data: the data set of its plan.
        folder: the run folder.
        device: to train on.
    """

    def __init__(self, order: Order, data: DataSet, folder: Path, device: torch.device) -> None:
        plan = order.plan
        rule = method_class(plan.method)
        arch_args = rule.adapt_arch_args(fitted_args(plan, data))
        self.order = order
        self.data = data
        self.device = device
        self.net = build(plan.arch, seed=plan.seed, **arch_args).to(device)
        self.method = make_method(plan.method, self.net, plan.seed, **plan.method_args)
        self.recipe = plan.recipe
        trained = self.method.trained_parameters(self.net)
        if not trained:
            self.recipe = replace(plan.recipe, epochs=0)
        self.optimizer = OPTIMIZERS[plan.recipe.optimizer](
            [{"params": trained}],  # which may be none
            lr=plan.recipe.lr,
            weight_decay=plan.recipe.weight_decay,
        )
        self.batches = eval_batches(data)
        self.trace: list[Json] = []
        self.writer = RunWriter(folder)
        self.manifest = Manifest(
            method=rule.name,
            arch=plan.arch,
            seed=plan.seed,
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

    def start_or_resume(self) -> bool:
        """Start the run, or resume after its last complete epoch.

        Returns:
            Whether the run was finished before.

        Raises:
            UsageError: the folder has a run that may be neither resumed nor overwritten.
        """
        folder = self.writer.folder
        if is_run(folder) and not self.order.overwrite:
            found = read_manifest(folder)
            if not self.order.resume:
                raise there_already(folder)
            _check_same(found, self.manifest, folder)
            complete = found.epochs_done >= self.recipe.epochs
            audited = not (folder / RESUME).exists()
            if found.stopped or (complete and audited):
                self.manifest = found
                return True
            self._restore(found)
        else:
            self.writer.start()
            self._save()
        return False

    def train(self, files: ProgressFiles, progress: JobProgress) -> None:
        """Train the remaining epochs.

        Args:
            files: where the progress file of the folder is kept.
            progress: of the run, in steps; a note is the outcome of an epoch.
        """
        stop_on = stopping_letters(self.order.stop_on)
        if self.manifest.method == FROZEN:
            # a baseline needs as many epochs as the runs compared with it
            stop_on = frozenset()
        while self.manifest.epochs_done < self.recipe.epochs and not self.manifest.stopped:
            self._train_epoch(stop_on, files, progress)

    def epoch(self, epoch: int, on_step: Callable[[int], None]) -> float:
        """Train one epoch, in the same way for every method.

        Args:
            epoch: 1, 2, ...
            on_step: called with the number of steps done.

        Returns:
            Mean cross entropy over the epoch's steps.
        """
        self.net.train()
        data = self.data
        recipe = self.recipe
        steps = steps_per_epoch(data, recipe)
        # a resumed run sees the samples in the same order
        drawn_by = self.manifest.seed * 1_000_003 + epoch
        generator = torch.Generator().manual_seed(drawn_by % 2**63)
        order = torch.randperm(len(data.train_y), generator=generator).to(data.train_y.device)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for step in range(steps):
            rate = recipe.lr_at((epoch - 1) * steps + step, recipe.epochs * steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            rows = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
            x = data.train_x[rows].to(self.device)
            y = data.train_y[rows].to(self.device)
            loss, info = self.method.loss(self.net, x, y, recipe.lam)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.method.extra_step(self.net, info)
            total += info.ce
            on_step(step + 1)
        return float(total) / steps

    def _train_epoch(
        self, stop_on: frozenset[str], files: ProgressFiles, progress: JobProgress
    ) -> None:
        """Train, measure and save the next epoch."""
        epoch = self.manifest.epochs_done + 1
        epochs = self.recipe.epochs
        steps = steps_per_epoch(self.data, self.recipe)

        def on_step(step: int) -> None:
            files.update(self.writer.folder, epoch, epochs, step, steps)
            progress.update((epoch - 1) * steps + step, epochs * steps)

        start = time.perf_counter()
        loss = self.epoch(epoch, on_step)
        stopped = None
        if not math.isfinite(loss):
            stopped = f"diverged: the loss is {loss} in epoch {epoch}"
        report = self._measured()
        entry = trace_entry(
            epoch,
            report,
            time.perf_counter() - start,
            loss=loss,
            lr=self.optimizer.param_groups[0]["lr"],
            gamma=method_gamma(self.net, self.method, self.batches[0]),
        )
        stopping = report.flags & stop_on
        if stopping and not stopped and epoch < epochs:
            letters = ", ".join(f"({letter})" for letter in sorted(stopping))
            saved = 100 * (epochs - epoch) / epochs
            when = f"{letters} fired at epoch {epoch} of {epochs}"
            stopped = f"{when}: {saved:.0f} % of the epochs saved"
        self.trace.append(entry)
        self.manifest = replace(
            self.manifest, epochs_done=epoch, stopped=stopped, headline_acc=report.headline_acc
        )
        self._save()
        fired = "".join(sorted(report.flags)) or "none"
        progress.note(
            f"epoch {epoch}/{epochs}: loss {loss:.4f}, accuracy {entry['test_acc']:.4f}, "
            f"fired: {fired}"
        )

    def _measured(self) -> DiagnosticReport:
        """The diagnostics on the evaluation batches, and the accuracy on the whole test part."""
        x = torch.split(self.data.test_x, TEST_BATCH)
        y = torch.split(self.data.test_y, TEST_BATCH)
        acc = accuracy(self.net, zip(x, y, strict=True))
        return diagnose(self.net, self.batches, acc, thresholds=self.order.thresholds)

    def audit(self) -> DiagnosticReport:
        """Measure the finished run, write its report, and remove the resume state."""
        samples = Evaluation(self.data.test_x, self.data.test_y, self.batches, self.data.hash)
        report = audit_run(self.writer.folder, self.device, samples)
        self.manifest = read_manifest(self.writer.folder)
        remove(self.writer.folder / RESUME)
        return report.with_thresholds(self.order.thresholds)

    def _save(self) -> None:
        """Save the run up to this epoch; last the resume state, which a resumed run starts from."""
        state = ResumeState(
            net=self.net.state_dict(),
            method=self.method.state_dict(),
            training=self.method.training_state(),
            optimizer=self.optimizer.state_dict(),
            epochs_done=self.manifest.epochs_done,
        )
        self.writer.weights(self.manifest, state["net"], state["method"])
        self.writer.trace(self.trace)
        self.writer.manifest(self.manifest)
        save_state(self.writer.folder / RESUME, state)

    def _restore(self, found: Manifest) -> None:
        path = self.writer.folder / RESUME
        with reading(path, "cannot resume from it", "train the run again with --overwrite"):
            state = load_state(path, self.device)
            self.net.load_state_dict(state["net"])
            self.method.load_state_dict(state["method"])
            self.method.load_training_state(state["training"])
            restore_optimizer(self.optimizer, state["optimizer"])
            done = state["epochs_done"]
            trace = path.with_name(TRACE)
            lines = read_file(trace).splitlines() if is_file(trace) else []
            self.trace = [epoch for epoch in map(loads, lines[:done]) if isinstance(epoch, dict)]
            # one more is of an epoch of which nothing else was saved
            if not len(lines) - 1 <= done == len(self.trace) <= self.recipe.epochs:
                of = f"of {self.recipe.epochs} epochs"
                own = f"{len(self.trace)} of the {len(lines)} lines of {TRACE}"
                raise ValueError(f"{done} {of} are done, and {own} are of these")
        self.manifest = replace(found, epochs_done=len(self.trace))


_SAME_ON_RESUME = (
    "method",
    "arch",
    "arch_args",
    "data",
    "data_hash",
    "seed",
    "method_args",
    "recipe",
    "eval_seed",
)
"""Fields of a manifest that a resumed run must not change."""


def _check_same(found: Manifest, planned: Manifest, folder: Path) -> None:
    """Check that a run is resumed with its own settings.

    Raises:
        UsageError: names the first setting that differs.
    """
    for name in _SAME_ON_RESUME:
        was = getattr(found, name)
        now = getattr(planned, name)
        if was != now:
            raise UsageError(
                f"the run there has {name} {was}, not {now}",
                where=folder,
                hint="train into another --out folder",
            )


def audit_run(folder: Path, device: torch.device, samples: Evaluation) -> DiagnosticReport:
    """Measure a run with (d)'s baseline from its siblings; write its manifest and ``audit.json``.

    Args:
        folder: the run folder.
        device: to measure on.
        samples: its evaluation samples, if loaded already.

    Raises:
        FaError: the run cannot be read or measured, or the report cannot be written.
    """
    manifest = read_manifest(folder)
    job = Job(id=folder.name, checkpoint=str(folder))
    report = measure_run(job, str(device), JobProgress(), samples)
    row = replace(row_of_manifest(manifest, str(folder)), report=report)
    report = with_baselines([row])[0].report
    manifest = replace(manifest, headline_acc=report.headline_acc)
    RunWriter(folder).manifest(manifest)
    provenance = {
        **report.provenance,
        "checkpoint": folder.name,
        "hashes": input_hashes(folder),
        STAMP: stamp(folder),
    }
    if BASELINE_FROM in provenance:
        provenance[BASELINE_FROM] = Path(provenance[BASELINE_FROM]).name  # folders are moved
    report = replace(report, provenance=provenance)
    write_json(folder / AUDIT, printable_drift(report))
    return report


def train_run(
    order: Order,
    data: DataSet,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    progress: JobProgress,
) -> Trained:
    """Train a run, measure every epoch, and audit the result.

    The folder is complete after every epoch: an interrupt or a kill loses the current epoch only. A
    loss that becomes NaN ends the run, which is then audited as well.

    Args:
        order: the run, and how it is trained.
        data: the data set of its plan.
        folder: the run folder.
        device: to train on.
        progress: gets the steps, and a note after every epoch.

    Returns:
        The audited run.

    Raises:
        UsageError: an invalid name, size or diagnostic, or a run already in `folder`.
        FaError: the folder cannot be written.
    """
    device = torch.device(device)
    with deterministic(order.plan.seed, device), memory_for(folder, str(device)):
        run = Training(order, data, folder, device)
        report = None
        if not run.start_or_resume():
            with ProgressFiles() as files, files.of(folder):
                run.train(files, progress)
                report = run.audit()
        return Trained(folder=folder, manifest=run.manifest, report=report)
