import json

import msgspec
import pytest

from fa_core.formats import TraceEpoch, scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.schema import SCHEMAS, schema_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import Manifest
from fa_core.report.report_facts import WHAT_IF

jsonschema = pytest.importorskip("jsonschema", reason="Ray brings it")


def check(value, name):
    """What does not follow a schema, names that it does not have included."""
    rule = schema_of(SCHEMAS[name])
    for part in (rule, *rule.get("$defs", {}).values()):
        part.setdefault("additionalProperties", False)
    jsonschema.Draft202012Validator.check_schema(rule)
    return [error.message for error in jsonschema.Draft202012Validator(rule).iter_errors(value)]


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
        ({"epoch": 1, "mood": 1.0}, "trace"),
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
