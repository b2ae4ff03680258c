"""Logs of penalty runs (format 4): an object with a list of epochs; audits of the last one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import Json
from fa_core.formats.json_document import Document, Finding, convert
from fa_core.formats.logs import trace_of
from fa_core.formats.rows import AuditRow, Problem, row_of_file
from fa_core.option_values import listed
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import AXES, axes_of, canonical_method

_ENDS = ("h_0_norm", "L")
"""Of the header, and true of all epochs."""


class _Header(msgspec.Struct, kw_only=True):
    """What a log's header says of its run, beside the axes."""

    run: str | None = None
    method: str | None = None
    method_name: str | None = None
    seed: int | None = None
    final_test_acc: float | None = None
    frozen_baseline_acc: float | None = None
    verdict: str | None = None


_OF_THE_HEADER = frozenset({*AXES, *_ENDS, "axes", *_Header.__struct_fields__})
_NO_DRIFT = {"c": "a penalty log holds no gradients of several batches"}


def sniff(document: Document) -> bool:
    """Whether an object, or the first one of a list, has a ``log`` of epochs, or describes its
    run."""
    if document.kind == "lines":
        return False
    first = document.members
    if document.kind == "list":
        first = next(document.objects(1), (0, Json()))[1]
    if "log" not in first:
        return False
    if not {"final_test_acc", "lam"}.isdisjoint(first):
        return True
    log = first["log"]
    return isinstance(log, list) and any(isinstance(one, dict) and "epoch" in one for one in log)


def read(document: Document) -> Iterator[Finding]:
    """An audit row, judged at the last epoch, and a trace of a penalty run's log (format 4), or of
    each in a list.

    (a) is a lower bound, the geometric mean (‖h_L‖/‖h_0‖)^{1/L}, if the file names ‖h_0‖ and L,
    else not measured; (b) is judged at the logged layer as a proxy; (d) is exact once a baseline is
    given; (c) is not in such logs. Norms logged at all layers are exact.

    Raises:
        UnreadableInput: no list of epochs.
        InvalidReport: numbers that contradict each other.

    Source: docs/protocol.md §9 (partial audits) and §10.4.
    """
    if document.kind == "object":
        yield from _logged_run(document, row_of_file(document.path))
        return
    for index, header in document.objects():
        place = f"$[{index}]"
        row = row_of_file(document.path)
        row = msgspec.structs.replace(row, key=f"{row.key}{place}")
        if isinstance(header.get("run"), str):
            row = msgspec.structs.replace(row_of_file(header["run"]), source=document.path)
        one = msgspec.structs.replace(document, kind="object", members=header, at=place)
        try:
            yield from _logged_run(one, row)
        except FaError as error:
            yield Problem(document.path, f"{error}; the log is skipped")


def _logged_run(document: Document, row: AuditRow) -> Iterator[Finding]:
    fields = dict(document.fields())
    where = f"{document.path}: {document.at}"
    log = fields.pop("log", None)
    if not isinstance(log, list) or not log:
        hint = "a penalty log has one entry per epoch"
        raise UnreadableInput("not a list of epochs", where=f"{where}.log", hint=hint)
    header = convert(fields, _Header, where)
    method = canonical_method(header.method or header.method_name or row.method)
    seed = row.seed if header.seed is None else header.seed
    axes = {**row.axes, **axes_of(fields)}
    row = msgspec.structs.replace(row, method=method, seed=seed, axes=axes)
    ends = {name: fields[name] for name in _ENDS if name in fields}
    entries = [
        (f"{where}.log[{index}]", {**ends, **entry})
        for index, entry in enumerate(log)
        if isinstance(entry, dict)
    ]
    trace, problems = trace_of(row, entries, document.columns)
    if not trace.epochs:
        hint = "; ".join([*(problem.message for problem in problems[:1]), *trace.notes])
        raise UnreadableInput("no epoch can be read", where=f"{where}.log", hint=hint)
    yield from problems
    notes = trace.notes
    unused = [name for name in fields if name not in _OF_THE_HEADER]
    if unused:
        notes += (f"in the header, not used: {listed(unused, 6)}",)
    report = _final(header, trace.epochs[-1].report(method, seed), notes)
    report = msgspec.structs.replace(report, axes=axes)
    yield msgspec.structs.replace(row, report=report.check(where))
    yield msgspec.structs.replace(trace, notes=notes)


def _final(header: _Header, last: DiagnosticReport, notes: tuple[str, ...]) -> DiagnosticReport:
    """The last epoch's report with the header's final accuracy, baseline and verdict, if
    present."""
    final = {
        "headline_acc": header.final_test_acc,
        "frozen_baseline_acc": header.frozen_baseline_acc,
        "recorded_verdict": header.verdict,
    }
    unmeasured = last.unmeasured
    if last.cross_batch_stability is None:
        unmeasured = {**_NO_DRIFT, **unmeasured}
    said = ("judged at the last of the logged epochs; norms are those the log holds", *notes)
    return msgspec.structs.replace(
        last,
        notes="; ".join(said),
        unmeasured=unmeasured,
        **{name: value for name, value in final.items() if value is not None},
    )
