import json

import msgspec
import pytest

from fa_core.audit.journal import Journal
from fa_core.formats import TraceEpoch, scan
from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.formats.schema import SCHEMAS, schema_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import Manifest
from fa_core.report.report_facts import WHAT_IF

KINDS = {
    dict: "object",
    list: "array",
    str: "string",
    float: "number",
    int: "number integer",
    type(None): "null",
    bool: "boolean",
}


def violations(value, rule, root, place="$"):
    """The part of JSON Schema that our schemas use, read slowly and plainly."""
    if "$ref" in rule:
        return violations(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in rule:
        tried = [violations(value, option, root, place) for option in rule["anyOf"]]
        return [] if [] in tried else [problem for problems in tried for problem in problems]
    expected = rule.get("type")
    if expected and expected not in KINDS[type(value)]:
        return [f"{place}: {value!r} is no {expected}"]
    found = []
    if isinstance(value, dict):
        found += [
            f"{place}.{name} is missing" for name in rule.get("required", []) if name not in value
        ]
        for name, inner in value.items():
            member = rule.get("properties", {}).get(name, rule.get("additionalProperties"))
            if isinstance(member, dict):
                found += violations(inner, member, root, f"{place}.{name}")
            elif "properties" in rule:
                found.append(f"{place}.{name} is not in the schema")
    if isinstance(value, list) and isinstance(rule.get("items"), dict):
        for index, item in enumerate(value):
            found += violations(item, rule["items"], root, f"{place}[{index}]")
    return found


def check(value, name):
    rule = schema_of(SCHEMAS[name])
    assert rule["$schema"].endswith("2020-12/schema")
    return violations(value, rule, rule)


def test_a_written_audit_table_and_its_reports_follow_their_schemas(tmp_path, sample_runs):
    path = tmp_path / "out.json"
    write_audit_table(path, scan([*sample_runs.glob("audit_*.json")]).rows)
    written = json.loads(path.read_text())
    assert check(written, "audit-table") == []
    assert len(written["reports"]) > 20
    for report in written["reports"].values():
        assert check(report, "report") == []


def test_a_report_with_a_differing_recorded_verdict_follows_the_schema():
    odd = DiagnosticReport(
        residual_norms=[1.0, 100.0], recorded_verdict="trustworthy", unmeasured={"c": "few"}
    )
    assert "recorded_verdict" in odd.to_dict()
    assert check(odd.to_dict(), "report") == []


def test_every_run_folder_of_the_samples_follows_the_schemas(sample_runs):
    manifests = sorted(sample_runs.rglob("manifest.json"))
    for path in manifests:
        assert check(json.loads(path.read_text()), "manifest") == [], path
        for audit in path.parent.glob("audit.json"):
            assert check(json.loads(audit.read_text()), "report") == [], audit
        for trace in path.parent.glob("trace.jsonl"):
            for line in trace.read_text().splitlines():
                assert check(json.loads(line), "trace") == [], trace
    assert manifests


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"residual_norms": ["big"]}, "report"),
        ({"headline_acc": "high"}, "report"),
        ({"reports": []}, "audit-table"),
        ({"method": "bp"}, "manifest"),
        ({"loss": 1.0}, "trace"),
    ],
)
def test_a_schema_refuses_what_the_reader_refuses(value, name):
    assert check(value, name)


@pytest.mark.parametrize(
    ("name", "kind"), [("report", DiagnosticReport), ("manifest", Manifest), ("trace", TraceEpoch)]
)
def test_every_field_is_in_the_schema_and_explained(name, kind):
    properties = schema_of(SCHEMAS[name])["properties"]
    for field in msgspec.structs.fields(kind):
        if field.encode_name == WHAT_IF:
            assert WHAT_IF not in properties
            continue
        assert properties[field.encode_name].get("description"), field.name


def test_a_journal_is_as_its_schema_says(tmp_path, published_table):
    Journal(tmp_path / "journal", scan([published_table]).rows[:3])
    for line in (tmp_path / "journal").read_text().splitlines():
        assert check(json.loads(line), "journal") == []
