"""Logs of penalty runs (format 4): an object with a list of epochs; audits of the last one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fa_core.decode import Json
from fa_core.errors import FaError, UnreadableInput
from fa_core.facts.names import stated, stated_axes
from fa_core.formats.json_document import Document, Finding
from fa_core.formats.log_names import columns_of
from fa_core.formats.logged import epochs_of, trace_of
from fa_core.formats.logged_epoch import ends_in
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.sanitize import sanitize


def sniff(document: Document) -> bool:
    """Whether an object, or the first one of a list, has a ``log`` of epochs, or describes its
    run."""
    if document.kind == "lines":
        return False
    if document.kind == "list":
        first = next(document.objects(1), (0, Json()))[1]
    else:
        first = document.members
    log = first.get("log")
    if isinstance(log, list):
        epochs = [entry for entry in log if isinstance(entry, dict) and "epoch" in entry]
    else:
        epochs = []
    return "log" in first and (bool(epochs) or not {"final_test_acc", "lam"}.isdisjoint(first))


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
        name = header.get("run")
        if isinstance(name, str):
            named = row_of_file(name)
        else:
            named = row_of_file(document.path)
        row = msgspec.structs.replace(
            named, source=document.path, key=named.key if name else f"{named.key}{place}"
        )
        try:
            yield from _logged_run(
                Document(path=document.path, kind="object", members=header, at=place), row
            )
        except FaError as error:
            yield Problem(document.path, f"{error}; the log is skipped")


_OF_THE_HEADER = frozenset(
    {
        "run",
        "lam",
        "d",
        "L",
        "arch",
        "seed",
        "method",
        "method_name",
        "final_test_acc",
        "frozen_baseline_acc",
    }
    | {"frozen_acc", "verdict", "config", "args"}
)


def _logged_run(document: Document, row: AuditRow) -> Iterator[Finding]:
    header = dict(document.fields())
    where = f"{document.path}: {document.at}.log"
    log = header.pop("log", None)
    if not isinstance(log, list) or not log:
        raise UnreadableInput(
            "not a list of epochs", where=where, hint="a penalty log has one entry per epoch"
        )
    ends = ends_in(header)
    entries = [
        (f"{where}[{index}]", {**ends, **entry})
        for index, entry in enumerate(log)
        if isinstance(entry, dict)
    ]
    merged = epochs_of(entries)
    epochs, problems, notes = merged.epochs, merged.problems, merged.notes
    if not epochs:
        raise UnreadableInput(
            "no epoch can be read", where=where, hint=problems[0].message if problems else ""
        )
    yield from problems
    unused = [
        sanitize(name)
        for name in header
        if name not in _OF_THE_HEADER and not any(columns_of((name,)))
    ]
    notes = (*notes, *([f"in the header, not used: {listed(unused, 6)}"] if unused else []))
    method, seed = stated(header, row.method, row.seed)
    axes = {**row.axes, **stated_axes(header)}
    row = msgspec.structs.replace(row, method=method, seed=seed, axes=axes)
    yield msgspec.structs.replace(
        row, report=_final(header, epochs[-1].report(method, seed), row, notes)
    )
    yield trace_of(row, merged._replace(notes=notes))


_NO_DRIFT = {"c": "a penalty log holds no gradients of several batches"}


def _final(
    header: Json, last: DiagnosticReport, row: AuditRow, notes: tuple[str, ...]
) -> DiagnosticReport:
    """The last epoch's report with the header's final accuracy, baseline and verdict, if
    present."""
    final = {
        "headline_acc": header.get("final_test_acc"),
        "frozen_baseline_acc": header.get("frozen_baseline_acc", header.get("frozen_acc")),
        "verdict": header.get("verdict"),
    }
    stated = DiagnosticReport.from_dict(
        {name: value for name, value in final.items() if value is not None}, row.source
    )
    given = {
        "headline_acc": stated.headline_acc,
        "frozen_baseline_acc": stated.frozen_baseline_acc,
        "recorded_verdict": stated.recorded_verdict,
    }
    return msgspec.structs.replace(
        last,
        axes=row.axes,
        notes="; ".join(
            ("judged at the last of the logged epochs; norms are those the log holds", *notes)
        ),
        unmeasured={**(_NO_DRIFT if last.cross_batch_stability is None else {}), **last.unmeasured},
        **{name: value for name, value in given.items() if value is not None},
    )
