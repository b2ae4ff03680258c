"""An audit whose disk fails after the check that it can be written to."""

from pathlib import Path

import fa_core.formats.audit_table
from fa_core.audit.worker import MEASURE
from fa_core.errors import FaError
from tests.fa_tui.printing import complaint
from tests.json_files import put_json

ENGINE_TESTS = Path(__file__).parents[2] / "fa_core" / "audit"


def test_a_disk_that_fails_ends_an_audit_in_one_line(tmp_path, monkeypatch, capsys):
    out, checkpoint = tmp_path / "out.json", tmp_path / "dfa_s1.json"

    def refuse(*_):
        raise FaError("cannot write (Read-only file system)", where=out)

    monkeypatch.setenv(MEASURE, "faults:measure_described")
    monkeypatch.setattr(fa_core.formats.audit_table.Journal, "append", refuse)
    monkeypatch.setenv("PYTHONPATH", str(ENGINE_TESTS))
    checkpoint.write_text("{}")
    report = {"method_name": "dfa", "seed": 1, "provenance": {"checkpoint": str(checkpoint)}}
    put_json(tmp_path / "runs.json", {"reports": {"dfa_s1": {**report, "headline_acc": 0.5}}})
    where = ["--data", "synthetic", "--device", "cpu", "--out", str(out)]
    last = complaint(capsys, "audit", tmp_path / "runs.json", *where, code=3).splitlines()[-1]
    assert last == f"fa-tui: {out}: cannot write (Read-only file system)"
