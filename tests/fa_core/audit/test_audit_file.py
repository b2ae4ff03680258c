import os
import resource
import signal
from itertools import pairwise

import pytest
from msgspec.structs import replace

from fa_core.audit.audit import AuditFile, _recorded_in
from fa_core.errors import FaError, UsageError
from fa_core.formats import load_audits, scan
from fa_core.formats.audit_table import Journal, write_audit_table
from fa_core.formats.frozen_runs import with_measured_baselines
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.rows import row_of
from tests.json_files import json_of

ROWS = [row_of(f"dfa_s{n}", f"{n}.pt", ...) for n in range(3)]
REPORT = DiagnosticReport(residual_norms=[1.0, 2.0])


def written(out):
    return [row.key for row in scan([out]).rows]


def test_every_run_is_in_the_file_at_once_and_the_table_takes_its_place_at_the_end(tmp_path):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    for index in (2, 0):
        file.put(index, REPORT)
        assert ROWS[index].key in written(out)
    assert out.read_text().startswith('{"journal"')
    file.write()
    assert list(json_of(out)["reports"]) == ["dfa_s0", "dfa_s2"]


def test_appending_writes_no_more_for_a_thousandth_run_than_for_the_first(tmp_path, monkeypatch):
    order = [replace(ROWS[0], seed=n, checkpoint=f"{n:04}.pt") for n in range(1000)]
    file, sizes = AuditFile(tmp_path / "out.json", order), []
    real = os.fsync
    monkeypatch.setattr("os.fsync", lambda handle: None)
    for index in range(1000):
        file.put(index, REPORT)
        sizes.append((tmp_path / "out.json").stat().st_size)
    monkeypatch.setattr("os.fsync", real)
    steps = [after - before for before, after in pairwise(sizes)]
    assert max(steps) - min(steps) < 10


def test_a_line_that_was_cut_off_costs_no_other(tmp_path):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    file.put(0, REPORT)
    file.put(1, REPORT)
    (tmp_path / "copy.json").write_bytes(out.read_bytes()[:-40])
    assert written(tmp_path / "copy.json") == ["dfa_s0"]


def test_a_journal_judges_by_its_own_frozen_runs(tmp_path):
    facts = {
        "arch": "resmlp",
        "arch_args": {},
        "data": "synthetic",
        "recipe": {"epochs": 1},
        "method_args": {},
    }
    report = replace(REPORT, provenance=facts)
    runs = [
        row_of(
            f"{method}_s1",
            "",
            method,
            report=replace(report, method_name=method, headline_acc=acc),
        )
        for method, acc in (("frozen", 0.25), ("bp", 0.75))
    ]
    Journal(tmp_path / "out.json", lambda: runs)
    write_audit_table(tmp_path / "table.json", with_measured_baselines(runs, runs))
    found = []
    for name in ("out.json", "table.json"):
        rows = load_audits(tmp_path / name).rows()
        found.append({row.method: row.report.margin_pp for row in rows})
    assert found[0] == found[1]
    assert found[0]["bp"] == 50.0


def test_a_record_without_a_name_gets_none_by_its_key(tmp_path):
    run = row_of("frozen_s1", "", "frozen", report=replace(REPORT, seed=1))
    Journal(tmp_path / "out.json", lambda: [run])
    write_audit_table(tmp_path / "table.json", [run])
    for name in ("out.json", "table.json"):
        (found,) = scan([tmp_path / name]).rows
        assert (found.key, found.method, found.report.method_name) == ("frozen_s1", "frozen", "")
        assert not found.is_control


def test_an_interruption_or_a_full_disk_costs_only_the_run_that_was_written(tmp_path, monkeypatch):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    file.put(0, REPORT)
    room = out.stat().st_size + 99
    with monkeypatch.context() as context:
        context.setattr("os.fsync", lambda handle: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            file.put(1, REPORT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    with pytest.raises(FaError, match="File too large"):
        file.put(1, REPORT)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert written(out) == ["dfa_s0"]
    file.write()
    assert written(out) == ["dfa_s0", "dfa_s1"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_what_another_program_put_in_its_place_is_kept(tmp_path):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    file.put(0, REPORT)
    (tmp_path / "other").write_text("theirs")
    (tmp_path / "other").replace(out)
    file.write()
    assert written(out) == ["dfa_s0"]
    assert (tmp_path / "out.json.~1~").read_text() == "theirs"


def test_two_writers_of_one_file_are_kept_apart(tmp_path, monkeypatch):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    monkeypatch.setattr("fa_core.formats.audit_table.TRIES", 1)
    with pytest.raises(UsageError, match="is being written by another process"):
        AuditFile(out, ROWS)
    file.put(0, REPORT)
    file.write()
    AuditFile(out, ROWS, before=scan([out]).rows).write()
    assert written(out) == ["dfa_s0"]


def test_an_audit_of_nothing_leaves_no_file(tmp_path):
    AuditFile(tmp_path / "out.json", ROWS).write()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_refused_before_measuring(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"cannot be written"):
        _recorded_in(tmp_path / "file" / "out.json", False)
    _recorded_in(tmp_path / "new" / "out.json", False)
    assert list((tmp_path / "new").iterdir()) == []
