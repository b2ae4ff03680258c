"""Everything that files and folders hold: the one way in for the explorer and every command."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats import checkpoint_file, run_folder
from fa_core.formats.document import open_document
from fa_core.formats.findings import Scan, Trace
from fa_core.formats.many_rows import ManyRows
from fa_core.formats.recalling import LazyIndex, sliced_table
from fa_core.formats.registry import FORMATS, may_be_known, recognise
from fa_core.formats.sliced import REPORTS, SLICED_FROM, SlicedRows, SlicedTable, read_sliced
from fa_core.formats.stored import Finding, StoredRows
from fa_core.formats.walk import Identity, Place, Walk
from fa_core.index.stamps import stamp_at, stamp_of
from fa_core.rows import AuditRow, Problem
from fa_core.runs import CREDIT

if TYPE_CHECKING:
    from fa_core.table import AuditTable

Paths: TypeAlias = Sequence[Path | str]
SlicedReader: TypeAlias = Callable[[str, BinaryIO, bytes], "SlicedTable | None"]

HEAD = 1 << 18
"""Bytes that decide what a file is; a larger file is read on only if they show that it is ours."""

_FIRST = 4096
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
NOTHING_HERE = "nothing here that this project reads"
"""What is said of a folder that holds no run (yet)."""

_KNOWN = ", ".join([*(form.name for form in FORMATS), checkpoint_file.NAME])


def scan(paths: Paths, *, run_traces: bool = True) -> Scan:
    """Audits, unmeasured checkpoints and traces under some paths.

    Folders are searched recursively, in sorted order, hidden ones left out; a file that is none of ours is an
    error when named and nothing to speak of in a folder. What cannot be read is listed, and the rest is returned.

    Args:
        paths: files and folders.
        run_traces: whether to read the traces in run folders, which take longer than all the rest.

    Raises:
        UnreadableInput: the only path given cannot be read, or is a file in which nothing can be.
    """
    with _without_collector():
        found = _collected(findings(paths, run_traces=run_traces))
    if not found.rows and not found.traces:
        _refuse_lone_file(paths, found.problems)
    return found


def scan_again(path: str) -> Scan:
    """What one place found by `scan` in a folder holds now: a file, or a run folder without what lies deeper in it.

    Nothing is raised: what cannot be read is a problem, and a file that is none of ours holds nothing.

    Args:
        path: the file or run folder.
    """
    try:
        if Path(path).is_dir():
            return _collected(run_folder.read(Path(path)))
        # not from the index: somebody says that the file changed
        return _collected(_in_file(Place(path, is_folder=False, named=False), read_sliced))
    except FaError as error:
        return Scan(problems=[Problem(path, str(error))])


def _collected(found: Iterable[Finding]) -> Scan:
    """Findings, sorted by kind."""
    rows: list[AuditRow] = []
    parts: list[Sequence[AuditRow]] = [rows]
    traces: list[Trace] = []
    problems: list[Problem] = []
    for finding in found:
        if isinstance(finding, SlicedRows):
            rows = []
            parts += [finding, rows]
            continue
        for item in _each(finding):
            if isinstance(item, AuditRow):
                rows.append(item)
            elif isinstance(item, Trace):
                traces.append(item)
            else:
                problems.append(item)
    return Scan(rows=rows if len(parts) == 1 else ManyRows(parts), traces=traces, problems=problems)


def _each(finding: Finding) -> Iterable[AuditRow | Trace | Problem]:
    if isinstance(finding, StoredRows):
        return finding.checked()
    return finding if isinstance(finding, SlicedRows) else (finding,)


def iter_rows(paths: Paths) -> Iterator[AuditRow]:
    """The rows of `scan`, as they are read; what cannot be read is left out.

    Raises:
        UnreadableInput: the only path given cannot be read.
    """
    for finding in findings(paths):
        for item in _each(finding):
            if isinstance(item, AuditRow):
                yield item


def load_audits(paths: Paths | Path | str, strict: bool | None = None) -> AuditTable:
    """The audits under some paths as a table: rows with something measured. Checkpoints without audit are left out.

    Args:
        paths: files and folders, or one of them.
        strict: None: raise if the only path given cannot be read, else list it in the table's `problems`;
            True: raise on the first problem; False: never raise.

    Raises:
        UnreadableInput: as `strict` says.
    """
    from fa_core.table_builder import TableBuilder

    builder = TableBuilder()
    paths = [paths] if isinstance(paths, (str, Path)) else paths
    with _without_collector():
        for finding in findings(paths, lone_raises=strict is not False):
            if isinstance(finding, StoredRows):
                builder.add_stored(finding)
            elif isinstance(finding, SlicedRows):
                builder.add_sliced(finding)
            elif isinstance(finding, AuditRow):
                if finding.checkpoint != finding.source or finding.report.coverage:
                    builder.add_row(finding)
            elif isinstance(finding, Problem):
                builder.problems.append(finding)
            if strict and builder.problems:
                raise UnreadableInput(builder.problems[0].message)
        table = builder.build()
    if strict is None and not len(table):
        _refuse_lone_file(paths, builder.problems)
    return table


def findings(paths: Paths, *, lone_raises: bool = True, run_traces: bool = True) -> Iterator[Finding]:
    """Everything found, in order.

    Args:
        paths: files and folders.
        lone_raises: whether an only path that cannot be read raises.
        run_traces: whether to read the traces in run folders.

    Raises:
        UnreadableInput: as `lone_raises` says.
    """
    seen: set[Identity] = set()
    lone = lone_raises and len(paths) == 1
    for path in paths:
        yield from _under(os.fspath(path), seen, named_raises=lone, run_traces=run_traces)


def _under(path: str, seen: set[Identity], *, named_raises: bool, run_traces: bool) -> Iterator[Finding]:
    """What one named path holds; what cannot be read becomes a problem, unless it is the named path and that raises."""
    walk = Walk(path, seen)
    index = LazyIndex(path)
    empty = True
    try:
        for place in walk:
            for finding in _at(place, walk, index, run_traces):
                empty = False
                yield finding
    except FaError as error:
        if named_raises:
            raise
        yield Problem(path, str(error))
        return
    index.save()
    yield from walk.problems
    if empty and not walk.problems and Path(path).is_dir():
        yield Problem(path, f"{path}: {NOTHING_HERE}; it reads: {_KNOWN}")


def _at(place: Place, walk: Walk, index: LazyIndex, run_traces: bool) -> Iterator[Finding]:
    try:
        if place.is_folder:
            yield from _in_folder(place, walk, index, run_traces)
        elif place.status is None:
            yield from _in_file(place)
        else:
            yield from index.findings(place.path, [stamp_of(place.status)], lambda: _in_file(place))
    except FaError as error:
        if place.named and not place.is_folder:
            raise
        yield Problem(place.path, str(error))


def _in_folder(place: Place, walk: Walk, index: LazyIndex, run_traces: bool) -> Iterator[Finding]:
    """A run folder's row and trace; nothing for another folder."""
    walk.skip = frozenset({CREDIT})
    stamps = [stamp_at(f"{place.path}{os.sep}{name}") for name in run_folder.ROW_FILES]
    if stamps[0] is None:
        return

    for finding in index.findings(place.path, stamps, lambda: run_folder.read_row(Path(place.path))):
        walk.skip = run_folder.OWN_FILES
        yield finding
        if run_traces and isinstance(finding, AuditRow):
            yield from run_folder.read_trace(Path(place.path), finding)


def _in_file(place: Place, sliced: SlicedReader = sliced_table) -> Iterator[Finding]:
    """What one file holds; a file that is none of ours raises if it was named and yields nothing if not.

    Args:
        place: the file.
        sliced: how to read a big table.
    """
    path = place.path
    try:
        with Path(path).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(_FIRST)
            kind = checkpoint_file.kind_of(head, path)
            if kind:
                yield from checkpoint_file.read(path, kind, file, size)
                return
            if not _is_ours(place, head):
                return
            head += file.read(HEAD - len(head))
            if size > len(head) and not may_be_known(head):
                if place.named:
                    raise _stranger(path)
                return
            if size >= SLICED_FROM and REPORTS in head[:_FIRST] and (table := sliced(path, file, head)):
                yield from table.problems
                yield table.rows
                return
            file.seek(0)
            data = file.read()
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror or error})", where=path) from error
    try:
        document = open_document(path, data)
    except UnreadableInput:
        if place.named or may_be_known(head) or path.lower().endswith(_JSON_SUFFIXES):
            raise
        return
    form = recognise(document)
    if form is not None:
        yield from form.read(document)
    elif place.named:
        raise _stranger(path)


def _is_ours(place: Place, head: bytes) -> bool:
    """Whether the first bytes may be JSON of ours; a file that only promises to be a checkpoint is complained about."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"[") or head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return True
    if checkpoint_file.promises_checkpoint(place.path):
        raise checkpoint_file.not_a_checkpoint(place.path, head)
    if not text and (place.named or place.path.lower().endswith(_JSON_SUFFIXES)):
        raise UnreadableInput("empty file", where=place.path, hint="write it again or leave it out")
    if place.named:
        raise _stranger(place.path)
    return False


def _stranger(path: str) -> UnreadableInput:
    return UnreadableInput("nothing this project reads", where=path, hint=f"it reads: {_KNOWN}")


def _refuse_lone_file(paths: Paths, problems: Sequence[Problem]) -> None:
    """Raise if the only path is a file in which nothing could be read: a table of nothing hides the reason."""
    if len(paths) == 1 and problems and Path(paths[0]).is_file():
        raise UnreadableInput(problems[0].message)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the cycle collector: reports hold no cycles, and looking for some triples the time to make many."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
