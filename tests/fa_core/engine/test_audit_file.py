from __future__ import annotations

import json
import os
import threading

import pytest

from fa_core import atomic
from fa_core.engine import audit as module
from fa_core.engine.audit import AuditFile, check_writable, replace_audit
from fa_core.errors import FaError, UsageError
from fa_core.formats import scan
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

    real = module.write_audit_table

    def slow_write(path, rows):
        real(path, rows)
        Clock.now += Clock.write

    monkeypatch.setattr(atomic.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(module, "write_audit_table", slow_write)
    return Clock


def written(out) -> list[str]:
    return list(json.loads(out.read_text())["reports"])


def test_writing_takes_a_twentieth_of_the_time_however_large_the_file_is(tmp_path, clock):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    file.put(0, REPORT)
    assert written(out) == ["dfa_s0"]
    file.put(1, REPORT)
    assert written(out) == ["dfa_s0"]
    clock.now += 19.0
    file.put(2, REPORT)
    assert written(out) == ["dfa_s0", "dfa_s1", "dfa_s2"]


def test_a_small_file_is_never_behind(tmp_path, clock):
    clock.write = 0.01
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    for index, row in enumerate(ROWS):
        file.put(index, REPORT)
        assert row.key in written(out)


def test_what_came_during_the_pause_is_written_after_it_though_nothing_else_comes(tmp_path, monkeypatch):
    wrote = threading.Semaphore(0)
    real = module.write_audit_table

    def told_write(path, rows):
        real(path, rows)
        wrote.release()

    monkeypatch.setattr(module, "write_audit_table", told_write)
    monkeypatch.setattr(atomic, "AT_ONCE", 0.0)
    file = AuditFile(tmp_path / "out.json", ROWS)
    for index in range(3):
        file.put(index, REPORT)
    for _ in range(3):
        if len(written(tmp_path / "out.json")) == 3:
            break
        assert wrote.acquire(timeout=30)
    assert written(tmp_path / "out.json") == ["dfa_s0", "dfa_s1", "dfa_s2"]


def test_the_last_word_is_always_written(tmp_path, clock):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    for index in (2, 0):
        file.put(index, REPORT)
    file.write()
    assert written(out) == ["dfa_s0", "dfa_s2"]
    file.write()
    assert clock.now == 102.0


def test_without_a_file_rows_are_only_collected(tmp_path):
    file = AuditFile(None, ROWS)
    file.put(1, REPORT)
    file.write()
    assert [row.key for row in file.rows()] == ["dfa_s1"]


class Disks:
    """What can be written to: folders that are full refuse."""

    def __init__(self, monkeypatch):
        self.full: set = set()
        real = module.write_audit_table

        def write(path, rows):
            if path.parent in self.full:
                raise FaError("cannot write (No space left on device)", where=path)
            real(path, rows)

        monkeypatch.setattr(module, "write_audit_table", write)


@pytest.fixture
def disks(monkeypatch):
    return Disks(monkeypatch)


@pytest.fixture
def spare(tmp_path, monkeypatch):
    """Where the temporary folder is."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(module.tempfile, "tempdir", str(folder))
    return folder


def test_a_disk_that_fails_midway_spills_every_row_to_a_file_that_is_named(tmp_path, disks, spare):
    told = []
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS, on_trouble=told.append)
    file.put(0, REPORT)
    disks.full.add(tmp_path)
    file.put(1, REPORT)
    file.put(2, REPORT)
    file.write()
    (spilled,) = spare.glob("*/out.json")
    assert written(out) == ["dfa_s0"]
    assert written(spilled) == ["dfa_s0", "dfa_s1", "dfa_s2"]
    why = f"{out}: cannot write (No space left on device); what is finished is in {spilled}"
    assert (str(file.unsaved), told) == (why, [f"{why}; measuring goes on"])


def test_a_disk_that_has_room_again_gets_every_row(tmp_path, disks, spare):
    out = tmp_path / "out.json"
    file = AuditFile(out, ROWS)
    disks.full.add(tmp_path)
    file.put(0, REPORT)
    disks.full.clear()
    file.write()
    assert written(out) == ["dfa_s0"]
    assert file.unsaved is None


def test_rows_that_no_disk_takes_are_still_there(tmp_path, monkeypatch, spare):
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    file = AuditFile(tmp_path / "out.json", ROWS)
    file.put(1, REPORT)
    assert str(file.unsaved).endswith("; no other place could be written to either")
    assert [row.key for row in file.rows()] == ["dfa_s1"]


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


def test_replacing_an_audit_keeps_the_old_file_out_of_a_search(tmp_path):
    file = tmp_path / "audit.json"
    assert replace_audit(file, DiagnosticReport("dfa", residual_norms=[1.0], headline_acc=0.25)) is None
    kept = replace_audit(file, DiagnosticReport("dfa", residual_norms=[2.0], headline_acc=0.5))
    assert kept == tmp_path / "audit.json.~1~"
    assert [row.report.headline_acc for row in scan([tmp_path]).rows] == [0.5]
    assert [row.report.headline_acc for row in scan([kept]).rows] == [0.25]
