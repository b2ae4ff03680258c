"""A run folder as one row: manifest, report, weights, trace; and what a process does with it now.

`fa-tui train` and `fa-tui audit` write ``RUN/progress.json`` every few seconds while they work on a
run, and remove it when the run is finished, or its measurement is over. One that is left behind
shows a training that failed or was stopped, or a process that died; an audit leaves that of a
training.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.atomic import remove, write_json
from fa_core.files.decode import Json, loads, reading, without
from fa_core.files.opening import MissingFile, is_file, read_file
from fa_core.formats import log_files
from fa_core.formats.json_document import Finding, open_document
from fa_core.formats.report_object import check_run, decode_report
from fa_core.formats.rows import AuditRow, Problem, row_named, row_of_manifest
from fa_core.formats.trace import Trace
from fa_core.report import manifest as run_files
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import canonical_method, control_of
from fa_core.report.provenance import Count
from fa_core.report.report_facts import TRAINING
from fa_core.sanitize import WHITE_SPACE, sanitize


def sniff(folder: Path) -> bool:
    """Whether a folder's ``manifest.json`` describes a run: web pages and datasets have such files,
    too; one that is damaged lies beside other files of a run."""
    try:
        data = loads(read_file(folder / run_files.MANIFEST, run_files.LARGEST_MANIFEST))
    except (UnreadableInput, ValueError):
        others = run_files.RUN_FILES - {run_files.MANIFEST}
        return any(is_file(folder / name) for name in others)
    if not isinstance(data, dict):
        return False
    return (
        str(data.get("format", "")).startswith("fa-run/")
        or {"method", "arch", "data"} <= data.keys()
    )


def read(folder: Path, *, trace: bool = True) -> Iterator[Finding]:
    """The row of a run folder, and its trace if requested; nothing for other folders.

    An invalid report or trace is a problem; the row is still read.

    Raises:
        UnreadableInput: the manifest cannot be read.
    """
    manifest = _manifest(folder)
    if manifest is None:
        work = look_at(folder)
        # a training that has written nothing else yet
        if work and work.doing == "training":
            report = DiagnosticReport(unmeasured={TRAINING: work.text()})
            row = row_named(folder.name, str(folder))
            yield replace(row, report=report, checkpoint=row.source)
        return
    source, audit = str(folder), folder / run_files.AUDIT
    report = DiagnosticReport(
        method_name=manifest.method,
        seed=manifest.seed,
        axes=manifest.axes,
    )
    try:
        if found := recorded_report(audit, manifest):
            report = found
        elif state := _training(folder, manifest):
            report = replace(report, unmeasured={TRAINING: state})
    except FaError as error:
        yield Problem(source, str(error))
    row = replace(
        row_of_manifest(manifest, source),
        key=sanitize(folder.name or folder.absolute().name, WHITE_SPACE),
        method=canonical_method(manifest.method),
        report=report,
        axes=manifest.axes,
    )
    yield row
    try:
        yield from _trace(folder / run_files.TRACE, row, asdict(manifest)) if trace else ()
    except FaError as error:
        yield Problem(source, str(error))


def recorded_report(audit: Path, manifest: run_files.Manifest | None) -> DiagnosticReport | None:
    """The report in a run folder; None if there is none.

    Raises:
        UnreadableInput: it cannot be read, or names another run than the manifest.
    """
    path, data = str(audit), _bytes(audit)
    if data is None:
        return None
    found = decode_report(open_document(path, data).members, f"{path}: $")
    if manifest:
        said = {**dict.fromkeys(found.axes, "nothing"), **manifest.axes}
        method, _ = control_of(canonical_method(manifest.method))
        check_run(found, said | {"method": method, "seed": manifest.seed}, "manifest", path)
    return found


def _manifest(folder: Path) -> run_files.Manifest | None:
    """The manifest; None if the folder is not a run."""
    try:
        return run_files.read_manifest(folder)
    except UnreadableInput as error:
        if not isinstance(error, MissingFile) and sniff(folder):
            raise
        return None


def _training(folder: Path, manifest: run_files.Manifest) -> str:
    """How far the training of an unmeasured run is, or got; ``""`` if that is not known."""
    if work := look_at(folder):
        return work.text()
    stopped = run_files.stopped_after(asdict(manifest))
    return stopped and f"training ended after {stopped}"


def _trace(path: Path, row: AuditRow, facts: Json) -> Iterator[Finding]:
    data = _bytes(path) or b""
    if not data.strip():
        return
    if row.report.unmeasured.get(TRAINING, "").partition(",")[0] == TRAINING:
        facts = without(facts, "epochs_done")
    named = {"method": row.method, "seed": row.seed, "lam": facts["recipe"].get("lam")}
    for finding in log_files.read(open_document(str(path), data), named):
        if isinstance(finding, Trace):
            finding = replace(
                finding,
                key=row.key,
                method=row.method,
                seed=row.seed,
                axes=row.axes,
                provenance=facts,
            )
        yield finding


def _bytes(path: Path) -> bytes | None:
    """The bytes of a file; None if it is missing."""
    try:
        return read_file(path)
    except MissingFile:
        return None


HEARTBEAT_SECONDS = 5.0
"""How often the file is written."""

STALE_SECONDS = 60.0
"""A heartbeat older than this is that of a process that died, or of a machine that hangs."""

Doing: TypeAlias = Literal["training", "measuring"]

_LARGEST = 1 << 16
_SAME_START_SECONDS = 2.0
"""By how much the start of a process, as two programs read it, may differ."""


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is, as its process wrote it last.

    Attributes:
        doing: what the process does with the run.
        pid: the process.
        host: the machine it runs on.
        process_started: when it started, in seconds since 1970: process numbers are used again.
        heartbeat: when this was written, in seconds since 1970.
        epoch: the epoch in training, from 1; of a measurement, batches measured.
        epochs: how many there are; 0 = not known.
        step: steps done in the epoch.
        steps: steps of an epoch.
        ended: why the process let go of the run before it was finished; ``""`` while it works.
    """

    doing: Doing
    pid: Count
    host: str
    process_started: float
    heartbeat: float
    epoch: int = 0
    epochs: int = 0
    step: int = 0
    steps: int = 0
    ended: str = ""

    @property
    def is_here(self) -> bool:
        """Whether the process is, or was, on this machine."""
        return self.host == socket.gethostname()

    def is_at_work(self) -> bool:
        """Whether the process still works on the run.

        On this machine the process is looked up; on another one the heartbeat has to be within
        `STALE_SECONDS` of now.
        """
        if self.ended:
            return False
        if not self.is_here:
            return abs(time.time() - self.heartbeat) <= STALE_SECONDS
        import psutil

        with suppress(psutil.Error):
            started = float(psutil.Process(self.pid).create_time())
            # it is not another process of the same number
            return abs(started - self.process_started) <= _SAME_START_SECONDS
        return False

    def place(self) -> str:
        """How far it is: ``epoch 5 of 12, step 150 of 390``; ``""`` where that is not known yet."""
        parts = []
        if self.epochs:
            unit = "epoch" if self.doing == "training" else "batch"
            parts.append(f"{unit} {self.epoch} of {self.epochs}")
        if self.steps:
            parts.append(f"step {self.step} of {self.steps}")
        return ", ".join(parts)

    @property
    def state(self) -> str:
        """``running``, or ``ended`` before the run was finished."""
        return "ended" if self.ended else "running"

    def text(self) -> str:
        """``training, epoch 5 of 12``; of a run that is let go of, why."""
        place = self.place()
        if self.ended:
            return f"{self.doing} ended{place and f' in {place}'}: {self.ended}"
        return ", ".join(filter(None, [self.doing, place]))


def read_progress(folder: Path) -> RunProgress | None:
    """The progress file of a run folder; None without one, or with one that cannot be read."""
    path = folder / run_files.PROGRESS
    with suppress(FaError), reading(path, "not a progress file"):
        return msgspec.convert(loads(read_file(path, _LARGEST)), RunProgress)
    return None


def look_at(folder: Path) -> RunProgress | None:
    """What is done with a run now, without the time of its heartbeat, ended where its process died;
    None where its folder has no progress file."""
    progress = read_progress(folder)
    if progress is None:
        return None
    why = progress.ended
    if not why and not progress.is_at_work():
        why = "its process died"
    return replace(progress, heartbeat=0.0, ended=why)


@contextmanager
def starting(runs: Mapping[Path, int]) -> Iterator[None]:
    """Say in new run folders that their training starts, before what that needs is loaded; if it
    cannot start, they are removed.

    Args:
        runs: folder → number of epochs.
    """
    files, made = ProgressFiles(), [folder for folder in runs if not os.path.lexists(folder)]
    try:
        for folder in made:
            files.begin(folder, "training", runs[folder])
        yield
    except BaseException:
        for folder in made:
            files.end(folder)
            with suppress(OSError):
                folder.rmdir()
        raise


def forget_measuring(folder: Path, pid: int) -> None:
    """Remove what a process that died left of a measurement in a run folder: it is the user's data,
    and a measurement is begun again."""
    found = read_progress(folder)
    if found and found.pid == pid and found.is_here and found.doing != "training":
        _remove(folder)


class ProgressFiles:
    """Writes the progress files of the runs that this process works on; a context manager.

    A run folder that cannot be written to has no progress file; nothing else depends on it.
    """

    def __init__(self) -> None:
        self._at_work: dict[Path, RunProgress] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="progress", daemon=True)

    def __enter__(self) -> ProgressFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for folder in list(self._at_work):
            self.end(folder)

    def __contains__(self, folder: Path) -> bool:
        """Whether this process works on a run."""
        return folder in self._at_work

    def begin(self, folder: Path, doing: Doing, epochs: int = 0) -> None:
        """This process works on a run from now on; what its training wrote stays while it is
        measured, and so does another program's file of that name."""
        before = read_progress(folder)
        is_there = os.path.lexists(folder / run_files.PROGRESS)
        if doing == "measuring" and is_there and (before is None or before.doing == "training"):
            return
        import psutil

        progress = RunProgress(
            doing=doing,
            pid=os.getpid(),
            host=socket.gethostname(),
            process_started=psutil.Process().create_time(),
            heartbeat=0.0,
            epochs=epochs,
        )
        with self._lock:
            self._at_work[folder] = progress
            _write(folder, progress)

    def update(self, folder: Path, epoch: int, epochs: int, step: int = 0, steps: int = 0) -> None:
        """How far a run is; a new epoch is written at once, steps with the next heartbeat."""
        with self._lock:
            before = self._at_work[folder]
            progress = replace(before, epoch=epoch, epochs=epochs, step=step, steps=steps)
            self._at_work[folder] = progress
            if epoch != before.epoch:
                _write(folder, progress)

    def end(self, folder: Path, why: str = "") -> None:
        """This process lets go of a run: finished, or else `why` it is not."""
        with self._lock:
            progress = self._at_work.pop(folder, None)
            if progress and why:
                _write(folder, replace(progress, ended=why))
            elif progress:
                _remove(folder)

    @contextmanager
    def of(self, folder: Path) -> Iterator[None]:
        """Train a run inside; an error, or Ctrl-C, is why it is not finished."""
        self.begin(folder, "training")
        try:
            yield
        except BaseException as error:
            self.end(folder, f"failed: {error}" if isinstance(error, Exception) else "stopped")
            raise
        self.end(folder)

    def _beat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            with self._lock:
                for folder, progress in self._at_work.items():
                    _write(folder, progress)


def _remove(folder: Path) -> None:
    with suppress(FaError, OSError):
        remove(folder / run_files.PROGRESS)


def _write(folder: Path, progress: RunProgress) -> None:
    """Write a progress file with the heartbeat of now."""
    now = replace(progress, heartbeat=time.time())
    with suppress(FaError):
        write_json(folder / run_files.PROGRESS, msgspec.to_builtins(now))
