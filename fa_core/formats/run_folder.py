"""A run folder of this project as one row: its manifest, its report once measured, its weights, its trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats import epoch_trace
from fa_core.formats.document import loads, open_document
from fa_core.formats.findings import Finding, RowBlock, Trace
from fa_core.formats.naming import RunName
from fa_core.formats.reports import decode_report
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, canonical_method
from fa_core.runs import AUDIT, CREDIT, MANIFEST, TRACE, WEIGHTS, read_manifest

OWN_FILES = frozenset({MANIFEST, WEIGHTS, CREDIT, TRACE, AUDIT})
"""What `read` covers; further files of the folder are files like any other."""

_MANIFEST_LIMIT = 1 << 20


def sniff(folder: str) -> bool:
    """Whether the folder's ``manifest.json`` is one of ours: web pages and datasets have such files too."""
    path = os.path.join(folder, MANIFEST)
    try:
        if os.path.getsize(path) > _MANIFEST_LIMIT:
            return False
        data = loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return os.path.isfile(path) and any(
            os.path.isfile(os.path.join(folder, name)) for name in (WEIGHTS, CREDIT, TRACE)
        )
    if not isinstance(data, dict):
        return False
    return str(data.get("format", "")).startswith("fa-run/") or {"method", "arch", "data"} <= data.keys()


def read(folder: str) -> Iterator[Finding]:
    """One row, and the trace if there is one. A broken report or trace is a problem, not the end of the run.

    Raises:
        UnreadableInput: the manifest cannot be read.
    """
    manifest = read_manifest(Path(folder))
    name = RunName(
        os.path.basename(os.path.abspath(folder)), canonical_method(manifest.method), manifest.seed, dict(manifest.axes)
    )
    report = DiagnosticReport(method_name=manifest.method, seed=manifest.seed, axes=manifest.axes)
    try:
        report = _report(os.path.join(folder, AUDIT)) or report
    except FaError as error:
        yield Problem(folder, str(error))
    yield RowBlock.of(
        AuditRow(
            source=folder,
            key=name.key,
            method=name.method,
            seed=name.seed,
            report=report,
            checkpoint=folder,
            axes=name.axes,
        )
    )
    try:
        yield from _trace(os.path.join(folder, TRACE), name)
    except FaError as error:
        yield Problem(folder, str(error))


def _report(path: str) -> DiagnosticReport | None:
    data = _bytes(path)
    if data is None:
        return None
    document = open_document(path, data)
    return decode_report(msgspec.Raw(document.data), f"{path}: $")


def _trace(path: str, name: RunName) -> Iterator[Finding]:
    data = _bytes(path)
    if not data or not data.strip():
        return
    for finding in epoch_trace.read(open_document(path, data)):
        yield epoch_trace.rename(finding, name) if isinstance(finding, Trace) else finding


def _bytes(path: str) -> bytes | None:
    """A file of the folder, or None if it is not there."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput(f"cannot read ({error.strerror or error})", where=path) from error
