"""Logs of penalty runs (format 4): an object with a list of epochs; audited at the last one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Document, Finding, convert
from fa_core.formats.logs import Entry, trace_of
from fa_core.formats.rows import row_of_file
from fa_core.option_values import listed
from fa_core.report.names import AXES, axes_of, canonical_method


class _Header(msgspec.Struct, kw_only=True):
    """What a log's header says of its run, beside the axes."""

    method: str | None = None
    method_name: str | None = None
    seed: int | None = None
    final_test_acc: float | None = None
    frozen_baseline_acc: float | None = None
    verdict: str | None = None


_OF_THE_HEADER = frozenset({*AXES, "axes", "log", *_Header.__struct_fields__})


def sniff(document: Document) -> bool:
    """Whether an object has a ``log`` of epochs, or describes its run."""
    log = document.members.get("log")
    if not {"final_test_acc", "lam"}.isdisjoint(document.members):
        return log is not None
    return isinstance(log, list) and any(isinstance(one, dict) and "epoch" in one for one in log)


def read(document: Document) -> Iterator[Finding]:
    """An audit row, judged at the last epoch, with the header's final accuracy, baseline and
    verdict if present, and a trace.

    (a) is not measured without norms of all layers; (b) is judged at the logged layer as a proxy;
    (d) is exact once a baseline is given; (c) is not in such logs.

    Raises:
        UnreadableInput: no list of epochs.
        InvalidReport: numbers that contradict each other.

    Source: docs/protocol.md §9 (partial audits) and §10.4.
    """
    fields = document.fields()
    where = f"{document.path}: $.log"
    log = document.listed("log")
    if not log or not log.items:
        hint = "a penalty log has one entry per epoch"
        raise UnreadableInput("not a list of epochs", where=where, hint=hint)
    header = convert(fields, _Header, f"{document.path}: $")
    row = row_of_file(document.path)
    method = canonical_method(header.method or header.method_name or row.method)
    seed = row.seed if header.seed is None else header.seed
    axes = {**row.axes, **axes_of(fields)}
    row = msgspec.structs.replace(row, method=method, seed=seed, axes=axes)
    entries: list[Entry] = [(log.place(index), entry) for index, entry in log.objects()]
    trace, problems = trace_of(row, entries, document.columns)
    if not trace.epochs:
        hint = "; ".join([*(problem.message for problem in problems[:1]), *trace.notes])
        raise UnreadableInput("no epoch can be read", where=where, hint=hint)
    yield from problems
    notes = trace.notes
    unused = [name for name in fields if name not in _OF_THE_HEADER]
    if unused:
        notes += (f"in the header, not used: {listed(unused, 6)}",)
    report = trace.epochs[-1].report(method, seed)
    if report.cross_batch_stability is None:
        why = {"c": "a penalty log holds no gradients of several batches"}
        report = msgspec.structs.replace(report, unmeasured=why | report.unmeasured)
    final = {
        "headline_acc": header.final_test_acc,
        "frozen_baseline_acc": header.frozen_baseline_acc,
        "recorded_verdict": header.verdict,
    }
    said = ("judged at the last of the logged epochs; norms are those the log holds", *notes)
    report = msgspec.structs.replace(
        report,
        notes="; ".join(said),
        axes=axes,
        **{name: value for name, value in final.items() if value is not None},
    )
    yield msgspec.structs.replace(row, report=report.check(f"{document.path}: $"))
    yield msgspec.structs.replace(trace, notes=notes)
