"""Jobs, their states, and the options that make them repeatable. No torch."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

import fa_core
from fa_core.audit.devices import check_counts
from fa_core.errors import FaError, MeasureError, UnreadableInput, UsageError
from fa_core.files.decode import Json
from fa_core.files.opening import exists
from fa_core.formats.checkpoint_file import distributed
from fa_core.formats.rows import AuditRow
from fa_core.option_values import (
    LOSSES,
    check_data_set,
    check_known_or_code,
    network_spec,
)
from fa_core.report.diagnostic_report import DiagnosticReport

GAMMA, FULL = "gamma", "full"
CREDITS = ("none", GAMMA, FULL)
"""Levels of credit quality."""

AUTO: Literal["auto"] = "auto"
"""Number of batches that is found while measuring."""

DECIDE_AT = 0.3
"""The ceiling of (c) by which `AUTO` decides, unless another is given."""


OnNote: TypeAlias = Callable[[str], None]
"""Called with a note for the user."""


def ignore(*_: object) -> None:
    """Do nothing: the default listener."""


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that decide a run's numbers; kept in its provenance to measure it again.

    Attributes:
        data: data SPEC; None = the one in the run's manifest.
        data_typed: whether the user typed the SPEC; only then it may name code.
        model: SPEC of the network, see `fa_core.zoo.models.named`; typed by the user, never read
            from a file.
        weights: name of the mapping of tensors in the file; None = the first that fits the network.
        taps: module-name patterns of the stream h_0..h_L; empty = the network's own stream.
        logits: where the network's output has the logits: a place, a key or attribute, or
            ``module:callable``, a function of the output; typed by the user if it names code.
        loss: the loss whose gradients are measured: None = ``"ce"``, ``"bce"``, ``"mse"`` or
            ``module:callable``; typed by the user if it names code.
        batches: K, the evaluation batches behind (c); ``"auto"`` = 8, 16, 32 or 64, until (c) is
            decided; None = the manifest's, else 10.
        decide_at: the ceiling of (c) by which ``"auto"`` decides.
        batch_size: B of each; None = the manifest's, else 128.
        norm_batches: number of batches for (a) and (b).
        dtype: arithmetic: None (half precision in float32, others unchanged), ``"as-is"`` or
            ``"float64"``.
        credit: ``"none"``, ``"gamma"`` (Γ and nudge per layer, and the null) or ``"full"`` (also
            ρ); only where the run saved its credit. Or ``module:callable``, a function (model, x,
            y) -> [a_0..a_L]; typed by the user.
        null_draws: draws of fresh feedback for Γ's null; None = the rule's default.
        precision: whether to compare the gradients with float64 ones.
        ablate: whether to measure accuracy without each block.
    """

    data: str | None = None
    data_typed: bool = True
    model: str | None = None
    weights: str | None = None
    taps: list[str] = []
    logits: str | None = None
    loss: str | None = None
    batches: int | Literal["auto"] | None = None
    decide_at: float = DECIDE_AT
    batch_size: int | None = None
    norm_batches: int = 1
    dtype: str | None = None
    credit: str = GAMMA
    null_draws: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    precision: bool = False
    ablate: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A run to measure, or to train.

    Attributes:
        id: unique in its pool.
        checkpoint: absolute path of a run folder or a checkpoint file.
        method: the name for the report; empty = the manifest's.
        seed: the run's seed, if known.
        axes: further coordinates of the run.
        options: the settings.
        training: a `fa_core.training.plan.Order`: train the run into its folder; None = measure it.
    """

    id: str
    checkpoint: str
    method: str = ""
    seed: int | None = None
    axes: Json = {}
    options: MeasureOptions = MeasureOptions()
    training: Json | None = None


FORMULAS = "4"
"""Version of the formulas: raised with every new number, interval or null of Γ. Missing = 1."""


def versions() -> dict[str, str]:
    """Versions of Python, this program, and the packages that decide numbers."""
    import importlib.metadata

    found = {
        "python": platform.python_version(),
        "fa-tui": fa_core.__version__,
        "formulas": FORMULAS,
    }
    for package in ("torch", "numpy"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def job_for(row: AuditRow, job_id: str, options: MeasureOptions) -> Job:
    """The job of a row with an absolute checkpoint path."""
    return Job(
        id=job_id,
        checkpoint=row.checkpoint or "",
        method=row.method,
        seed=row.seed,
        axes=row.axes,
        options=options,
    )


class JobState(str, Enum):
    """States of a job. The last three are final until a retry."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its current state, as lists show it and events carry it.

    Attributes:
        job: the job.
        state: its state.
        device: its device; of a queued job, that of the worker that has taken it (``""`` = not
            taken, so that it can be moved).
        done: batches measured, or steps trained, so far.
        total: all of them (0 = not known yet).
        note: last note of the worker, e.g. that it halved the batch.
        error: one-line error of a failed job.
        log: log file of its worker.
        pid: process of its worker on this machine (0 = none, or on another machine).
        report: its report, once it is done.
    """

    job: Job
    state: JobState = JobState.QUEUED
    device: str = ""
    done: int = 0
    total: int = 0
    note: str = ""
    error: str = ""
    log: str = ""
    pid: int = 0
    report: DiagnosticReport | None = None


def check_options(options: MeasureOptions) -> None:
    """Check options before a worker starts.

    Raises:
        UsageError: an unknown data set, network, loss or credit, a count below 1.
    """
    check_counts(
        batches=None if options.batches == AUTO else options.batches,
        batch_size=options.batch_size,
        norm_batches=options.norm_batches,
    )
    if options.model is not None:
        network_spec(options.model)
    if options.data is not None:
        check_data_set(options.data)
    if options.loss is not None:
        check_known_or_code("loss", options.loss, LOSSES)
    check_known_or_code("credit", options.credit, CREDITS)


def no_data(checkpoint: Path | str) -> FaError:
    """The error for a checkpoint without a manifest and without --data; a missing file, or one that
    has to be converted, is reported instead."""
    path = Path(checkpoint)
    if not exists(path):
        return UnreadableInput(
            "is not there any more", where=path, hint="put it back, or open its folder anew"
        )
    return distributed(str(path)) or UsageError(
        "nothing says which data to measure it on",
        where=checkpoint,
        hint=(
            "a checkpoint without a manifest needs --data SPEC, e.g. --data synthetic or --data "
            "cifar10:DIR; one of a network of your own needs --model module:callable too"
        ),
    )


class Cancelled(BaseException):
    """The job was cancelled while it ran. No `Exception`, so that no network's code keeps it."""


class DeviceFull(MeasureError):
    """Other processes fill the memory of a device."""


UPDATES_PER_SECOND = 20
"""Maximum rate at which the progress of a job is shown."""


@dataclass
class JobProgress:
    """Progress of a job, measured or trained.

    Attributes:
        show: called with (done, total), at a limited rate.
        note: called with notes for the user about the run.
        check: called at every step; raises `Cancelled` once the job is cancelled.
    """

    show: Callable[[int, int], None] = ignore
    note: OnNote = ignore
    check: Callable[[], None] = ignore
    _next = 0.0
    _total = 0

    def update(self, done: int, total: int) -> None:
        """Batches measured, or steps trained, so far.

        Raises:
            Cancelled: the job was cancelled; let it through.
        """
        self.check()
        now = time.monotonic()
        if now >= self._next or done == total or total != self._total:
            self._next = now + 1 / UPDATES_PER_SECOND
            self._total = total
            self.show(done, total)
