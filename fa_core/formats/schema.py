"""JSON Schemas of the project's JSON files, generated from its types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import msgspec

from fa_core.files.decode import Json
from fa_core.formats.audit_table_writer import SummaryRow
from fa_core.formats.trace import TraceEpoch
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import Manifest
from fa_core.report.report_facts import WHAT_IF, ReportFacts

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RECORDED = "the verdict that was found in the source, where it differs from `verdict`"


_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", re.MULTILINE)


class AuditTableFile(msgspec.Struct, kw_only=True):
    """An audit table: reports by ``<method>_s<seed>``, and a summary line for each."""

    reports: dict[str, DiagnosticReport]
    summary: list[SummaryRow]


class AuditListEntry(msgspec.Struct, kw_only=True):
    """An entry of an audit list; the axes of the run (``lam``, ``d``, …) are members beside these.

    Attributes:
        method: canonical method name.
        seed: of the run.
        acc: test accuracy, a fraction.
        h_norms: median ‖h_l‖₂, l = 0..L.
        g_norms: median ‖g_l‖₂, l = 0..L.
        max_per_block: growth, of diagnostic (a).
        stability_layer: the layer (c) was taken at.
        stability: (c)'s mean pairwise cosine.
        frozen_acc: accuracy with frozen blocks.
        notes: what else is known of the run.
        verdict: in short, e.g. ``walk-back: (a),(b)``.
    """

    method: str
    seed: int | None = None
    acc: float | None = None
    h_norms: list[float] = []
    g_norms: list[float] = []
    max_per_block: float | None = None
    stability_layer: int | None = None
    stability: float | None = None
    frozen_acc: float | None = None
    notes: str = ""
    verdict: str = ""


class PenaltyEpoch(msgspec.Struct, kw_only=True):
    """An epoch of a penalty log; ‖g_l‖ of the layer that is logged is ``g_2_norm``, or of another
    number."""

    epoch: int
    test_acc: float | None = None
    h_L_norm: float | None = None
    residual_norms: list[float] = []
    bp_grad_norms: list[float] = []
    cross_batch_stability: float | None = None


class PenaltyLog(msgspec.Struct, kw_only=True):
    """A penalty log, an object for one run and a list of them for several; axes are members beside
    these.

    Attributes:
        run: its name in the audit.
        method: canonical method name.
        lam: λ of the penalty.
        seed: of the run.
        final_test_acc: test accuracy at the end, a fraction.
        frozen_baseline_acc: accuracy with frozen blocks.
        verdict: the fixed verdict text.
        log: the epochs; the last one is what was audited.
    """

    run: str = ""
    method: str
    lam: float
    seed: int | None = None
    final_test_acc: float | None = None
    frozen_baseline_acc: float | None = None
    verdict: str = ""
    log: list[PenaltyEpoch]


class JournalLine(msgspec.Struct, kw_only=True):
    """A line of an audit that goes on: the first says who writes it, each further one holds a
    report.

    Attributes:
        journal: the format, in the first line only, like what follows.
        pid: the process that writes it.
        host: its machine.
        since: when it began.
        report: of a run that is measured.
    """

    journal: str | None = None
    pid: int | None = None
    host: str | None = None
    since: str | None = None
    report: DiagnosticReport | None = None


def schema_of(kind: type) -> Json:
    """The JSON Schema of a struct, with descriptions from its docstring."""
    (reference,), definitions = msgspec.json.schema_components(
        [kind], ref_template="#/$defs/{name}"
    )
    root = definitions.pop(reference["$ref"].rpartition("/")[2])
    for definition in (root, *definitions.values()):
        if definition.get("title") == DiagnosticReport.__name__:
            definition["description"] = ReportFacts.__doc__
        _describe(definition)
        if definition.get("title") == DiagnosticReport.__name__:
            definition["properties"]["verdict"]["description"] = (
                "the fixed verdict text under `thresholds`"
            )
            definition["properties"]["recorded_verdict"] = {
                "type": "string",
                "description": _RECORDED,
            }
            del definition["properties"][WHAT_IF]
    return {"$schema": _DIALECT, **root, **({"$defs": definitions} if definitions else {})}


def _describe(definition: Json) -> None:
    """Move the attributes' descriptions from the class docstring to the schema's properties."""
    # Python 3.13 strips the indentation of docstrings
    docstring = inspect.cleandoc(definition.get("description", ""))
    summary, _, rest = docstring.partition("\n")
    definition["description"] = summary
    for name, text in _ATTRIBUTE.findall(rest):
        if name in definition["properties"]:
            definition["properties"][name]["description"] = " ".join(text.split())


SCHEMAS: Mapping[str, type] = {
    "report": DiagnosticReport,
    "audit-table": AuditTableFile,
    "manifest": Manifest,
    "trace": TraceEpoch,
    "journal": JournalLine,
    "audit-list": AuditListEntry,
    "penalty-log": PenaltyLog,
}
"""Kinds of schemas; for a trace, a journal and an audit list, of one line or entry."""
