"""JSON Schemas of the project's JSON files, generated from its types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import msgspec

from fa_core.files.decode import Json
from fa_core.formats.audit_table import SummaryRow
from fa_core.formats.trace import TraceEpoch
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import Manifest
from fa_core.report.report_facts import WHAT_IF, ReportFacts

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", re.MULTILINE)


class AuditTableFile(msgspec.Struct, kw_only=True):
    """An audit table: reports by ``<method>_s<seed>``, and a summary line for each."""

    reports: dict[str, DiagnosticReport]
    summary: list[SummaryRow]


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
                "description": "the verdict that was found in the source, where it differs from "
                "`verdict`",
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
}
"""Kinds of schemas; for a trace, of one line."""
