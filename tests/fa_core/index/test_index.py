"""The index: what was read is not read again, and what changed is never shown as it was."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fa_core.formats import Scan, load_audits, scan, scan_again
from fa_core.index import stamps, store

Reads = Callable[[], list[str]]
REPORT = {"method_name": "BP", "residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}


@pytest.fixture
def folder(tmp_path: Path, published_table: Path) -> Path:
    """Two run folders, a checkpoint, a single report, and files that are none of ours."""
    folder = tmp_path / "runs"
    manifest = {"format": "fa-run/1", "method": "bp", "arch": "resmlp", "data": "digits"}
    for seed in (1, 2):
        run = folder / f"bp_s{seed}"
        run.mkdir(parents=True)
        (run / "manifest.json").write_text(json.dumps({**manifest, "seed": seed, "axes": {"lam": 0.1}}))
        (run / "audit.json").write_text(json.dumps({**REPORT, "credit": {"gamma": [None, 0.5]}}))
    (folder / "dfa_s3.json").write_text(json.dumps(REPORT))
    (folder / "notes.txt").write_text("words")
    (folder / "config.json").write_text('{"lr": 1}')
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.json"
    write_table(path, 2.0)
    return path


def write_table(path: Path, growth: float) -> None:
    report = {**REPORT, "residual_norms": [1.0, growth], "notes": f"about {growth}", "axes": {"lam": 0.5}}
    path.write_text(json.dumps({"reports": {f"bp_s{seed}": {**report, "verdict": "trustworthy"} for seed in range(5)}}))


def shown(found: Scan) -> list[tuple[str, str, str]]:
    return [(row.source, row.key, repr(row.report)) for row in found.rows]


def written(cache: Path) -> list[Path]:
    return sorted(cache.iterdir()) if cache.exists() else []


# The same again.


def test_files_and_run_folders_that_did_not_change_are_not_read_again(cache: Path, folder: Path, reads: Reads) -> None:
    first = scan([folder])
    assert sorted(reads()) == ["bp_s1", "bp_s2", "config.json", "dfa_s3.json", "notes.txt"]
    second = scan([folder])
    assert reads() == []
    assert second == first
    assert shown(second) == shown(first)


def test_a_big_table_is_not_decoded_again(cache: Path, table: Path, reads: Reads) -> None:
    first = load_audits(table)
    assert f"{table.name} decoded" in reads()
    second = load_audits(table)
    assert f"{table.name} decoded" not in reads()
    for name in ("key", "method", "seed", "recorded_verdict", "growth", "g_L", "margin_pp", "coverage", "nonfinite"):
        assert repr(getattr(second, name).tolist()) == repr(getattr(first, name).tolist())
    assert list(second.axes) == list(first.axes)
    assert [repr(row) for row in map(second.report, range(5))] == [repr(row) for row in map(first.report, range(5))]


def test_few_or_small_files_leave_no_index(folder: Path, table: Path, tmp_path: Path) -> None:
    environment = {**os.environ, store.VARIABLE: str(tmp_path / "cache")}
    code = (
        "import sys; from fa_core.formats import scan; scan(sys.argv[1:]); print('fa_core.index.store' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code, folder, table], env=environment, capture_output=True, check=True)
    assert ran.stdout.split() == [b"False"]
    assert not (tmp_path / "cache").exists()


def test_rows_name_their_files_as_the_person_did(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = [row.source for row in scan([folder]).rows]
    monkeypatch.chdir(folder.parent)
    assert [row.source for row in scan(["runs"]).rows] == [str(Path(path).relative_to(Path.cwd())) for path in absolute]
    assert [row.source for row in scan([folder]).rows] == absolute
    shutil.copytree(folder, folder.parent / "elsewhere" / "runs")
    monkeypatch.chdir("elsewhere")
    (Path("runs") / "bp_s1" / "audit.json").write_text(json.dumps({**REPORT, "residual_norms": [1.0, 9.0]}))
    assert scan(["runs"]).rows[0].report.h_L == 9.0
    assert len(written(cache)) == 3


# Another content.


def change(path: Path) -> None:
    """Other numbers in a file of the same length."""
    text = path.read_text()
    assert "2.0" in text
    path.write_text(text.replace("2.0", "9.0"))


@pytest.mark.parametrize("name", ["bp_s1/audit.json", "dfa_s3.json"])
def test_a_changed_file_is_read_again(cache: Path, folder: Path, name: str) -> None:
    scan([folder])
    change(folder / name)
    assert 9.0 in [row.report.h_L for row in scan([folder]).rows]
    assert [row.report.h_L for row in scan([folder]).rows].count(9.0) == 1


def test_a_file_replaced_by_one_of_equal_size_and_time_is_read_again(cache: Path, folder: Path, table: Path) -> None:
    scan([folder])
    load_audits(table)
    for path in (folder / "bp_s1" / "audit.json", table):
        status = path.stat()
        other = path.with_suffix(".new")
        shutil.copyfile(path, other)
        change(other)
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(path)
        assert path.stat().st_size == status.st_size
        assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert scan([folder]).rows[0].report.h_L == 9.0
    assert load_audits(table).h_L.tolist() == [9.0] * 5
    assert load_audits(table).report(4).notes == "about 9.0"


def test_a_table_written_over_in_place_is_read_again(cache: Path, table: Path) -> None:
    load_audits(table)
    change(table)
    assert load_audits(table).h_L.tolist() == [9.0] * 5


def test_what_is_gone_is_not_shown(cache: Path, folder: Path) -> None:
    scan([folder])
    shutil.rmtree(folder / "bp_s1")
    (folder / "dfa_s3.json").unlink()
    assert [row.key for row in scan([folder]).rows] == ["bp_s2"]
    (folder / "bp_s2" / "audit.json").unlink()
    assert [row.report.coverage for row in scan([folder]).rows] == [""]
    (folder / "bp_s2" / "manifest.json").unlink()
    assert scan([folder]).rows == []


def test_a_run_measured_since_is_shown_with_its_report(cache: Path, folder: Path) -> None:
    audit = folder / "bp_s1" / "audit.json"
    text = audit.read_text()
    audit.unlink()
    assert scan([folder]).rows[0].report.coverage == ""
    audit.write_text(text)
    assert scan([folder]).rows[0].report.h_L == 2.0


def test_a_stranger_that_became_a_report_is_read(cache: Path, folder: Path) -> None:
    scan([folder])
    (folder / "config.json").write_text(json.dumps({**REPORT, "seed": 8}))
    assert 8 in [row.seed for row in scan([folder]).rows]


def test_what_was_in_trouble_is_read_again(cache: Path, folder: Path, reads: Reads) -> None:
    (folder / "bp_s1" / "audit.json").write_text('{"residual_norms": [1.0, ')
    (folder / "broken.json").write_text("{")
    first = scan([folder])
    assert len(first.problems) == 2
    reads()
    assert scan([folder]).problems == first.problems
    assert sorted(reads()) == ["bp_s1", "broken.json"]


def test_traces_of_remembered_runs_are_read_when_they_are_wanted(cache: Path, folder: Path) -> None:
    (folder / "bp_s1" / "trace.jsonl").write_text('{"epoch": 1, "residual_norms": [1.0, 2.0]}\n')
    assert [trace.key for trace in scan([folder]).traces] == ["bp_s1"]
    assert scan([folder], run_traces=False).traces == []
    assert [trace.key for trace in scan([folder]).traces] == ["bp_s1"]


def test_following_a_folder_never_asks_the_index(cache: Path, folder: Path, table: Path, reads: Reads) -> None:
    scan([folder, table])
    reads()
    for path in (folder / "bp_s1", table):
        assert len(scan_again(str(path)).rows) > 0
    assert "bp_s1" in reads()


def test_a_file_that_may_change_without_another_stamp_is_not_trusted(
    cache: Path, folder: Path, table: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stamps, "SETTLED_NS", 2_000_000_000)
    scan([folder, table])
    assert not any(path.stat().st_size > 1000 for path in written(cache))
    reads()
    scan([folder, table])
    assert {"bp_s1", "dfa_s3.json", f"{table.name} decoded"} <= set(reads())


def test_a_stamp_is_settled_two_seconds_after_the_last_change_of_anything() -> None:
    second = 1_000_000_000
    assert stamps.is_settled((5, 10 * second, 10 * second, 1), 13 * second)
    assert not stamps.is_settled((5, 10 * second, 10 * second, 1), 11 * second)
    assert not stamps.is_settled((5, 1 * second, 10 * second, 1), 11 * second)
    assert not stamps.is_settled((5, 20 * second, 10 * second, 1), 13 * second)


# The index itself in trouble.


def test_an_index_deleted_at_any_moment_costs_only_time(cache: Path, folder: Path, table: Path) -> None:
    first = shown(scan([folder, table]))
    shutil.rmtree(cache)
    assert shown(scan([folder, table])) == first
    rows = scan([folder, table]).rows
    shutil.rmtree(cache)
    assert [(row.source, row.key, repr(row.report)) for row in rows] == first


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "other code", "garbage"])
def test_a_damaged_index_is_ignored_and_written_anew(
    cache: Path, folder: Path, table: Path, damage: str, reads: Reads
) -> None:
    first = shown(scan([folder, table]))
    paths = written(cache)
    assert len(paths) == 2
    for path in paths:
        data = path.read_bytes()
        middle = len(data) // 2
        path.write_bytes(
            {
                "truncated": data[:-7],
                "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
                "empty": b"",
                "other code": data.replace(b"fa-index 1 ", b"fa-index 1 0", 1),
                "garbage": b"\x80\x04garbage",
            }[damage]
        )
    reads()
    assert shown(scan([folder, table])) == first
    assert "bp_s1" in reads()
    assert shown(scan([folder, table])) == first
    assert "bp_s1" not in reads()


def test_content_of_another_shape_is_ignored(cache: Path, folder: Path, table: Path) -> None:
    first = shown(scan([folder, table]))
    for path in written(cache):
        store.write(path.stem, b"\x93\x01\x02\x03")
    assert shown(scan([folder, table])) == first


def test_columns_that_do_not_fit_each_other_are_ignored(cache: Path, table: Path) -> None:
    import msgspec

    first = shown(scan([table]))
    (path,) = written(cache)
    data = store.read(path.stem)
    assert data is not None
    fields = msgspec.msgpack.decode(data)
    for place in [place for place, field in enumerate(fields) if isinstance(field, list)]:
        spoiled = [*fields]
        spoiled[place] = fields[place][:-1]
        store.write(path.stem, msgspec.msgpack.encode(spoiled))
        assert shown(scan([table])) == first


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="everything can be written")
def test_a_cache_folder_that_cannot_be_written_is_done_without(cache: Path, folder: Path) -> None:
    cache.parent.mkdir()
    cache.parent.chmod(0o500)
    try:
        assert shown(scan([folder])) == shown(scan([folder]))
    finally:
        cache.parent.chmod(0o700)


def test_a_cache_folder_that_cannot_be_made_is_done_without(cache: Path, folder: Path, table: Path) -> None:
    cache.parent.write_text("a file where the folder should be")
    first = shown(scan([folder, table]))
    assert shown(scan([folder, table])) == first
    assert store.contents() == store.Contents(cache, 0, 0)


def test_a_full_disk_leaves_no_half_file(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert len(scan([folder]).rows) == 3
    assert written(cache) == []


def test_two_programs_may_write_at_once(cache: Path, folder: Path, table: Path) -> None:
    code = """
import sys
from fa_core.formats import reading, recalling, scan, slices
from fa_core.index import places, stamps
recalling.FROM = recalling.TABLE_FROM = places.WORTHWHILE = stamps.SETTLED_NS = reading.SLICED_FROM = 0
slices.SLICE = 1
for _ in range(20):
    recall = places.PlaceIndex.recall
    places.PlaceIndex.recall = lambda self, place, stamps: None
    print([row.report.h_L for row in scan(sys.argv[1:]).rows])
    places.PlaceIndex.recall = recall
    print([row.report.h_L for row in scan(sys.argv[1:]).rows])
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code, folder, table], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert set(output.splitlines()) == {str([2.0] * 8)}
    assert {path.suffix for path in written(cache)} == {".index"}


# Bounds and switches.


def test_the_least_used_files_go_when_there_are_too_many(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LIMIT", 1000)
    for age, name in enumerate(("old", "older", "oldest")):
        store.write(name, bytes(200))
        os.utime(cache / f"{name}.index", (1000 - age, 1000 - age))
    assert store.read("older") is not None
    store.write("newest", bytes(200))
    assert {path.stem for path in written(cache)} == {"newest", "older", "old"}
    assert not store.write("huge", bytes(501))


def test_what_a_killed_writer_left_is_removed(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "left.tmp").write_bytes(b"half")
    os.utime(cache / "left.tmp", (1, 1))
    (cache / "theirs.tmp").write_bytes(b"being written")
    store.write("new", b"content")
    assert [path.name for path in written(cache)] == ["new.index", "theirs.tmp"]


@pytest.mark.parametrize("said", ["off", "OFF", "0", "no"])
def test_it_can_be_switched_off(
    cache: Path, folder: Path, table: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv(store.VARIABLE, said)
    scan([folder, table])
    reads()
    scan([folder, table])
    assert "bp_s1" in reads()
    assert not cache.exists()
    assert store.contents() is None


def test_it_lies_in_the_cache_folder_of_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(store.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = store.index_folder()
    assert folder is not None
    assert folder.name == "index"
    assert "fa-tui" in str(folder)


def test_it_says_how_much_it_holds(cache: Path, folder: Path) -> None:
    scan([folder])
    found = store.contents()
    assert found is not None
    assert (found.folder, found.files) == (cache, 1)
    assert found.bytes == written(cache)[0].stat().st_size
