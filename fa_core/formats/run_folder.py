"""A run folder of this project as one row: its manifest, its report once measured, its weights, its trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats import epoch_trace
from fa_core.formats.document import loads, open_document
from fa_core.formats.findings import Trace
from fa_core.formats.naming import RunName
from fa_core.formats.reports import decode_report
from fa_core.formats.stored import Finding
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, canonical_method
from fa_core.runs import AUDIT, CREDIT, MANIFEST, RESUME, TRACE, WEIGHTS, Manifest, read_manifest

OWN_FILES = frozenset({MANIFEST, WEIGHTS, CREDIT, TRACE, AUDIT, RESUME})
"""What `read` covers; further files of the folder are files like any other."""

ROW_FILES = (MANIFEST, AUDIT)

_MANIFEST_LIMIT = 1 << 20


def sniff(folder: Path) -> bool:
    """Whether the folder's ``manifest.json`` is one of ours: web pages and datasets have such files too."""
    path = folder / MANIFEST
    try:
        data = loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return path.is_file() and any((folder / name).is_file() for name in (WEIGHTS, CREDIT, TRACE))
    if not isinstance(data, dict):
        return False
    return str(data.get("format", "")).startswith("fa-run/") or {"method", "arch", "data"} <= data.keys()


def read(folder: Path, *, trace: bool = True) -> Iterator[Finding]:
    """One row, and the trace if there is one and it is asked for; nothing if the manifest is none of ours.

    A broken report or trace is a problem, not the end of the run.

    Raises:
        UnreadableInput: the manifest cannot be read.
    """
    for finding in read_row(folder):
        yield finding
        if trace and isinstance(finding, AuditRow):
            yield from read_trace(folder, finding)


def read_row(folder: Path) -> Iterator[AuditRow | Problem]:
    """`read` without the trace; what it gives depends on the two files named in `ROW_FILES` alone."""
    manifest = _manifest(folder)
    if manifest is None:
        return
    name = RunName(folder.absolute().name, canonical_method(manifest.method), manifest.seed, dict(manifest.axes))
    report = DiagnosticReport(method_name=manifest.method, seed=manifest.seed, axes=manifest.axes)
    try:
        report = _report(folder / AUDIT) or report
    except FaError as error:
        yield Problem(str(folder), str(error))
    yield AuditRow(
        source=str(folder),
        key=name.key,
        method=name.method,
        seed=name.seed,
        report=report,
        checkpoint=str(folder),
        axes=name.axes,
    )


def _manifest(folder: Path) -> Manifest | None:
    """The manifest; None if it is none of ours. What reads like one is one, and is read once."""
    try:
        if (folder / MANIFEST).stat().st_size > _MANIFEST_LIMIT:
            return None
    except OSError:
        pass
    try:
        return read_manifest(folder)
    except UnreadableInput:
        if sniff(folder):
            raise
        return None


def read_trace(folder: Path, row: AuditRow) -> Iterator[Finding]:
    """The trace in the run folder that gave a row, if there is one; a broken one is a problem."""
    try:
        yield from _trace(folder / TRACE, RunName(row.key, row.method, row.seed, dict(row.axes)))
    except FaError as error:
        yield Problem(str(folder), str(error))


def _report(path: Path) -> DiagnosticReport | None:
    data = _bytes(path)
    if data is None:
        return None
    document = open_document(str(path), data)
    return decode_report(msgspec.Raw(document.data), f"{path}: $")


def _trace(path: Path, name: RunName) -> Iterator[Finding]:
    data = _bytes(path)
    if not data or not data.strip():
        return
    for finding in epoch_trace.read(open_document(str(path), data)):
        yield epoch_trace.rename(finding, name) if isinstance(finding, Trace) else finding


def _bytes(path: Path) -> bytes | None:
    """A file of the folder, or None if it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput(f"cannot read ({error.strerror or error})", where=path) from error
