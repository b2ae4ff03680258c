"""Format 5: a trace, one JSON object per epoch on a line or in a list; format 4: the log of a penalty run.

transformers' ``trainer_state.json``, whose ``log_history`` is a trace too. A log is an audit of its last epoch as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fa_core.errors import FaError, UnreadableInput, printable
from fa_core.formats.json_document import Document, Finding, plain
from fa_core.formats.log_names import columns_of, is_log
from fa_core.formats.logged import Ends, Entry, axes_of, ends_of, epochs_of, named_by_place, owner, trace_of, traces_of
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, row_of_file

_PEEK = 20
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether some of the first entries (or the only one) have an epoch or step, and something known of it."""
    if document.kind == "object":
        return is_log(document.members) or {_HISTORY, "global_step"} <= document.members.keys()
    return any(is_log(fields) for _, fields in document.objects(_PEEK))


def read(document: Document) -> Iterator[Finding]:
    """The traces of the file (one per method and seed, where entries name them) and its bad entries.

    Of a Trainer's states that lie in the checkpoints of one run the last is read; it holds the others' history.
    """
    yield from document.problems
    logged: list[Entry] = []
    history = document.listed(_HISTORY)
    if document.kind == "object" and history is None:
        logged = [(document.path, document.fields())]
    elif _superseded(Path(document.path)):
        return
    for index, node in (history or document).items:
        where = (history or document).place(index)
        if isinstance(fields := plain(node), dict):
            logged.append((where, fields))
        else:
            yield Problem(document.path, f"{where}: not a JSON object; the entry is skipped")
    if not logged:
        raise UnreadableInput("no whole epoch in the trace", where=document.path, hint="wait for the first epoch")
    yield from traces_of(named_by_place(document.path), logged, unfinished=document.unfinished)


def _superseded(path: Path) -> bool:
    """Whether the run's folder, or a later checkpoint in it, has a file of this name too."""
    mine = _CHECKPOINT.fullmatch(path.parent.name)
    if mine is None:
        return False
    run = path.parent.parent
    others = (_CHECKPOINT.fullmatch(other.parent.name) for other in run.glob(f"checkpoint-*/{path.name}"))
    return (run / path.name).is_file() or any(int(other[1]) > int(mine[1]) for other in others if other)


def sniff_log(document: Document) -> bool:
    """Whether the object, or the first one of a list, has a ``log`` of epochs, or says what the log is of."""
    if document.kind == "lines":
        return False
    first = next(document.objects(1), (0, dict[str, Any]()))[1] if document.kind == "list" else document.members
    log = plain(first.get("log"))
    epochs = [entry for entry in log if isinstance(entry, dict) and "epoch" in entry] if isinstance(log, list) else []
    return "log" in first and (bool(epochs) or not {"final_test_acc", "lam"}.isdisjoint(first))


def read_log(document: Document) -> Iterator[Finding]:
    """Of a penalty run's log (format 4), or of each in a list: one audit row, judged at the last epoch, and the trace.

    (a) is a lower bound, the geometric mean (‖h_L‖/‖h_0‖)^{1/L}, where the file names ‖h_0‖ and L, and
    not measured otherwise; (b) is judged at the logged layer as a proxy; (d) is exact once a baseline is
    given; (c) is not in such logs. What is logged of all layers is exact.

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
        named = row_of_file(name) if isinstance(name, str) else row_of_file(document.path)
        row = msgspec.structs.replace(named, source=document.path, key=named.key if name else f"{named.key}{place}")
        try:
            yield from _logged_run(Document(path=document.path, kind="object", members=header, at=place), row)
        except FaError as error:
            yield Problem(document.path, f"{error}; the log is skipped")


_OF_THE_HEADER = frozenset(
    {"run", "lam", "d", "L", "arch", "seed", "method", "method_name", "final_test_acc", "frozen_baseline_acc"}
    | {"frozen_acc", "verdict", "config", "args"}
)


def _logged_run(document: Document, row: AuditRow) -> Iterator[Finding]:
    header = dict(document.fields())
    where = f"{document.path}: {document.at}.log"
    log = header.pop("log", None)
    if not isinstance(log, list) or not log:
        raise UnreadableInput("not a list of epochs", where=where, hint="a penalty log has one entry per epoch")
    places = [(f"{where}[{index}]", entry) for index, entry in enumerate(log) if isinstance(entry, dict)]
    ends = ends_of(header)
    depths = (ends_of(entry).depth for _, entry in places)
    ends = Ends(ends.h_0, ends.depth or next(filter(None, depths), None))
    epochs, problems, notes = epochs_of(places, ends)
    yield from problems
    if not epochs:
        raise UnreadableInput("no epoch can be read", where=where, hint=problems[0].message if problems else "")
    unused = [printable(name) for name in header if name not in _OF_THE_HEADER and not any(columns_of((name,)))]
    notes = (*notes, *([f"in the header, not used: {listed(unused, 6)}"] if unused else []))
    row.axes.update(axes_of(header))
    method, seed = owner(header, row)
    row = msgspec.structs.replace(row, method=method, seed=seed)
    yield msgspec.structs.replace(row, report=_final(header, epochs[-1].report(method, seed), row, notes))
    yield trace_of(row, epochs, notes=notes)


_NO_DRIFT = {"c": "a penalty log holds no gradients of several batches"}


def _final(header: dict[str, Any], last: DiagnosticReport, row: AuditRow, notes: tuple[str, ...]) -> DiagnosticReport:
    """The last epoch's report with the header's final accuracy, baseline and verdict, where it has them."""
    final = {
        "headline_acc": header.get("final_test_acc"),
        "frozen_baseline_acc": header.get("frozen_baseline_acc", header.get("frozen_acc")),
        "verdict": header.get("verdict"),
    }
    stated = DiagnosticReport.from_dict({name: value for name, value in final.items() if value is not None}, row.source)
    given = {name: getattr(stated, name) for name in ("headline_acc", "frozen_baseline_acc", "recorded_verdict")}
    return msgspec.structs.replace(
        last,
        axes=row.axes,
        notes="; ".join(("judged at the last of the logged epochs; norms are those the log holds", *notes)),
        unmeasured={**(_NO_DRIFT if last.cross_batch_stability is None else {}), **last.unmeasured},
        **{name: value for name, value in given.items() if value is not None},
    )
