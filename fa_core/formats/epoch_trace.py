"""Format 5: a trace, one JSON object per line or a JSON list, one per epoch; format 4: the log of a penalty run.

An epoch may be logged under any of the names that training scripts use. A log is an audit of its last epoch, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from fa_core.errors import InvalidReport, UnreadableInput
from fa_core.formats.json_document import Document, Finding, attempt, convert_spelled, plain, spellings_in
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.runs import canonical_method
from fa_core.trace import Trace, TraceEpoch, growth_bound

_PEEK = 20
ALIASES: Mapping[str, tuple[str, ...]] = {
    "epoch": ("epoch",),
    "step": ("step", "global_step"),
    "test_acc": ("test_acc", "headline_acc", "acc", "test_accuracy", "accuracy", "val_acc"),
    "train_acc": ("train_acc", "train_accuracy"),
    "loss": ("loss", "train_loss"),
    "residual_norms": ("residual_norms", "hidden_norms", "h_norms"),
    "bp_grad_norms": ("bp_grad_norms", "g_norms", "grad_norms"),
    "stability_layer": ("stability_layer",),
    "cross_batch_stability": ("cross_batch_stability", "stability"),
    "frozen_baseline_acc": ("frozen_baseline_acc", "frozen_acc"),
    "gamma": ("gamma", "gammas", "Gamma"),
    "error_norm": ("error_norm",),
    "lr": ("lr", "learning_rate"),
    "seconds": ("seconds", "time", "elapsed"),
}
NORM_FIELDS = frozenset(
    {*ALIASES["residual_norms"], *ALIASES["bp_grad_norms"], *ALIASES["gamma"], "h_L_norm", "h_L", "g_L_norm", "g_L"}
)
_H_FIRST = ("h_0_norm", "h0_norm", "h_0")
_H_LAST = ("h_L_norm", "h_L")
_G_LAST = ("g_L_norm", "g_L")
_G_LAYER = re.compile(r"^g_?(?P<layer>\d{1,6})(?:_norm)?$")
_LARGEST = 1 << 1023
_DEPTH = ("L", "depth", "n_blocks", "num_blocks", "n_layers", "num_layers")


def sniff(document: Document) -> bool:
    """Whether some of the first entries (or the only one) have an epoch and something we know of it."""
    if document.kind == "object":
        return "epoch" in document.members and _known(document.members)
    return any("epoch" in fields and _known(fields) for _, fields in document.objects(_PEEK))


def read(document: Document) -> Iterator[Finding]:
    """The traces of the file (one per method and seed, where entries name them) and its bad entries."""
    yield from document.problems
    if document.kind == "object":
        entries = [(0, {key: plain(value) for key, value in document.members.items()})]
    else:
        entries = list(document.objects())
        whole = {index for index, _ in entries}
        for index, _ in document.items:
            if index not in whole:
                yield Problem(document.path, f"{document.place(index)}: not a JSON object; the entry is skipped")
    name = row_of_file(document.path)
    runs: dict[tuple[str, int | None], list[tuple[str, dict[str, Any]]]] = {}
    for index, fields in entries:
        where = document.path if document.kind == "object" else document.place(index)
        runs.setdefault(owner(fields, name), []).append((where, fields))
    for (method, seed), logged in runs.items():
        epochs, problems = epochs_of(logged)
        yield from problems
        if epochs:
            key = name.key if len(runs) == 1 else f"{method}_s{seed}"
            yield Trace(
                source=document.path,
                key=key,
                method=method,
                seed=seed,
                axes=name.axes,
                epochs=epochs,
                unfinished=document.unfinished,
            )
    if not runs:
        raise UnreadableInput("no whole epoch in the trace", where=document.path, hint="wait for the first epoch")


def epochs_of(
    logged: list[tuple[str, dict[str, Any]]], ends: Ends | None = None
) -> tuple[list[TraceEpoch], list[Problem]]:
    """Epochs in increasing order, and the entries that are none.

    An epoch that was logged twice (a run that was resumed) counts as logged last.

    Args:
        logged: place (for messages) and fields of each entry.
        ends: what the log's header says of ‖h_0‖ and L; by default each entry speaks for itself.
    """
    epochs: dict[int, TraceEpoch] = {}
    problems: list[Problem] = []
    for where, fields in logged:
        stated = ends_of(fields) if ends is None else ends
        epoch = attempt(partial(epoch_of, fields, where, stated), where.split(": ")[0], "epoch")
        if isinstance(epoch, Problem):
            problems.append(epoch)
        else:
            epochs[epoch.epoch] = epoch
    return [epochs[number] for number in sorted(epochs)], problems


def _known(fields: Any) -> bool:
    return not NORM_FIELDS.isdisjoint(fields) or "test_acc" in fields or "headline_acc" in fields


def owner(fields: dict[str, Any], name: AuditRow) -> tuple[str, int | None]:
    """Method and seed as the entry states them, or else as the file is named."""
    method, seed = fields.get("method", fields.get("method_name")), fields.get("seed")
    return (
        canonical_method(method) if isinstance(method, str) and method.strip() else name.method,
        seed if isinstance(seed, int) and not isinstance(seed, bool) else name.seed,
    )


class Ends(msgspec.Struct, frozen=True):
    """What a partial log says once for all its epochs: ‖h_0‖ and the number of blocks L."""

    h_0: float | None = None
    depth: int | None = None


def ends_of(fields: Mapping[str, Any]) -> Ends:
    """‖h_0‖ and L from a log's header, or from the ``config``/``args`` mapping inside it."""
    h_0: float | None = None
    depth: int | None = None
    for place in (fields, fields.get("config"), fields.get("args")):
        if isinstance(place, Mapping):
            h_0 = _number(place, _H_FIRST) if h_0 is None else h_0
            blocks = _number(place, _DEPTH)
            depth = int(blocks) if depth is None and blocks is not None and 1 <= blocks <= 1e6 else depth
    return Ends(h_0, depth)


def epoch_of(fields: Mapping[str, Any], where: str, ends: Ends) -> TraceEpoch:
    """One epoch.

    Args:
        fields: the JSON object; unknown keys are left alone.
        where: file and JSON path or line, for messages.
        ends: what the log's header says of ‖h_0‖ and L.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    spelled = spellings_in(fields, ALIASES)
    found = {name: fields[spelling] for name, spelling in spelled.items()}
    if isinstance(found.get("gamma"), (int, float)):
        found["gamma"] = [found["gamma"]]
    if "residual_norms" not in found:
        found.update(_partial(fields, found, ends))
    for own in ("growth_bound", "evidence", "unmeasured"):
        if fields.get(own) is not None:
            found[own] = fields[own]
    epoch = convert_spelled(found, TraceEpoch, where, spelled)
    epoch.report().check(where)
    if epoch.train_acc is not None and epoch.train_acc > 1.0:
        raise InvalidReport(
            f"train_acc is {epoch.train_acc}", where=where, hint="accuracies are fractions: divide by 100"
        )
    return epoch


def _partial(fields: Mapping[str, Any], found: Mapping[str, Any], ends: Ends) -> dict[str, Any]:
    """(a) and (b) from a log that holds ‖h_L‖ and one gradient norm only.

    (a) is the geometric mean where ‖h_0‖ and L are known, and not measured where they are not.
    (b) is exact for ‖g_L‖ and a proxy for the gradient of an earlier layer.
    """
    h_L, h_0 = _number(fields, _H_LAST), _number(fields, _H_FIRST)
    evidence: dict[str, str] = {}
    unmeasured: dict[str, str] = {}
    partial: dict[str, Any] = {"evidence": evidence, "unmeasured": unmeasured}
    if h_L is not None:
        bound = growth_bound(ends.h_0 if h_0 is None else h_0, h_L, ends.depth)
        partial["residual_norms"] = [h_L]
        if bound is None:
            unmeasured["a"] = "only ‖h_L‖ is logged: a bound on growth needs ‖h_0‖ and the number of blocks L too"
        else:
            partial["growth_bound"] = bound
            evidence["a"] = "bound"
    if "bp_grad_norms" not in found:
        g_L = _number(fields, _G_LAST)
        layers = {int(m["layer"]): key for key in fields if (m := _G_LAYER.match(key)) and _is_number(fields[key])}
        if g_L is not None:
            partial["bp_grad_norms"] = [g_L]
        elif layers:
            deepest = max(layers)
            partial["bp_grad_norms"] = [fields[layers[deepest]]]
            if deepest != ends.depth:
                evidence["b"] = "proxy"
    return partial


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(fields: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value: Any = fields.get(name)
        if _is_number(value):
            if isinstance(value, float) or abs(value) < _LARGEST:
                return float(value)
            return math.inf if value > 0 else -math.inf
    return None


_LOG_AXES = ("lam", "d", "L", "arch")


def sniff_log(document: Document) -> bool:
    """Whether the object has a list ``log`` whose entries have epochs, or says what the log is of."""
    if document.kind != "object" or "log" not in document.members:
        return False
    log = plain(document.members["log"])
    if "final_test_acc" in document.members or "lam" in document.members:
        return True
    return isinstance(log, list) and any(isinstance(entry, dict) and "epoch" in entry for entry in log)


def read_log(document: Document) -> Iterator[Finding]:
    """Of a penalty run's log (format 4): one audit row, judged at the last epoch, and the trace.

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
    row.axes.update({axis: header[axis] for axis in _LOG_AXES if isinstance(header.get(axis), (int, float, str))})
    method, seed = owner(header, row)
    identity: dict[str, Any] = {"source": row.source, "key": row.key, "method": method, "seed": seed, "axes": row.axes}
    yield AuditRow(**identity, report=_final(header, epochs[-1].report(), identity, document.path))
    yield Trace(**identity, epochs=epochs)


def _final(header: dict[str, Any], last: DiagnosticReport, identity: dict[str, Any], path: str) -> DiagnosticReport:
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
