"""JSON Schema of every file the project writes, generated from the types that write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from fa_core.formats.audit_table_writer import SummaryRow
from fa_core.report import WHAT_IF, DiagnosticReport
from fa_core.runs import Manifest
from fa_core.trace import TraceEpoch

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RECORDED = "the verdict that was found in the source, where it differs from `verdict`"


_ATTRIBUTE = re.compile(r"^ {8}(\w+): (.*(?:\n {10,}.*)*)", re.MULTILINE)


class AuditTableFile(msgspec.Struct, kw_only=True):
    """An audit table: reports by ``<method>_s<seed>``, and a summary line for each."""

    reports: dict[str, DiagnosticReport]
    summary: list[SummaryRow]


def schema_of(kind: type) -> dict[str, Any]:
    """The JSON Schema of a struct, with what its docstring says of each attribute."""
    (reference,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root = definitions.pop(reference["$ref"].rpartition("/")[2])
    for definition in (root, *definitions.values()):
        _describe(definition)
        if definition.get("title") == DiagnosticReport.__name__:
            definition["properties"]["verdict"]["description"] = "the fixed verdict text under `thresholds`"
            definition["properties"]["recorded_verdict"] = {"type": "string", "description": _RECORDED}
            del definition["properties"][WHAT_IF]
    return {"$schema": _DIALECT, **root, **({"$defs": definitions} if definitions else {})}


def _describe(definition: dict[str, Any]) -> None:
    """Move what the class says of each attribute to where a schema's reader looks for it."""
    summary, _, rest = definition.get("description", "").partition("\n")
    definition["description"] = summary
    for name, text in _ATTRIBUTE.findall(rest):
        if name in definition["properties"]:
            definition["properties"][name]["description"] = " ".join(text.split())


SCHEMAS: Mapping[str, type] = {
    "report": DiagnosticReport,
    "audit-table": AuditTableFile,
    "manifest": Manifest,
    "trace": TraceEpoch,
}
"""What can be asked for: a report (``audit.json``), an audit table, a run's manifest, a line of its trace."""
