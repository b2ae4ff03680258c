from __future__ import annotations

import json
import threading

import pytest

from fa_core.engine import ledger as ledger_module
from fa_core.engine.ledger import Ledger, check_writable
from fa_core.errors import FaError, UsageError
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow

ROWS = [AuditRow(source=f"{n}.pt", key=f"dfa_s{n}", method="dfa", seed=n, checkpoint=f"{n}.pt") for n in range(3)]
REPORT = DiagnosticReport(residual_norms=[1.0, 2.0])


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for what a write takes."""

    class Clock:
        now = 100.0

    real = ledger_module.write_audit_table

    def slow_write(path, rows):
        real(path, rows)
        Clock.now += 1.0

    monkeypatch.setattr(ledger_module.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(ledger_module, "write_audit_table", slow_write)
    return Clock


def written(out) -> list[str]:
    return list(json.loads(out.read_text())["reports"])


def test_writing_takes_a_twentieth_of_the_time_however_large_the_file_is(tmp_path, clock):
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS)
    ledger.put(0, REPORT)
    assert written(out) == ["dfa_s0"]
    ledger.put(1, REPORT)
    assert written(out) == ["dfa_s0"]
    clock.now += 19.0
    ledger.put(2, REPORT)
    assert written(out) == ["dfa_s0", "dfa_s1", "dfa_s2"]


def test_what_came_during_the_pause_is_written_after_it_though_nothing_else_comes(tmp_path, monkeypatch):
    wrote = threading.Semaphore(0)
    real = ledger_module.write_audit_table

    def told_write(path, rows):
        real(path, rows)
        wrote.release()

    monkeypatch.setattr(ledger_module, "write_audit_table", told_write)
    ledger = Ledger(tmp_path / "out.json", ROWS)
    for index in range(3):
        ledger.put(index, REPORT)
    for _ in range(3):
        if len(written(tmp_path / "out.json")) == 3:
            break
        assert wrote.acquire(timeout=30)
    assert written(tmp_path / "out.json") == ["dfa_s0", "dfa_s1", "dfa_s2"]


def test_the_last_word_is_always_written(tmp_path, clock):
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS)
    for index in (2, 0):
        ledger.put(index, REPORT)
    ledger.write()
    assert written(out) == ["dfa_s0", "dfa_s2"]
    ledger.write()
    assert clock.now == 102.0


def test_without_a_file_rows_are_only_collected(tmp_path):
    ledger = Ledger(None, ROWS)
    ledger.put(1, REPORT)
    ledger.write()
    assert [row.key for row in ledger.rows()] == ["dfa_s1"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS)
    ledger.put(0, REPORT)
    before = out.read_text()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FaError, match="No space left"):
        Ledger(out, ROWS).put(1, REPORT)
    assert out.read_text() == before


def test_a_place_that_cannot_be_written_to_is_refused_before_measuring(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"cannot be written"):
        check_writable(tmp_path / "file" / "out.json")


def test_checking_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "new" / "out.json")
    assert list((tmp_path / "new").iterdir()) == []
