"""Scan files and folders for audits, checkpoints and traces: the entry of all commands."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import as_utf8, reading, without_collector
from fa_core.files.opening import (
    all_of,
    cannot_open,
    is_file,
    is_folder,
    open_file,
    real_path,
)
from fa_core.formats import checkpoint_file, log_files, run_folder
from fa_core.formats.checkpoint_file import HASHED, marked_changed, with_places
from fa_core.formats.frozen_runs import with_baselines_at_hand
from fa_core.formats.json_document import Finding, open_document
from fa_core.formats.log_columns import Given, is_log, may_be_log, no_known_column
from fa_core.formats.readers import HEAD, KNOWN, format_of, may_be_known, plugin_readers
from fa_core.formats.rows import AuditRow, Identity, Place, Problem
from fa_core.formats.trace import Trace
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import CREDIT, DISTRIBUTED, HUB_FILES, RESULTS, RUN_FILES
from fa_core.report.names import one_per_run, run_place
from fa_core.report.numbers import listed
from fa_core.sanitize import sanitize

if TYPE_CHECKING:
    from fa_core.formats.table import AuditTable

Paths: TypeAlias = Sequence[Path | str]

_FIRST = 4096
_EVENTS = re.compile(rb".{0,64}brain\.Event:", re.DOTALL)
_TABLE = re.compile(rb"[^\n\0{\[,;\t]*[,;\t][^\n\0]*\n")
_SQLITE = b"SQLite format 3\0"
_OF_LOGGERS = re.compile(rb'CREATE TABLE "?metrics\b|^:W&B')
"""Marker of the databases of MLflow and Trackio, and of Weights & Biases' files."""

_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_TABLE_SUFFIXES = (".csv", ".tsv")
NOTHING_HERE = "nothing here yet that this project reads"
"""Message for a folder without a run (yet)."""


class Scan(msgspec.Struct, frozen=True):
    """Everything found under some paths, in order.

    Attributes:
        rows: audits, and unmeasured checkpoints (`coverage` of their report is ``""``).
        traces: runs over epochs.
        problems: paths that could not be read, with the reason.
    """

    rows: list[AuditRow] = []
    traces: list[Trace] = []
    problems: list[Problem] = []


def scan(
    paths: Paths,
    *,
    run_traces: bool = True,
    columns: Given | None = None,
) -> Scan:
    """Audits, unmeasured checkpoints and traces under some paths, every record as its file has it.

    Folders are searched recursively, in sorted order, without hidden ones. An unknown file is an
    error if named, and skipped in a folder. Unreadable paths are listed as problems. Whoever shows
    the rows has them judged by the frozen runs at hand (`with_baselines_at_hand`), leaves out
    records of one measurement but the last (`twins_of`), and asks `marked_changed` which of their
    files changed since.

    Args:
        paths: files and folders.
        run_traces: whether to read the traces in run folders, which take longest.
        columns: of logs, as `fa_core.formats.given_columns` gives them.

    Raises:
        UnreadableInput: the only path given cannot be read, or is a file in which nothing can.
    """
    read = partial(_at, run_traces=run_traces, given=columns or {})
    lone = len(paths) == 1
    seen: set[Identity] = set()
    homes = tuple(map(_as_folder, paths))
    found = _collected(
        finding for path in paths for finding in _under(os.fspath(path), seen, lone, read, homes)
    )
    # an empty table would hide the reason
    if lone and not found.rows and not found.traces and found.problems and is_file(paths[0]):
        raise UnreadableInput(found.problems[0].message)
    named = {os.fspath(path) for path in paths}
    # a checkpoint that is opened alone was perhaps measured before, with others
    alone = named.intersection(str(row.checkpoint) for row in found.rows)
    real = {str(real_path(path)) for path in alone}
    results = {Path(path).with_name(RESULTS) for path in alone}
    for path in sorted(filter(is_file, results)):
        beside = _collected(_under(str(path), seen, False, read, homes))
        judged = with_baselines_at_hand(beside.rows)
        found.rows.extend(row for row in judged if row.checkpoint in real)
        found.problems.extend(beside.problems)
    return _one_per_run(found, named)


def twins_of(rows: Sequence[AuditRow], gone: Container[int] = ()) -> dict[int, int]:
    """Place of each record of a measurement → that of the last one, where there are several: a run
    folder and an audit made of it hold the same measurement.

    Args:
        rows: judged by the frozen runs at hand.
        gone: places of those that are not there any more.
    """
    same: dict[object, list[int]] = {}
    for place, row in enumerate(rows):
        if place not in gone:
            same.setdefault(_measurement(row) or place, []).append(place)
    return {other: last for *others, last in same.values() for other in others}


def _measurement(row: AuditRow) -> tuple[object, ...]:
    """What tells a measurement from others: files, run and numbers; empty without hashes."""
    report = row.report
    hashes = report.provenance.get("hashes")
    if not (hashes and row.checkpoint):
        return ()
    return (
        # an audit in a run folder knows no more than the folder's name
        os.path.basename(row.checkpoint),  # noqa: PTH119 (thousands of times)
        row.method,
        row.seed,
        str(hashes),
        *report.residual_norms,
        report.cross_batch_stability,
        report.headline_acc,
        report.frozen_baseline_acc,
    )


def _one_per_run(found: Scan, named: set[str]) -> Scan:
    """What was found, without a run's further checkpoints and states of its trainer in other roles
    (`one_per_run`), unless they were named, and without weights files whose audit was found."""
    files = [row.source for row in found.rows if row.source == row.checkpoint]
    # transformers writes its log into each checkpoint
    for trace in found.traces:
        if trace.source.endswith("trainer_state.json"):
            files.append(trace.source)
    kept = one_per_run(dict.fromkeys(path for path in files if path not in named))
    others = set(chain.from_iterable(kept.values()))
    recorded = (row.checkpoint for row in found.rows if row.checkpoint != row.source)
    audited = {*filter(None, recorded)}
    rows = []
    for row in found.rows:
        if row.source in kept and not row.report.notes:
            folder = Path(row.source).parent
            names = [sanitize(os.path.relpath(other, folder)) for other in kept[row.source]]
            said = f"not measured, of the same run: {listed(names, 6)}"
            row = replace(row, report=DiagnosticReport(notes=said))
        if row.source not in others and bare_place(row) not in audited:
            rows.append(row)
    traces = [trace for trace in found.traces if trace.source not in others]
    return Scan(rows, traces, found.problems)


def bare_place(row: AuditRow) -> str:
    """The place of a bare checkpoint without links, as audits name it; ``""`` for other rows."""
    is_bare = row.source == row.checkpoint and not row.report.coverage and is_file(row.source)
    return str(real_path(row.source)) if is_bare else ""


def scan_again(path: str, root: str = "", columns: Given | None = None) -> Scan:
    """Scan a place found by `scan` again, as it is recorded: a file, or a run folder without its
    subfolders.

    Never raises: an unreadable path is a problem, and an unknown file gives nothing.

    Args:
        path: the file or run folder.
        root: the opened file or folder that it was found in.
        columns: see `scan`.
    """
    found = _collected(_at(Place(path, False, is_folder(path), root), True, columns or {}))
    return Scan([*marked_changed(found.rows, HASHED)], found.traces, found.problems)


def _collected(found: Iterable[Finding]) -> Scan:
    """Findings by kind."""
    result = Scan()
    for finding in found:
        if isinstance(finding, AuditRow):
            result.rows.append(finding)
        elif isinstance(finding, Trace):
            result.traces.append(finding)
        else:
            result.problems.append(finding)
    return _comparable(result)


MOST_RUNS, BYTES_A_RUN = 5000, 128
"""Runs that any path may hold, and bytes of its files for each one more."""

MOST_COMPARED = 1 << 21
"""Runs × axes of all of them: runs are compared on every axis that one of them has."""


def _comparable(found: Scan) -> Scan:
    """What was found, with the places of checkpoints, without the files whose runs are too many to
    be compared with the others."""
    rows: list[AuditRow] = []
    known: set[str] = set()
    many: dict[str, Problem] = {}
    for path, of_file in groupby(found.rows, attrgetter("source")):
        runs = with_places(list(of_file))
        axes = known.union(*(row.axes for row in runs))
        count = len(rows) + len(runs)
        if len(axes) * count > MOST_COMPARED:
            many[path] = Problem(
                path,
                f"{path}: {count:,} runs with {len(axes):,} axes are too many to be compared; name "
                "fewer axes, or split it",
            )
        else:
            rows += runs
            known = axes
    traces = [trace for trace in found.traces if run_place(trace.source) not in many]
    return Scan(rows, traces, [*found.problems, *many.values()])


def load_audits(paths: Paths | Path | str) -> AuditTable:
    """The audits under some paths as a table, without unmeasured checkpoints: of a measurement that
    was found twice the later one, with (d) judged by a frozen run at hand.

    Args:
        paths: files and folders, or one of them.

    Raises:
        UnreadableInput: the only path given cannot be read; else the table's `problems` list it.
    """
    from fa_core.formats.table import AuditTable

    found = scan([paths] if isinstance(paths, (str, Path)) else paths)
    rows = with_baselines_at_hand(found.rows)
    twins = twins_of(rows)
    measured = [
        row
        for place, row in enumerate(rows)
        if place not in twins and (row.checkpoint != row.source or row.report.coverage)
    ]
    return AuditTable.from_rows(marked_changed(measured), found.problems)


def _under(
    path: str,
    seen: set[Identity],
    named_raises: bool,
    read: Callable[[Place], Iterator[Finding]],
    homes: Sequence[str],
) -> Iterator[Finding]:
    """Findings under a named path; unreadable ones are problems, or raise if `named_raises`."""
    count = size = 0
    unread: list[str] = []
    known = len(seen)
    try:
        for place in places(path, seen, named=True, others=homes):
            before = count
            if isinstance(place, Problem):
                count += 1
                yield place
                continue
            size += place.size
            most = MOST_RUNS + size // BYTES_A_RUN
            for finding in read(place):
                count += 1
                if count > most:
                    raise UnreadableInput(
                        f"more than {most:,} runs in {size >> 10:,} KiB",
                        where=place.path,
                        hint="open it in parts",
                    )
                yield finding
            if count == before and is_file(place.path):
                unread.append(Path(place.path).name)
    except FaError as error:
        if named_raises:
            raise
        yield Problem(path, str(error))
        return
    if not count and len(seen) > known and is_folder(path):
        names = f" ({listed(unread, 4)})" if unread else ""
        yield Problem(path, f"{path}: {NOTHING_HERE}{names}; it reads: {KNOWN}")


def _at(place: Place, run_traces: bool, given: Given) -> Iterator[Finding]:
    try:
        if not place.is_folder:
            yield from _in_file(place, given)
            return
        place.skip = frozenset({CREDIT})
        for finding in run_folder.read(Path(place.path), trace=run_traces):
            place.skip = RUN_FILES | HUB_FILES
            yield finding
    except FaError as error:
        if place.named and not place.is_folder:
            raise
        yield Problem(place.path, str(error))


def _in_file(place: Place, given: Given) -> Iterator[Finding]:
    """Findings in a file. An unknown file raises if it was named, else yields nothing."""
    path = place.path
    if why := checkpoint_file.no_run(path):
        if place.named:
            raise UnreadableInput(why, where=path, hint="name the folder")
        return
    with reading(path), open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_FIRST)
        kind = checkpoint_file.kind_of(start, path)
        if kind:
            yield from checkpoint_file.read(place, kind, file, size)
            return
        head = as_utf8(start, "replace")
        if b"\0" not in head or head.startswith(_SQLITE):
            start += file.read(HEAD - len(start))
            head = as_utf8(start, "replace")
        names: list[str] = []
        # these readers are imported for the first such file
        if _EVENTS.match(head):
            from fa_core.formats import event_files

            yield from event_files.read(place, given)
            return
        if _TABLE.match(head):
            columns = log_files.csv_header(head)
            if is_log(columns, given):
                yield from log_files.read_csv(place, file, given)
                return
            # other texts have commas, too
            if path.lower().endswith(_TABLE_SUFFIXES):
                names = columns
        is_read = size <= len(start) or given or may_be_known(head)
        if not _is_ours(place, head) or not is_read:
            yield from _from_plugin(place, head, names, given)
            return
        data = all_of(file, path)
    yield from _in_json(place, data, head, given)


def _in_json(place: Place, data: bytes, head: bytes, given: Given) -> Iterator[Finding]:
    """Findings in the bytes of a JSON file."""
    path = place.path
    with without_collector():
        try:
            document = open_document(path, data)
        except UnreadableInput:
            if place.named or may_be_known(head) or path.lower().endswith(_JSON_SUFFIXES):
                raise
            return
        document = replace(document, columns=given, root=place.root)
        form = format_of(document)
        if form:
            yield from form.read(document)
            return
    yield from _from_plugin(place, head, log_files.unread(document, place.named), given)


def _from_plugin(
    place: Place, head: bytes, names: Sequence[str], given: Given
) -> Iterator[Finding]:
    """Findings of a plugin in a file of unknown format; raises for a named file without any, and
    for a log whose columns have none of the names that are read."""
    found, broken = plugin_readers()
    while broken:
        yield Problem(place.path, broken.pop())
    with reading(place.path, "a plugin could not read it"):
        for reader in found:
            if reader.sniff(place.path, head):
                yield from reader.read(place.path)
                return
    other = checkpoint_file.foreign(place.path, head)
    is_meant = place.named or place.path.endswith((".bin", ".ckpt")) or _OF_LOGGERS.search(head)
    if other and is_meant:
        raise other
    if names and (place.named or may_be_log(names)):
        raise no_known_column(place.path, names, given)
    if place.named:
        raise UnreadableInput(
            "nothing this project reads", where=place.path, hint=f"it reads: {KNOWN}"
        )


def _is_ours(place: Place, head: bytes) -> bool:
    """Whether the first bytes may be JSON, or a file that should have some is empty."""
    text = head.lstrip()
    if text[:1] in (b"{", b"["):
        return True
    if checkpoint_file.promises_checkpoint(place.path):
        raise checkpoint_file.not_a_checkpoint(place.path, head)
    return not text and (place.named or place.path.lower().endswith(_JSON_SUFFIXES))


def places(
    path: str, seen: set[Identity], named: bool = False, others: Sequence[str] = ()
) -> Iterator[Place | Problem]:
    """Walk a file or folder: its new places, and problems for unreadable folders, and for links to
    folders elsewhere, into which no walk leads.

    Args:
        path: a file or folder.
        seen: identities visited before, shared between paths, so that nothing is read twice.
        named: whether the user named it; other paths may vanish or be broken links.
        others: further paths that the user named, as `_as_folder`; links may lead there.

    Raises:
        UnreadableInput: the named path does not exist, may not be read, or is neither file nor
            folder.
    """
    root = path.rstrip(os.sep)
    homes = (_as_folder(path), *others)
    waiting = [path]
    links = list[str]()
    while waiting or links:
        if waiting:
            path = waiting.pop()
        else:
            # last: a run is called as its own file or folder, not as a link to it
            path = links.pop()
            if is_folder(path) and not (real := _as_folder(path)).startswith(homes):
                what = f"{path}: a link to {real}, outside {root}, is not searched"
                yield Problem(path, f"{what}; name that folder, too")
                continue
        try:
            place = _place(path, seen, named)
            listing = []
            if place and place.is_folder:
                with os.scandir(path) as entries:
                    listing = sorted(filter(_is_shown, entries), key=_by_number)
        except (UnreadableInput, OSError, ValueError) as fault:
            error = fault if isinstance(fault, UnreadableInput) else cannot_open(path, fault)
            if named:
                raise error from fault
            yield Problem(path, str(error))
            continue
        named = False
        if place is None:
            continue
        place.root = root
        yield place
        for entry in reversed(listing):
            if entry.name not in place.skip:
                (links if entry.is_symlink() else waiting).append(entry.path)


def _as_folder(path: Path | str) -> str:
    """A path without links, with a separator at its end: that of what is in it begins so."""
    return os.path.join(real_path(path), "")  # noqa: PTH118


def _place(path: str, seen: set[Identity], named: bool) -> Place | None:
    """A place; None if it was seen or is not readable.

    Raises:
        UnreadableInput: the named path is neither.
        OSError, ValueError: it cannot be named so, or the name is longer than the system allows.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 (thousands of times)
    except (OSError, ValueError) as error:
        if named or (isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG):
            raise
        return None
    identity = status.st_dev, status.st_ino
    kind = stat.S_IFMT(status.st_mode)
    is_neither = kind not in (stat.S_IFDIR, stat.S_IFREG)
    if is_neither and named:
        raise UnreadableInput(
            "neither a file nor a folder", where=path, hint="write it to a file first"
        )
    if is_neither or identity in seen:
        return None
    seen.add(identity)
    return Place(path, named, kind == stat.S_IFDIR, seen=seen, size=max(status.st_size, 4096))


def _is_shown(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is searched: not if it is hidden or a backup (``audit.json.~1~``)."""
    if entry.name.endswith("~"):
        return False
    return not entry.name.startswith(".") or (entry.name == DISTRIBUTED and entry.is_file())


_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?)")


def _by_number(entry: os.DirEntry[str]) -> tuple[list[str | float], str]:
    """Sort key by numbers in names: seed 42 before 123, λ 0 before 0.01."""
    parts: list[str | float] = [*_NUMBER.split(entry.name)]
    parts[1::2] = map(float, parts[1::2])
    return parts, entry.name
