"""Job descriptions, their progress, and the options that make them repeatable. No torch."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import msgspec

import fa_core
from fa_core.decode import Json, reading
from fa_core.engine.devices import check_counts
from fa_core.errors import FaError, MeasureError, UnreadableInput, UsageError
from fa_core.facts.run_names import CREDIT, MANIFEST, WEIGHTS, is_run, read_manifest
from fa_core.files import exists, is_folder, open_file
from fa_core.formats.checkpoint_file import damage, files_of
from fa_core.option_values import check_data_set, network_spec
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem

STAMP = "files"
"""Where provenance has the `stamp` of the weights."""

HASHED = 1 << 26
"""Bytes of checkpoints that are read when a file is opened, to see whether they changed."""

_AGAIN = "what is shown was measured before: `fa-tui verify` compares"


def ignore(*_: object) -> None:
    """A listener that does nothing."""


class MeasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that decide a run's numbers; kept in its provenance, so that it can be measured
    again.

    Attributes:
        data: data SPEC; None = the one in the run's manifest.
        data_typed: whether the user typed that SPEC, so that it may name code; a recorded one may
            not.
        model: the network's SPEC, see `fa_core.models.named` (typed by the user, never read from a
            file).
        weights: which mapping of tensors in the file, by its name there; None = the first that fits
            the network.
        taps: module-name patterns of the stream h_0..h_L; empty = the network's own stream.
        batches: K, the evaluation batches behind (c); None = the manifest's, else 10.
        batch_size: B of each; None = the manifest's, else 128.
        norm_batches: how many of them (a) and (b) use.
        eval_seed: which samples they hold; None = the manifest's, else 0.
        dtype: the arithmetic: None (half precision in float32, others as they are), ``"as-is"`` or
            ``"float64"``.
        credit: ``"none"``, ``"gamma"`` (Γ and nudge per layer, and the null) or ``"full"`` (also
            ρ); only where the run saved its credit.
        null_draws: how many fresh feedbacks Γ's null is of; None = as the rule allows.
        resamples: R of the bootstrap over batches and samples; 0 = none.
        precision: whether the gradients are compared with float64 ones.
    """

    data: str | None = None
    data_typed: bool = True
    model: str | None = None
    weights: str | None = None
    taps: list[str] = []
    batches: int | None = None
    batch_size: int | None = None
    norm_batches: int = 1
    eval_seed: int | None = None
    dtype: str | None = None
    credit: Literal["none", "gamma", "full"] = "gamma"
    null_draws: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    resamples: int = 0
    precision: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run to be measured.

    Attributes:
        id: unique in its pool.
        checkpoint: absolute path of a run folder or a checkpoint file.
        method: the name for the report; empty = the manifest's.
        seed: the run's seed, if known.
        axes: what else distinguishes the run.
        options: the settings.
    """

    id: str
    checkpoint: str
    method: str = ""
    seed: int | None = None
    axes: Json = {}
    options: MeasureOptions = MeasureOptions()


def run_of(checkpoint: Path) -> Path | None:
    """The run folder of a checkpoint: itself, or the one whose weights it is; None for a bare
    file."""
    if is_folder(checkpoint):
        return checkpoint
    if checkpoint.name == WEIGHTS and is_run(checkpoint.parent):
        return checkpoint.parent
    return None


def file_hash(path: Path, *more: Path) -> str:
    """``sha256:…`` of a file's bytes, followed by those of others.

    Raises:
        UnreadableInput: it cannot be read.
    """
    import hashlib  # not at the explorer's start

    digest = hashlib.sha256()
    for each in (path, *more):
        with reading(each), open_file(each) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def input_hashes(checkpoint: Path) -> dict[str, str]:
    """Hashes of the files a measurement reads: ``weights``, and of a run also ``manifest`` and
    ``credit``.

    Raises:
        UnreadableInput: no weights, or a file that cannot be read.
    """
    run = run_of(checkpoint)
    if run is None:
        return {"weights": file_hash(*files_of(checkpoint))}
    files = {"weights": run / WEIGHTS, "manifest": run / MANIFEST, "credit": run / CREDIT}
    return {
        name: file_hash(file) for name, file in files.items() if name == "weights" or exists(file)
    }


def stamp(checkpoint: Path) -> list[list[int]]:
    """Size and time of change (ns) of each file that holds the weights; none of what is not
    there."""
    run = run_of(checkpoint)
    with suppress(OSError, UnreadableInput):
        found = [
            file.stat() for file in ([run / WEIGHTS] if run is not None else files_of(checkpoint))
        ]
        return [[status.st_size, status.st_mtime_ns] for status in found]
    return []


def changed_since(rows: Iterable[AuditRow]) -> Iterator[Problem]:
    """The runs whose weights are not those that were measured any more.

    Files are looked into only where size or time differ from what was recorded, and then up to
    `HASHED` bytes in all.
    """
    left = HASHED
    for row in rows:
        if row.checkpoint is None:
            continue
        facts, path = row.report.provenance, Path(row.checkpoint)
        then, now = facts.get(STAMP), stamp(path) if STAMP in facts else []
        if not now or now == then:
            continue
        left -= sum(size for size, _ in now)
        with suppress(FaError):
            hashes = facts.get("hashes")
            if (
                left >= 0
                and isinstance(hashes, dict)
                and input_hashes(path)["weights"] != hashes.get("weights")
            ):
                yield Problem(
                    row.source, f"{row.source}: {row.key}: {path} changed since; {_AGAIN}"
                )


FORMULAS = "2"
"""Raised where a report gets a new number, or the same measurement another interval or null of Γ.
Unsaid = 1."""


def versions() -> dict[str, str]:
    """The versions of Python, of this program, and of the packages that decide numbers."""
    import importlib.metadata

    found = {"python": platform.python_version(), "fa-tui": fa_core.__version__}
    found["formulas"] = FORMULAS
    for package in ("torch", "numpy"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def job_for(row: AuditRow, job_id: str, options: MeasureOptions) -> Job:
    """The job that measures a row, whose checkpoint is an absolute path."""
    return Job(
        id=job_id,
        checkpoint=row.checkpoint or "",
        method=row.method,
        seed=row.seed,
        axes=row.axes,
        options=options,
    )


def group_key(job: Job) -> tuple[str, ...] | None:
    """What jobs share that may be measured in common passes: the ``--model`` text, or arch and
    arch_args of the run.

    All checkpoints outside a run folder share one key: the worker, which reads them, compares their
    networks. None = there is no such run: measured alone.
    """
    if job.options.model is not None:
        return (job.options.model,)
    run = run_of(Path(job.checkpoint))
    if run is None:
        return ()
    try:
        manifest = read_manifest(run)
    except FaError:
        return None
    return manifest.arch, json.dumps(manifest.arch_args, sort_keys=True)


class JobState(str, Enum):
    """The states of a job. The last three are final until it is retried."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job and its state now: what a list of jobs shows, and what every event carries.

    Attributes:
        job: the job.
        state: its state.
        device: the device it runs or ran on; of a queued job, the one whose worker will measure it
            after others that it holds (``""`` = no worker has taken it yet, so that it can be
            moved).
        done: batches measured so far.
        total: batches there are (0 = not known yet).
        note: the last note of the worker, e.g. that it halved the batch.
        error: one line, why it failed.
        log: the log file of the worker it ran on.
        pid: the process of that worker, on this machine (0 = none, or on another one).
        silent: seconds since the last message of that worker, once they are many (0 = they are
            not). Of a queued job that no worker has taken: of one that starts, with its ``pid`` and
            ``device``.
        report: what was measured, once it is done.
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
    silent: int = 0
    report: DiagnosticReport | None = None


def check_options(options: MeasureOptions) -> None:
    """Refuse before a worker starts what every worker would refuse.

    Raises:
        UsageError: an unknown data set or network, a count below 1.
    """
    check_counts(
        batches=options.batches, batch_size=options.batch_size, norm_batches=options.norm_batches
    )
    if options.model is not None:
        network_spec(options.model)
    if options.data is not None:
        check_data_set(options.data)


def no_data(checkpoint: Path | str) -> FaError:
    """The error for a checkpoint without a manifest and without --data; that it is gone or damaged
    goes before."""
    path = Path(checkpoint)
    if not exists(path):
        return UnreadableInput(
            "is not there any more", where=path, hint="put it back, or open its folder anew"
        )
    fault = damage(path / WEIGHTS if is_folder(path) else path)
    return fault or UsageError(
        "nothing says which data to measure it on",
        where=checkpoint,
        hint=(
            "a checkpoint without a manifest needs --data SPEC, e.g. --data synthetic or --data "
            "cifar10:DIR"
        ),
    )


DEFAULT_MEASURE = "fa_core.engine.group_runner:GroupRunner"
"""What workers run: a class like `GroupRunner`, made for a device."""


class Cancelled(Exception):
    """The job that is being measured was cancelled."""


class DeviceFull(MeasureError):
    """The memory of a device is taken by other processes."""


class Watch:
    """Where a measuring function reports its progress; this one shows nothing."""

    def progress(self, done: int, total: int) -> None:
        """Batches measured so far.

        Raises:
            Cancelled: the job was cancelled; let it through.
        """

    def note(self, text: str) -> None:
        """Something the user should know about this run."""
