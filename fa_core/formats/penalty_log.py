"""Format 4: the log of a penalty run. It is both an audit (of the last epoch) and a trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.epoch_trace import Ends, ends_of, epochs_of, owner
from fa_core.formats.json_document import Document, Finding, plain
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, row_of_file
from fa_core.trace import Trace

_AXES = ("lam", "d", "L", "arch")


def sniff(document: Document) -> bool:
    """Whether the object has a list ``log`` whose entries have epochs, or says what the log is of."""
    if document.kind != "object" or "log" not in document.members:
        return False
    log = plain(document.members["log"])
    if "final_test_acc" in document.members or "lam" in document.members:
        return True
    return isinstance(log, list) and any(isinstance(entry, dict) and "epoch" in entry for entry in log)


def read(document: Document) -> Iterator[Finding]:
    """One audit row, judged at the last epoch, and the trace.

    (a) is a lower bound, the geometric mean (‖h_L‖/‖h_0‖)^{1/L}, where the file names ‖h_0‖ and L, and
    not measured otherwise; (b) is judged at the logged layer as a proxy; (d) is exact once a baseline is
    given; (c) is not in such logs.

    Raises:
        UnreadableInput: no list of epochs.
        InvalidReport: numbers that contradict each other.

    Source: docs/protocol.md §9 (partial audits) and §10.4.
    """
    header = {key: plain(value) for key, value in document.members.items()}
    where = f"{document.path}: $.log"
    log = header.pop("log")
    if not isinstance(log, list) or not log:
        raise UnreadableInput("not a list of epochs", where=where, hint="a penalty log has one entry per epoch")
    ends = _last_known(ends_of(header), log)
    places = [(f"{where}[{index}]", entry) for index, entry in enumerate(log) if isinstance(entry, dict)]
    epochs, problems = epochs_of(places, ends)
    yield from problems
    if not epochs:
        raise UnreadableInput("no epoch can be read", where=where, hint=problems[0].message if problems else "")
    row = row_of_file(document.path)
    row.axes.update({axis: header[axis] for axis in _AXES if isinstance(header.get(axis), (int, float, str))})
    method, seed = owner(header, row)
    identity: dict[str, Any] = {"source": row.source, "key": row.key, "method": method, "seed": seed, "axes": row.axes}
    yield AuditRow(**identity, report=_report(header, epochs[-1].report(), identity, document.path))
    yield Trace(**identity, epochs=epochs)


def _report(header: dict[str, Any], last: DiagnosticReport, identity: dict[str, Any], path: str) -> DiagnosticReport:
    """The last epoch's report with the header's final accuracy, baseline and verdict, where it has them."""
    final = {
        "headline_acc": header.get("final_test_acc"),
        "frozen_baseline_acc": header.get("frozen_baseline_acc", header.get("frozen_acc")),
        "verdict": header.get("verdict"),
    }
    stated = DiagnosticReport.from_dict({name: value for name, value in final.items() if value is not None}, path)
    return msgspec.structs.replace(
        last,
        method_name=identity["method"],
        seed=identity["seed"],
        axes=identity["axes"],
        notes="judged at the last of the logged epochs; norms are those the log holds",
        headline_acc=last.headline_acc if stated.headline_acc is None else stated.headline_acc,
        frozen_baseline_acc=(
            last.frozen_baseline_acc if stated.frozen_baseline_acc is None else stated.frozen_baseline_acc
        ),
        recorded_verdict=stated.recorded_verdict,
        unmeasured={"c": "a penalty log holds no gradients of several batches", **last.unmeasured},
    )


def _last_known(ends: Ends, log: list[Any]) -> Ends:
    """‖h_0‖ and L from the header, or L from an entry that names it."""
    for entry in log:
        if isinstance(entry, dict) and ends.depth is None:
            ends = Ends(ends.h_0, ends_of(entry).depth)
    return ends
