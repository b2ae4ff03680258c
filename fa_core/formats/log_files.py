"""Logs in files of text: epoch traces in JSON (format 5), an object per epoch, in lines or a list,
and transformers' ``trainer_state.json``; logs of penalty runs (format 4), audited at their last
epoch; tables in CSV with a row per epoch or step."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import asdict, replace

from fa_core.errors import InvalidReport, UnreadableInput
from fa_core.files.decode import Json, as_utf8, reading, without
from fa_core.files.opening import all_of
from fa_core.formats.json_document import Document, Finding, check_entries
from fa_core.formats.log_columns import Given, columns_of, is_log, may_be_log
from fa_core.formats.logs import Entry, lacking_at_end, names_in, of_one_run, trace_of, traces_of
from fa_core.formats.report_object import entry_report, is_rounded, row_by_itself
from fa_core.formats.rows import Place, Problem, row_of_file
from fa_core.formats.trace import Trace
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.numbers import joined

if TYPE_CHECKING:
    from _csv import Reader

_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether the entries have an epoch or step and a number that is read."""
    return is_log(names_in(_entries(document)), document.columns)


def _entries(document: Document) -> list[Entry]:
    """The entries that are objects, or the one of a file."""
    entries = document.listed(_HISTORY) or document
    if entries.kind == "object":
        return [(document.path, document.members)]
    return [(entries.place(index), fields) for index, fields in entries.objects()]


def unread(document: Document, named: bool) -> list[str]:
    """The names in a log of no known columns; none for a single object that is hardly one."""
    names = names_in(_entries(document))
    if document.kind == "object" and _HISTORY not in document.members:
        if named and may_be_log(names):
            return names
        return []
    return names


def read(document: Document, of: Json | None = None) -> Iterator[Finding]:
    """The traces of a file (one per run, if entries name them), and problems for invalid entries.

    Args:
        document: the file.
        of: the method, seed and λ of the run that it is the log of.

    Raises:
        UnreadableInput: no whole epoch, or an entry of another run than it is of.
    """
    yield from document.problems
    entries = document.listed(_HISTORY) or document
    for index, node in entries.items:
        if not isinstance(node, dict):
            where = entries.place(index)
            yield Problem(document.path, f"{where}: not a JSON object; the entry is skipped")
    logged = _entries(document)
    if not logged:
        raise UnreadableInput(
            "no whole epoch in the trace", where=document.path, hint="wait for the first epoch"
        )
    if of:
        _, (_, *logged) = of_one_run([(document.path, of), *logged])
    row = row_of_file(document.path, document.root)
    yield from traces_of(row, logged, document.columns, unfinished=document.unfinished)


def sniff_penalty(document: Document) -> bool:
    """Whether an object has a ``log`` of epochs, or describes its run."""
    if not {"final_test_acc", "lam"}.isdisjoint(document.members):
        return document.members.get("log") is not None
    log = document.listed("log")
    return log is not None and any("epoch" in one for _, one in log.objects())


def read_penalty(document: Document) -> Iterator[Finding]:
    """An audit row, judged at the last epoch with what the header says beside it, as an entry of a
    list says it (its final accuracy, a baseline, a verdict), and a trace.

    (a) is not measured without norms of all layers; (b) is judged at the logged layer as a proxy;
    (d) is exact once a baseline is given; (c) is not in such logs.

    Raises:
        UnreadableInput: no list of epochs.
        InvalidReport: numbers that contradict each other.

    Source: docs/protocol.md §9 (partial audits) and §10.4.
    """
    where = f"{document.path}: $.log"
    log = document.listed("log")
    logged = [(log.place(index), entry) for index, entry in log.objects()] if log else []
    if not log or len(logged) < len(log.items):
        raise UnreadableInput(
            "not a list of epochs", where=where, hint="a penalty log has one entry per epoch"
        )
    stated = without(document.members, "log")
    said, (_, *entries) = of_one_run([(where, stated), *logged])
    said |= {name: value for name, value in stated.items() if value is not None}
    header = entry_report(said, f"{document.path}: $")
    row = replace(row_by_itself(document, header), checkpoint=None)
    trace, problems = trace_of(row, entries, document.columns, len(entries))
    if problems or not trace.epochs:
        why = joined(*(problem.message for problem in problems[:1]), *trace.notes)
        raise UnreadableInput("not every epoch can be read", where=where, hint=why)
    known = asdict(header) | {"test_acc": header.headline_acc}
    for field in sorted(lacking_at_end(entries, document.columns, trace)):
        if known.get(field) in (None, []):
            raise UnreadableInput(
                f"no {field} at the last {trace.unit}, as at others",
                where=where,
                hint="log it there, or name it in the header",
            )
    # a file's name makes no control
    last = trace.epochs[-1]
    report = _joined(last.report(header.method_name, row.seed), header, where)
    # one number is of no layer, and which layers fewer than all are of is not known
    layers = max(2, len(last.residual_norms), len(last.bp_grad_norms))
    if len(last.gamma) >= layers and None not in last.gamma[1:]:
        report = replace(report, credit={"gamma": last.gamma})
    if report.cross_batch_stability is None:
        why = "a penalty log holds no gradients of several batches"
        report = replace(report, unmeasured={"c": why, **report.unmeasured})
    how = "judged at the last of the logged epochs; norms and Γ are those it holds"
    report = replace(report, notes=joined(how, *trace.notes, header.notes), axes=row.axes)
    yield replace(row, report=report.check(f"{document.path}: $"))
    yield trace


def _joined(report: DiagnosticReport, header: DiagnosticReport, where: str) -> DiagnosticReport:
    """The report of the last epoch with what the header says beside it."""
    unsaid = asdict(DiagnosticReport())
    said = {name: value for name, value in asdict(header).items() if value != unsaid[name]}
    for name, value in said.items():
        own = getattr(report, name)
        if own != unsaid[name] and not is_rounded(value, own):
            what = f"{name} is {value!s:.60} in the header, {own!s:.60} at the last epoch"
            raise InvalidReport(what, where=where, hint="leave one of them out")
    return replace(report, **said)


def csv_header(head: bytes) -> list[str]:
    """The columns of a table, by its first line in UTF-8; none of another file."""
    with suppress(csv.Error):
        return [name.strip() for name in next(_rows(head.partition(b"\n")[0]), [])]
    return []


def _rows(data: bytes) -> Reader:
    text = data.decode(errors="replace")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def read_csv(place: Place, file: BinaryIO, given: Given) -> Iterator[Trace | Problem]:
    """The traces of a table, and problems for rows of too few cells. Empty cells are not logged.

    Args:
        place: the file.
        file: open.
        given: columns that the user named.

    Raises:
        UnreadableInput: an invalid log; a row of more cells than columns.
    """
    path = place.path
    entries: list[Entry] = []
    short: list[str] = []
    names: list[str] = []
    known: set[str] = set()
    where = ""
    with reading(path, "not a table", "write it again as CSV"):
        data = as_utf8(all_of(file, path))
        cells = sum(data.count(sign) for sign in (b",", b";", b"\t"))
        check_entries(path, data.count(b"\n"), len(data), cells)
        rows = _rows(data)
        for row in rows:
            where = f"{path}: line {rows.line_num}"
            row = [cell.strip() for cell in row]
            # a log that is begun again repeats its headings
            repeated = known.intersection(row)
            if not names or len(repeated) * 2 > len(row):
                names = _checked(row, given, where)
                known = {*names} - {""}
            elif any(row[len(names) :]):
                raise UnreadableInput(
                    f"{len(row)} cells under {len(names)} headings",
                    where=where,
                    hint="write decimal points, not commas, and a heading for every column",
                )
            elif 0 < len(row) < len(names):
                short.append(where)
            elif row:
                entries.append((where, dict(zip(names, row, strict=False))))
    unfinished = where in short
    for line in short[: len(short) - unfinished]:
        yield Problem(path, f"{line}: fewer cells than headings; the row is skipped")
    yield from traces_of(row_of_file(path, place.root), entries, given, unfinished=unfinished)


def _checked(names: list[str], given: Given, where: str) -> list[str]:
    """The headings, if no column that is read has a namesake."""
    counts = Counter(names)
    for name in columns_of(counts, given):
        if counts[name] > 1:
            raise UnreadableInput(
                f"{name} heads two columns", where=where, hint="only one of them can be meant"
            )
    return names
