"""An audit whose disk fails after the check that it can be written to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fa_core.engine.journal
from fa_core.engine.worker import MEASURE
from fa_core.errors import FaError
from fa_tui.cli import main

ENGINE_TESTS = Path(__file__).parents[2] / "fa_core" / "engine"


def test_rows_that_cannot_be_saved_are_printed_and_spilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out.json"
    temporary.mkdir()

    def refuse(*_: object) -> None:
        raise FaError("cannot write (Read-only file system)", where=out)

    monkeypatch.setenv(MEASURE, "faults:measure_described")
    monkeypatch.setattr(fa_core.engine.journal, "write_audit_table", refuse)
    monkeypatch.setattr(fa_core.engine.journal.Journal, "append", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("PYTHONPATH", str(ENGINE_TESTS))
    checkpoint, known = tmp_path / "dfa_s1.json", tmp_path / "runs.json"
    checkpoint.write_text(
        json.dumps({"provenance": {"arch": "resmlp", "arch_args": {}, "data": "synthetic"}})
    )
    report = {
        "method_name": "dfa",
        "seed": 1,
        "headline_acc": 0.5,
        "provenance": {"checkpoint": str(checkpoint)},
    }
    known.write_text(json.dumps({"reports": {"dfa_s1": report}}))
    where = ["--data", "synthetic", "--device", "cpu", "--out", str(out), "--format", "json"]
    assert main(["audit", str(known), *where]) == 3
    told = capsys.readouterr()
    (spilled,) = temporary.glob("fa-audit-*/out.json")
    assert [row["method"] for row in json.loads(told.out)] == ["dfa"]
    assert list(json.loads(spilled.read_text())["reports"]) == ["dfa_s1"]
    last = told.err.splitlines()[-1]
    assert (
        last
        == f"fa-tui: {out}: cannot write (Read-only file system); what is finished is in {spilled}"
    )
    assert not out.exists()
