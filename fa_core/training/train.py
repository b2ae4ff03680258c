"""Train one run into a run folder: deterministic, resumable, watched by the four diagnostics.

The folder is complete after every epoch. A finished run is measured from its files, exactly as `fa-tui audit`
measures them.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from fa_core.atomic import write_bytes, write_json
from fa_core.data import DataSet, eval_batches
from fa_core.decode import loads, reading
from fa_core.engine.group_runner import measure_run
from fa_core.engine.jobs import Job, MeasureOptions, Watch, input_hashes, versions
from fa_core.engine.loading import TEST_BATCH, Evaluation
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.facts.runs import (
    AUDIT,
    CREDIT,
    MANIFEST,
    RESUME,
    TRACE,
    WEIGHTS,
    Manifest,
    is_run,
    read_manifest,
)
from fa_core.facts.trace import trace_entry, write_trace
from fa_core.files import open_file, read_file
from fa_core.formats.audit_table_writer import printable_drift
from fa_core.formats.run_folder import judged_by_siblings
from fa_core.judgement.baseline import BASELINE_RULE, FROZEN
from fa_core.judgement.diagnostics import DiagnosticThresholds
from fa_core.measure.accuracy import accuracy
from fa_core.measure.credit import method_gamma
from fa_core.measure.diagnose import diagnose
from fa_core.methods import make_method, method_class
from fa_core.models import ARCHS, build
from fa_core.option_values import diagnostic_letters, unknown_name
from fa_core.report import DiagnosticReport
from fa_core.training.plan import Recipe, RunPlan, plan_runs, there_already

__all__ = ["Moment", "Recipe", "RunPlan", "Trained", "check_plans", "plan_runs", "train_run"]

Batches = list[tuple[Tensor, Tensor]]

CHECK_EVERY = 50
"""Steps between two looks at whether the loss is still finite: on a GPU each look waits for the device."""


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


class RunWriter:
    """The files of one run folder. Every write is atomic: a kill between two leaves both readable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self, manifest: Manifest) -> None:
        """Write ``manifest.json``; fields that say nothing are left out."""
        fields = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
        said = {name: value for name, value in fields.items() if value is not None and value != {}}
        write_json(self.folder / MANIFEST, msgspec.to_builtins(said))

    def weights(
        self, manifest: Manifest, net: Mapping[str, Tensor], credit: Mapping[str, Tensor]
    ) -> None:
        """Write ``model.safetensors`` and, if the method has any tensors, ``credit.safetensors``.

        Both carry method, seed and epoch in their metadata, so that a file alone still says what it is.
        """
        label = {
            "method": manifest.method,
            "seed": str(manifest.seed),
            "epoch": str(manifest.epochs_done),
        }
        if credit:
            write_bytes(self.folder / CREDIT, save(_plain(credit), label))
        write_bytes(self.folder / WEIGHTS, save(_plain(net), label | {"arch": manifest.arch}))

    def trace(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """Write ``trace.jsonl``, one epoch per line; no epoch, no file."""
        if epochs:
            write_trace(self.folder / TRACE, epochs)

    def start(self) -> None:
        """Remove what an earlier run left: none of it is true of the new one."""
        for name in (AUDIT, CREDIT, TRACE, RESUME):
            (self.folder / name).unlink(missing_ok=True)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies: safetensors refuses views and shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}


def steps_per_epoch(data: DataSet, recipe: Recipe) -> int:
    """Full batches in the training samples.

    Raises:
        UsageError: the batch is larger than the data set.
    """
    steps = len(data.train_y) // recipe.batch_size
    if steps == 0:
        what = f"a batch of {recipe.batch_size} is larger than the {len(data.train_y)} training samples of {data.spec}"
        raise UsageError(what, hint="give a smaller --batch-size")
    return steps


def sample_order(count: int, seed: int, epoch: int) -> Tensor:
    """The permutation of an epoch: it depends on seed and epoch only, so a resumed run sees the same samples."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(count, generator=generator)


@contextmanager
def deterministic(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded generators and deterministic kernels inside; the caller's afterwards."""
    strict, warn = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
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
    given_data = f"{data.spec} gives samples of shape {data.input_shape}"
    decided: dict[str, Any] = {"num_classes": data.num_classes}
    if "input_dim" in known:
        decided["input_dim"] = math.prod(data.input_shape)
    elif "vocab" in known:
        x = data.train_x
        if x.dim() != 2 or int(x.min()) < 0 or not torch.equal(x, x.round()):
            hint = "choose data of whole numbers from 0 on, the label the token that follows"
            raise UsageError(
                f"{arch} takes token numbers (samples, tokens), {given_data}", hint=hint
            )
        top = max(int(x.max()), int(data.test_x.max()))
        decided |= {"length": x.shape[1], "vocab": max(top + 1, data.num_classes)}
    else:
        shape = data.input_shape
        if len(shape) != 3 or shape[1] != shape[2]:
            hint = "choose image data such as cifar10:DIR, or --arch resmlp"
            raise UsageError(
                f"{arch} takes square images (channels, size, size), {given_data}", hint=hint
            )
        decided |= {"channels": shape[0], "image": shape[1]}
    return {name: value for name, value in decided.items() if name in known} | given


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
        self.recipe = plan.recipe if rule.trains else msgspec.structs.replace(plan.recipe, epochs=0)
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
            **{
                name: getattr(plan, name)
                for name in ("arch", "eval_seed", "seed", "method_args", "axes")
            },
            method=rule.name,
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
        """Start, or go on from the last complete epoch; the manifest of a run that is already finished."""
        folder = self.writer.folder
        if is_run(folder) and not overwrite:
            found = read_manifest(folder)
            if not resume:
                raise there_already(folder)
            _check_same(found, self.manifest, folder)
            if found.stopped or (
                found.epochs_done >= self.recipe.epochs and not (folder / RESUME).exists()
            ):
                return found
            self._restore(found)
            return None
        self.writer.start()
        self._save()
        return None

    def train(self, stop_on: frozenset[str], on_moment: Callable[[Moment], None]) -> None:
        """Train the epochs that are left."""
        found = judged_by_siblings(DiagnosticReport(), self.writer.folder, self.manifest)
        self.baseline = found.frozen_baseline_acc
        while (
            self.optimizer
            and self.manifest.epochs_done < self.recipe.epochs
            and not self.manifest.stopped
        ):
            # a baseline that stops before the runs it is compared with is none
            self._train_epoch(frozenset() if self.manifest.method == FROZEN else stop_on, on_moment)

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
        assert self.optimizer is not None
        epoch, epochs = self.manifest.epochs_done + 1, self.recipe.epochs
        moment = Moment(
            self.name, epoch, epochs, step=0, steps=steps_per_epoch(self.data, self.recipe)
        )
        start, stopped = time.perf_counter(), None
        try:
            loss = self.epoch(
                epoch, lambda step: on_moment(msgspec.structs.replace(moment, step=step))
            )
        except Diverged as error:
            loss, stopped = float("nan"), f"diverged: {error.what}"
        report = self._measured()
        gamma = method_gamma(self.net, self.method, *self.batches[0])
        rate = self.optimizer.param_groups[0]["lr"]
        entry = trace_entry(
            epoch, report, time.perf_counter() - start, loss=loss, lr=rate, gamma=gamma
        )
        fired = report.flags & stop_on
        if fired and not stopped and epoch < epochs:
            letters = ", ".join(f"({letter})" for letter in sorted(fired))
            saved = 100 * (epochs - epoch) / epochs
            stopped = (
                f"{letters} fired at epoch {epoch} of {epochs}: {saved:.0f} % of the epochs saved"
            )
        self.trace.append(entry)
        self.manifest = msgspec.structs.replace(
            self.manifest, epochs_done=epoch, stopped=stopped, headline_acc=report.headline_acc
        )
        self._save()
        on_moment(
            msgspec.structs.replace(moment, step=moment.steps, entry=entry, flags=report.flags)
        )

    def _measured(self) -> DiagnosticReport:
        """The four diagnostics on the evaluation batches, with the accuracy on the whole test part."""
        x, y = (
            torch.split(samples, TEST_BATCH) for samples in (self.data.test_x, self.data.test_y)
        )
        acc, given = accuracy(self.net, zip(x, y, strict=True)), self.thresholds
        return diagnose(self.net, self.batches, acc, self.baseline, thresholds=given)

    def audit(self) -> DiagnosticReport:
        """Measure the finished run and write its report; what only an unfinished run needs goes."""
        held = Evaluation(self.data.test_x, self.data.test_y, self.batches, self.data.hash)
        report = audit_run(self.writer.folder, self.device, held)
        self.manifest = read_manifest(self.writer.folder)
        (self.writer.folder / RESUME).unlink(missing_ok=True)
        return report.with_thresholds(self.thresholds)

    def _save(self) -> None:
        """Everything up to this epoch; the resume state last, since it is what a resumed run believes."""
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
        with reading(trace, "cannot resume from it"):
            self.trace = (
                [loads(line) for line in read_file(trace).splitlines()[:done]] if done else []
            )


def _check_same(found: Manifest, asked: Manifest, folder: Path) -> None:
    """A run is only resumed as what it is."""
    for name in (
        "method",
        "arch",
        "arch_args",
        "data",
        "data_hash",
        "seed",
        "method_args",
        "recipe",
        "eval_seed",
    ):
        was, now = getattr(found, name), getattr(asked, name)
        if was != now:
            hint = "train into another --out folder"
            raise UsageError(f"the run there has {name} {was}, not {now}", where=folder, hint=hint)


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, with the random generators' state."""
    generators = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
    buffer = io.BytesIO()
    torch.save({"state": state, "generators": generators}, buffer)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, device: torch.device) -> dict[str, Any]:
    """The state that `save_state` wrote; the random generators are set back to it.

    Args:
        path: the file.
        device: where its tensors go (the random state stays on the CPU).

    Raises:
        UnreadableInput: missing, cut off, or not such a file.
    """
    problem, hint = "cannot resume from it", "train the run again with --overwrite"
    if not path.exists():
        raise UnreadableInput(f"{problem} (it is missing)", where=path, hint=hint)
    with reading(path, problem, hint):
        with open_file(path) as file:
            saved = torch.load(file, map_location="cpu", weights_only=True)
        state, generators = saved["state"], saved["generators"]
        torch.set_rng_state(generators["cpu"])
        if generators["cuda"] and device.type == "cuda":
            torch.cuda.set_rng_state_all(generators["cuda"])
    return state  # type: ignore[no-any-return]


def audit_run(
    folder: Path, device: torch.device, samples: Evaluation | None = None, resamples: int = 0
) -> DiagnosticReport:
    """Look for (d)'s baseline next to a run, measure the run, and write its manifest and ``audit.json``.

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
    standing = next(
        place for place in (out, *out.absolute().parents) if place.exists() or place.is_symlink()
    )
    if not standing.is_dir():
        raise UsageError(
            "is a file, not a folder",
            where=standing,
            hint="--out names the folder of the run folders",
        )
    for plan in plans:
        run = Run(plan, data, out / plan.name, torch.device("cpu"), DiagnosticThresholds())
        if run.optimizer:
            steps_per_epoch(data, run.recipe)
        if is_run(out / plan.name) and not (resume or overwrite):
            raise there_already(out / plan.name)
