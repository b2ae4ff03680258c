"""What is done with a fuzzed file: everything that reads it, and everything that is computed from what was read."""

import contextlib
import json
import math
from unittest import mock

from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import Replay, by_method
from fa_core.analysis.utility import decision_utility
from fa_core.audit.verify import compare, recorded_options
from fa_core.errors import FaError
from fa_core.formats import scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.scan import Scan
from fa_core.formats.table import AuditTable
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import to_html, to_markdown
from fa_core.reporting.form import reporting_form
from fa_core.reporting.records import to_csv
from fa_tui.settings import load_presets, load_settings, save_preset
from tests.fuzz import cases, pickles, streams

THRESHOLDS = DiagnosticThresholds()
_INT64 = 1 << 63


def read(paths):
    """What is there; a refusal names the file."""
    try:
        return scan(paths)
    except FaError as error:
        assert str(paths[0]) in str(error)
        return Scan()


def use(found, folder, *, form=False, draw=False):
    """Judge, analyse, report and write again what was read."""
    for problem in found.problems:
        assert "\n" not in problem.message
    for row in found.rows:
        assert row.seed is None or -_INT64 <= row.seed < _INT64
        assert row.report.verdict == row.report.check().verdict
        text = str(row.report) + row.key + row.method + row.source
        text.encode()
        with contextlib.suppress(FaError):
            recorded_options(row)
        compare(row.report, row.report)
    if found.rows:
        table = AuditTable.from_rows(found.rows, found.problems)
        assert table.judgements().total() == len(table)
        to_csv(table).encode()
        with contextlib.suppress(FaError):
            sensitivities(table, THRESHOLDS)
            decision_utility(table, THRESHOLDS)
            json.dumps(over_seeds(table, THRESHOLDS).to_dict())
        write_audit_table(folder / "again.json", found.rows)
        if form:
            blocks = list(reporting_form(table, THRESHOLDS, found.traces))
            to_markdown(blocks).encode()
        if draw:
            to_html(blocks).encode()
    if found.traces:
        by_method(Replay(found.traces, AuditTable.from_rows(found.rows)).timelines())
        for trace in found.traces:
            numbers = [epoch.epoch for epoch in trace.epochs]
            assert all(map(math.isfinite, numbers)) and numbers == sorted({*numbers})


def read_json(folder, number):
    name, data = cases.json_case(number)
    (folder / name).write_bytes(data)
    use(read([folder / name]), folder, form=number % 50 == 0, draw=number % 10_000 == 0)
    (folder / name).unlink()


def read_log(folder, number):
    path = folder / "any_s1.json"
    path.write_bytes(cases.log_case(number))
    use(read([path]), folder)
    path.unlink()


def read_manifest(folder, number):
    run = folder / "dfa_s42"
    run.mkdir(exist_ok=True)
    (run / "manifest.json").write_bytes(cases.manifest_case(number))
    (run / "model.safetensors").write_bytes(b"")
    name, data = cases.json_case(number)
    (run / "audit.json").write_bytes(data)
    (run / "trace.jsonl").write_bytes(data if name.startswith("trace") else b"")
    use(read([run]), folder)


def read_checkpoint(folder, number):
    from fa_core.measure.checkpoint import load_checkpoint
    from fa_core.measure.checkpoint_network import loaded

    name, data = cases.checkpoint_case(number)
    path = folder / name
    path.write_bytes(data)
    read([path])
    try:
        loaded(load_checkpoint(path))
    except FaError as error:
        assert str(path) in str(error)
    path.unlink()


def measure(folder, number):
    from fa_core.audit.jobs import Job, JobProgress
    from fa_core.audit.measuring import measure_run
    from tests.fa_core.audit.runs_for_tests import make_run

    run = folder / ("dfa", "ep", "dtp")[number % 3]
    if not run.exists():
        make_run(run, run.name)
        (run / "manifest.json").rename(run / "as written.json")
    manifest = json.loads((run / "as written.json").read_text())
    (run / "manifest.json").write_bytes(cases.manifest_case(number, manifest))
    with contextlib.suppress(FaError):
        measure_run(Job(id="", checkpoint=str(run), method=run.name), "cpu", JobProgress())


def read_settings(folder, number):
    for name in ("settings.toml", "presets.toml"):
        (folder / name).write_bytes(cases.toml_case(number))
    with mock.patch("fa_tui.settings.config_folder", lambda: folder):
        for problem in load_settings().problems:
            assert "\n" not in problem.message
            assert problem.message.isprintable()
        load_presets()
        with contextlib.suppress(FaError):
            save_preset("strict", THRESHOLDS)


KINDS = {
    "json": read_json,
    "logs": read_log,
    "run folders": read_manifest,
    "checkpoints": read_checkpoint,
    "measured runs": measure,
    "toml": read_settings,
    "streams": streams.guess,
    "pickles": pickles.compare,
}
"""Kind of case → reads the case of a number, in a folder of its own."""
