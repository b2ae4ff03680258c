"""Decoding of report objects as rows: format 2 (one report), format 3 (a list).

A list's entry has a method, a seed and verdicts like ``walk-back: (a)``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from msgspec.structs import replace

from fa_core.errors import InvalidReport, UnreadableInput
from fa_core.files.decode import Json
from fa_core.files.opening import LONGEST_NAME
from fa_core.formats.json_document import (
    Document,
    Finding,
    Node,
    attempt,
    convert,
)
from fa_core.formats.rows import AuditRow, Problem, row_of_file
from fa_core.report.diagnostic_report import AGREE, SOURCE_DRIFT, DiagnosticReport
from fa_core.report.method_style import known_method
from fa_core.report.names import (
    axes_of,
    canonical_method,
    control_of,
    key_of,
    named_axis,
    numbered,
    said_names,
    split_key,
)
from fa_core.report.numbers import is_number, joined, listed

_AGAIN = re.compile(r"#[0-9]+$")

MEASURED = frozenset({"residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc"})
"""Fields of which a report has at least one."""


def decode_report(node: Node, where: str) -> DiagnosticReport:
    """Decode and check a report.

    Args:
        node: the JSON object.
        where: file and JSON path, for messages.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: no field of a report at all, or numbers that contradict each other.
    """
    fields = convert(node, Json, where)
    report = DiagnosticReport.from_dict(fields, where)
    if MEASURED.isdisjoint(fields):
        raise InvalidReport(
            "none of a report's fields",
            where=where,
            hint=f"a report has some of {', '.join(sorted(MEASURED))}",
        )
    return report


def row_of(source: str, key: str, report: DiagnosticReport, where: str) -> AuditRow:
    """A report as a row: method, seed and axes from the key, or the report if the key has no seed.

    A ``#2`` after a key only distinguishes equal keys. The report's own axes are no part of the
    method's name.

    Raises:
        InvalidReport: a report of another run than its key names.

    >>> row = row_of("", "bp_data-digits_s42", DiagnosticReport(axes={"data": "digits"}), "")
    >>> row.method, row.seed
    ('bp', 42)
    """
    # with a sign behind each part: lam0 is no part of lam0.01
    plain = f"{_AGAIN.sub('', key)}_"
    stated = report.axes if len(key) <= LONGEST_NAME else {}
    for axis, value in stated.items():
        plain = plain.replace(f"{named_axis(axis, value)}_", "_", 1)
    method, seed, axes = split_key(plain[:-1])
    said = {**axes, "arch": None, "method": method, "seed": seed}
    if seed is None and not (
        known_method(method) and canonical_method(key) != canonical_method(report.method_name)
    ):
        del said["method"]  # a label
    check_run(report, said, "key", where)
    if seed is None:
        seed = report.seed
        if report.method_name.strip():
            method, trained_by = control_of(report.method_name)
            axes = {**trained_by, **axes}
    return AuditRow(
        source=source,
        key=key,
        method=method or "unknown",
        seed=seed,
        report=report,
        checkpoint=report.provenance.get("checkpoint"),
        axes={**axes, **report.axes},
    )


def check_run(report: DiagnosticReport, said: Json, by: str, where: str) -> None:
    """Refuse a report of another run than the one it stands for.

    Args:
        report: names a method, a seed and axes, or some of them.
        said: the run's method, seed and axes; None = not said.
        by: what says it.
        where: file and JSON path, for the message.

    Raises:
        InvalidReport: with the first name that differs.
    """
    method, _ = control_of(report.method_name)
    own = {**report.axes, "seed": report.seed, "method": method}
    for name, value in own.items():
        other = said.get(name)
        if value in (None, "") or other is None or str(other) == str(value):
            continue
        # as a key of it is read: net_d64 is a net
        keys = (method, key_of(method, {}, said.get("seed")))
        if name != "method" or str(other) not in {split_key(key)[0] for key in keys}:
            raise InvalidReport(
                f"the {by} names {name:.60} {other!s:.60}, its report names {value!s:.60}",
                where=where,
                hint="both must name the same run",
            )


def sniff(document: Document) -> bool:
    """Whether the object has a measured field of a report, and is neither an epoch nor a
    manifest."""
    if MEASURED.isdisjoint(document.members) or "epoch" in document.members:
        return False
    return not str(document.members.get("format", "")).startswith("fa-run/")


def read(document: Document) -> Iterator[Finding]:
    """The one row of format 2, completed by its file's name; its own names count.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    yield row_by_itself(document, decode_report(document.members, f"{document.path}: $"))


def row_by_itself(document: Document, report: DiagnosticReport) -> AuditRow:
    """The row of a file's one report, completed by the file's name; its own names count."""
    own = row_of(document.path, "", report, "")
    name = row_of_file(document.path, document.root)
    method = own.method if report.method_name.strip() else name.method
    seed = name.seed if own.seed is None else own.seed
    axes = {**name.axes, **own.axes}
    return replace(own, key=name.key, method=method, seed=seed, axes=axes)


_PEEK = 20
_REPORTED = frozenset(DiagnosticReport.__struct_encode_fields__) - {"credit"}


def sniff_list(document: Document) -> bool:
    """Whether some of the first entries name a method and something measured on it."""
    return document.kind == "list" and any(
        ("method" in fields or "method_name" in fields) and _is_measured(fields)
        for _, fields in document.objects(_PEEK)
    )


def read_list(document: Document) -> Iterator[Finding]:
    """The rows of format 3, and problems for invalid entries."""
    parts = (
        partial(_entry_row, node, document.path, document.place(index))
        for index, node in document.items
    )
    yield from keyed(document.path, parts, "entry", lambda rows: numbered(said_names(rows)))


def keyed(
    path: str,
    parts: Iterable[Callable[[], AuditRow]],
    what: str,
    keys: Callable[[list[AuditRow]], Iterable[str]],
) -> Iterator[Finding]:
    """Problems for a file's parts that are invalid, and the rows of the others.

    Args:
        path: the file.
        parts: each reads a part; may raise a `FaError`.
        what: name of a part.
        keys: of the rows.
    """
    found = [attempt(path, read, what) for read in parts]
    yield from (one for one in found if isinstance(one, Problem))
    rows = [one for one in found if isinstance(one, AuditRow)]
    for row, key in zip(rows, keys(rows), strict=True):
        yield replace(row, key=key)


def _entry_row(node: Node, source: str, where: str) -> AuditRow:
    fields = convert(node, Json, where)
    name = fields.get("method") or fields.get("method_name")
    if not isinstance(name, str) or not _is_measured(fields):
        raise UnreadableInput("no method with something measured", where=where)
    return replace(row_of(source, "", entry_report(fields, where), where), checkpoint=None)


_SPELLED = {
    "method": "method_name",
    "acc": "headline_acc",
    "h_norms": "residual_norms",
    "g_norms": "bp_grad_norms",
    "max_per_block": "growth_bound",
    "max_per_block_growth": "growth_bound",
    "stability": "cross_batch_stability",
    SOURCE_DRIFT: "cross_batch_stability",
    "frozen_acc": "frozen_baseline_acc",
    "test_acc": "headline_acc",
    "final_test_acc": "headline_acc",
    "hidden_norms": "residual_norms",
}
"""Name in a list → field of a report, where they differ; without norms, growth is exact."""

_LAST = {"h_L": "residual_norms", "g_L": "bp_grad_norms"}
"""Name of the norm at layer L, which counts where a list has not those of all layers."""


def _is_measured(fields: Json) -> bool:
    """Whether an entry has an accuracy, norms of the stream or their growth."""
    there = (name for name, value in fields.items() if value is not None)
    named = {_SPELLED.get(name, name) for name in there}
    return not named.isdisjoint((*MEASURED, "growth_bound", *_LAST))


def entry_report(fields: Json, where: str) -> DiagnosticReport:
    """An entry of a list, or a log's header, as a report.

    Raises:
        InvalidReport: one that contradicts itself.
    """
    found: Json = {}
    axes = axes_of(fields)
    layers = {}
    unused = []
    for name, value in fields.items():
        field = _SPELLED.get(name, name)
        if field in _REPORTED and value is not None:
            before = found.get(field, value)
            if str(before) != str(value) and field != "method_name":
                raise InvalidReport(f"{name} is {field}, which has another value", where=where)
            found[field] = value
        elif field not in {*_LAST, *_REPORTED, *axes, "key"}:
            unused.append(name)
    for name, field in _LAST.items():
        if found.get(field) in (None, []) and fields.get(name) is not None:
            found[field] = [fields[name]]
            layers[field] = "L"
    if unused:
        note = f"in the file, not used: {listed(sorted(unused), 6)}"
        found["notes"] = joined(str(found.get("notes", "")), note)
    report = DiagnosticReport.from_dict({"layers": layers, **found, "axes": axes}, where)
    for name, field in _LAST.items():
        given, norms = fields.get(name), getattr(report, field)
        if given is not None and not is_rounded(given, norms[-1]):
            what = f"{name} is {given!s:.60}, its norms end in {norms[-1]:g}"
            raise InvalidReport(what, where=where)
    method, _ = control_of(str(fields.get("method") or report.method_name))
    check_run(report, {"method": method}, "entry", where)
    return report


def is_rounded(given: object, own: float) -> bool:
    """Whether a value is a number of a report, up to rounding (1 %)."""
    return str(given) == str(own) or (
        is_number(given) and math.isclose(given, own, rel_tol=AGREE - 1)
    )
