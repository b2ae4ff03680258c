from __future__ import annotations

import json
import os
import threading

import pytest

from fa_core.engine import audit_file as ledger_module
from fa_core.engine.audit_file import Ledger, check_writable
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
        write = 1.0

    real = ledger_module.write_audit_table

    def slow_write(path, rows):
        real(path, rows)
        Clock.now += Clock.write

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


def test_a_small_file_is_never_behind(tmp_path, clock):
    clock.write = 0.01
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS)
    for index, row in enumerate(ROWS):
        ledger.put(index, REPORT)
        assert row.key in written(out)


def test_what_came_during_the_pause_is_written_after_it_though_nothing_else_comes(tmp_path, monkeypatch):
    wrote = threading.Semaphore(0)
    real = ledger_module.write_audit_table

    def told_write(path, rows):
        real(path, rows)
        wrote.release()

    monkeypatch.setattr(ledger_module, "write_audit_table", told_write)
    monkeypatch.setattr(ledger_module, "AT_ONCE", 0.0)
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


class Disks:
    """What can be written to: folders that are full refuse."""

    def __init__(self, monkeypatch):
        self.full: set = set()
        real = ledger_module.write_audit_table

        def write(path, rows):
            if path.parent in self.full:
                raise FaError("cannot write (No space left on device)", where=path)
            real(path, rows)

        monkeypatch.setattr(ledger_module, "write_audit_table", write)


@pytest.fixture
def disks(monkeypatch):
    return Disks(monkeypatch)


@pytest.fixture
def spare(tmp_path, monkeypatch):
    """Where the temporary folder is."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(ledger_module.tempfile, "tempdir", str(folder))
    return folder


def test_a_disk_that_fails_midway_spills_every_row_to_a_file_that_is_named(tmp_path, disks, spare):
    told = []
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS, on_trouble=told.append)
    ledger.put(0, REPORT)
    disks.full.add(tmp_path)
    ledger.put(1, REPORT)
    ledger.put(2, REPORT)
    ledger.write()
    (spilled,) = spare.glob("*/out.json")
    assert written(out) == ["dfa_s0"]
    assert written(spilled) == ["dfa_s0", "dfa_s1", "dfa_s2"]
    why = f"{out}: cannot write (No space left on device); what is finished is in {spilled}"
    assert (str(ledger.unsaved), told) == (why, [f"{why}; measuring goes on"])


def test_a_disk_that_has_room_again_gets_every_row(tmp_path, disks, spare):
    out = tmp_path / "out.json"
    ledger = Ledger(out, ROWS)
    disks.full.add(tmp_path)
    ledger.put(0, REPORT)
    disks.full.clear()
    ledger.write()
    assert written(out) == ["dfa_s0"]
    assert ledger.unsaved is None


def test_rows_that_no_disk_takes_are_still_there(tmp_path, monkeypatch, spare):
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    ledger = Ledger(tmp_path / "out.json", ROWS)
    ledger.put(1, REPORT)
    assert str(ledger.unsaved).endswith("; no other place could be written to either")
    assert [row.key for row in ledger.rows()] == ["dfa_s1"]


def test_a_place_that_cannot_be_written_to_is_refused_before_measuring(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"cannot be written"):
        check_writable(tmp_path / "file" / "out.json")


def test_what_is_no_regular_file_is_refused_before_measuring(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="is a device, FIFO or socket"):
        check_writable(tmp_path / "fifo")


def test_checking_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "new" / "out.json")
    assert list((tmp_path / "new").iterdir()) == []
