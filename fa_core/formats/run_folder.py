"""A run folder of this project as one row: its manifest, its report once measured, its weights, its trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from fa_core import runs
from fa_core.decode import harmless, loads, reading
from fa_core.errors import FaError, UnreadableInput
from fa_core.formats import logged
from fa_core.formats.json_document import Finding, open_document
from fa_core.formats.reports import decode_report
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem
from fa_core.trace import Trace

_MANIFEST_LIMIT = 1 << 20


def sniff(folder: Path) -> bool:
    """Whether the folder's ``manifest.json`` is one of ours: web pages and datasets have such files too."""
    path = folder / runs.MANIFEST
    try:
        data = loads(path.read_bytes())
    except (OSError, ValueError):
        return path.is_file() and any((folder / name).is_file() for name in (runs.WEIGHTS, runs.CREDIT, runs.TRACE))
    if not isinstance(data, dict):
        return False
    return str(data.get("format", "")).startswith("fa-run/") or {"method", "arch", "data"} <= data.keys()


def read(folder: Path, *, trace: bool = True) -> Iterator[Finding]:
    """One row, and the trace if there is one and it is asked for; nothing if there is no manifest of ours.

    A broken report or trace is a problem, not the end of the run.

    Raises:
        UnreadableInput: the manifest cannot be read.
    """
    manifest = _manifest(folder)
    if manifest is None:
        return
    source = str(folder)
    report = DiagnosticReport(
        method_name=manifest.method,
        seed=manifest.seed,
        axes=manifest.axes,
        frozen_baseline_acc=runs.recorded_baseline(manifest),
    )
    try:
        if (data := _bytes(folder / runs.AUDIT)) is not None:
            report = decode_report(open_document(str(folder / runs.AUDIT), data).members, f"{folder / runs.AUDIT}: $")
    except FaError as error:
        yield Problem(source, str(error))
    row = AuditRow(
        source=source,
        key=harmless(folder.name or folder.absolute().name),
        method=runs.canonical_method(manifest.method),
        seed=manifest.seed,
        report=report,
        checkpoint=source,
        axes=dict(manifest.axes),
    )
    yield row
    try:
        yield from _trace(folder / runs.TRACE, row) if trace else ()
    except FaError as error:
        yield Problem(source, str(error))


def _manifest(folder: Path) -> runs.Manifest | None:
    """The manifest; None if it is none of ours. What reads like one is one, and is read once."""
    try:
        if (folder / runs.MANIFEST).stat().st_size > _MANIFEST_LIMIT:
            return None
    except OSError:
        return None
    try:
        return runs.read_manifest(folder)
    except UnreadableInput:
        if sniff(folder):
            raise
        return None


def _trace(path: Path, row: AuditRow) -> Iterator[Finding]:
    data = _bytes(path)
    if not data or not data.strip():
        return
    for finding in logged.read(open_document(str(path), data)):
        if isinstance(finding, Trace):
            yield msgspec.structs.replace(finding, key=row.key, method=row.method, seed=row.seed, axes=dict(row.axes))
        else:
            yield finding


def _bytes(path: Path) -> bytes | None:
    """A file of the folder; None if it is not there."""
    with reading(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
