"""A run folder as one row: manifest, report, weights, trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import loads
from fa_core.files.opening import MissingFile, is_file, read_file
from fa_core.formats import log_files
from fa_core.formats.json_document import Finding, open_document
from fa_core.formats.report_object import check_run, decode_report
from fa_core.formats.rows import AuditRow, Problem
from fa_core.formats.run_progress import look_at
from fa_core.formats.trace import Trace
from fa_core.report import manifest as run_files
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import canonical_method
from fa_core.report.provenance import stopped_after
from fa_core.report.report_facts import TRAINING
from fa_core.sanitize import WHITE_SPACE, sanitize


def sniff(folder: Path) -> bool:
    """Whether the folder's ``manifest.json`` describes a run: web pages and datasets have such
    files too."""
    path = folder / run_files.MANIFEST
    try:
        data = loads(read_file(path, run_files.LARGEST_MANIFEST))
    except (UnreadableInput, ValueError):
        return any(
            is_file(folder / name)
            for name in (run_files.WEIGHTS, run_files.CREDIT, run_files.TRACE)
        )
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
        return
    source, audit = str(folder), folder / run_files.AUDIT
    method = canonical_method(manifest.method)
    report = DiagnosticReport(
        method_name=manifest.method,
        seed=manifest.seed,
        axes=manifest.axes,
    )
    try:
        if (data := _bytes(audit)) is not None:
            path = str(audit)
            found = decode_report(open_document(path, data).members, f"{path}: $")
            said = {**dict.fromkeys(found.axes, "nothing"), **manifest.axes}
            check_run(found, {**said, "method": method, "seed": manifest.seed}, "manifest", path)
            report = found
        elif state := _training(folder, manifest):
            report = msgspec.structs.replace(report, unmeasured={TRAINING: state})
    except FaError as error:
        yield Problem(source, str(error))
    row = AuditRow(
        source=source,
        key=sanitize(folder.name or folder.absolute().name, WHITE_SPACE),
        method=method,
        seed=manifest.seed,
        report=report,
        checkpoint=source,
        axes=dict(manifest.axes),
    )
    yield row
    try:
        yield from _trace(folder / run_files.TRACE, row) if trace else ()
    except FaError as error:
        yield Problem(source, str(error))


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
    stopped = stopped_after(msgspec.structs.asdict(manifest))
    return stopped and f"training ended after {stopped}"


def _trace(path: Path, row: AuditRow) -> Iterator[Finding]:
    data = _bytes(path)
    if not data or not data.strip():
        return
    for finding in log_files.read(open_document(str(path), data)):
        if isinstance(finding, Trace):
            yield msgspec.structs.replace(
                finding, key=row.key, method=row.method, seed=row.seed, axes=dict(row.axes)
            )
        else:
            yield finding


def _bytes(path: Path) -> bytes | None:
    """The bytes of a file; None if it is missing."""
    try:
        return read_file(path)
    except MissingFile:
        return None
