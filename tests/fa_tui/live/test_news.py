"""Live folders: what appears, changes or goes is told; what is being written is waited for; nothing crashes."""

import json
import math
import shutil
from pathlib import Path

from fa_core.formats import scan, scan_again
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import RESULTS
from fa_tui import follow
from fa_tui.follow import Folders
from fa_tui.session import Session, changed_cells, merged
from fa_tui.views.glyphs import UNICODE
from fa_tui.widgets.run_cells import mark_of
from tests.fa_core.rows import row_of
from tests.json_files import put_json


def report(growth=2.0):
    return json.dumps(
        DiagnosticReport(method_name="dfa", seed=42, residual_norms=[1.0, growth]).to_dict()
    )


def run_folder(folder, *, audit=False):
    folder.mkdir(parents=True)
    manifest = {
        "format": "fa-run/1",
        "method": "dfa",
        "arch": "resmlp",
        "data": "synthetic",
        "seed": 42,
    }
    put_json(folder / "manifest.json", manifest)
    if audit:
        (folder / "audit.json").write_text(report())
    return folder


def folders(*paths):
    """The paths, looked at once."""
    found = Folders(paths, [row.source for row in scan(list(paths)).rows], since=math.inf)
    assert found.look() == ([], {})
    return found


def news(of):
    readings, _ = of.look()
    return readings


def test_a_new_a_changed_and_a_removed_file_are_told_once(tmp_path):
    open_now = folders(tmp_path)
    path = tmp_path / "a.json"
    path.write_text(report())
    (new,) = news(open_now)
    assert (new.place, len(new.rows), new.gone) == (str(path), 1, False)
    assert news(open_now) == []
    (tmp_path / ".new").write_text(report(7.5))
    (tmp_path / ".new").replace(path)
    (changed,) = news(open_now)
    assert changed.rows[0].report.max_per_block_growth == 7.5
    path.unlink()
    (gone,) = news(open_now)
    assert (gone.place, gone.gone) == (str(path), True)
    assert news(open_now) == []


def test_a_file_of_a_run_folder_means_the_run(tmp_path):
    run = run_folder(tmp_path / "dfa_s42")
    open_now = folders(tmp_path)
    (run / "audit.json").write_text(report(7.0))
    (run / "model.safetensors").write_bytes(b"not looked into here")
    (reading,) = news(open_now)
    (row,) = reading.rows
    assert (reading.place, row.checkpoint) == (str(run), str(run))
    assert row.report.max_per_block_growth == 7.0


def test_feedback_hidden_and_unrelated_files_are_nothing(tmp_path):
    open_now = folders(tmp_path)
    for name, content in (
        ("credit.safetensors", "x"),
        ("notes.txt", "x"),
        ("other.json", '{"x": 1}'),
        (".hidden.json", report()),
        ("audit.json.~1~", report()),
    ):
        (tmp_path / name).write_text(content)
    assert news(open_now) == []


def test_a_file_being_written_is_read_when_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "STILL_SECONDS", 1000.0)
    open_now, path, whole = folders(tmp_path), tmp_path / "a.json", report()
    for end in range(10, len(whole), len(whole) // 4):
        path.write_text(whole[:end])
        assert news(open_now) == []
    path.write_text(whole)
    (reading,) = news(open_now)
    assert len(reading.rows) == 1 and not reading.problems
    assert news(open_now) == []


def test_a_broken_file_that_stands_still_is_told_once(tmp_path, monkeypatch):
    open_now, path = folders(tmp_path), tmp_path / "a.json"
    path.write_text(report()[:50])
    assert news(open_now) == []
    monkeypatch.setattr(follow, "STILL_SECONDS", 0.0)
    (reading,) = news(open_now)
    assert str(path) in reading.problems[0].message
    assert news(open_now) == []
    path.write_text(report())
    (mended,) = news(open_now)
    assert len(mended.rows) == 1 and not mended.problems


def test_a_growing_trace_with_half_a_last_line_is_read_up_to_there(tmp_path):
    run = run_folder(tmp_path / "dfa_s42")
    open_now = folders(tmp_path)
    line = json.dumps(
        {"epoch": 1, "test_acc": 0.5, "residual_norms": [1.0, 2.0], "bp_grad_norms": [0.1, 0.1]}
    )
    (run / "trace.jsonl").write_text(line + "\n" + line.replace("1", "2", 1)[:20])
    (reading,) = news(open_now)
    (trace,) = reading.traces
    assert [epoch.epoch for epoch in trace.epochs] == [1]
    assert trace.unfinished


def test_a_run_folder_that_goes_is_gone_and_can_come_back(tmp_path):
    run = run_folder(tmp_path / "runs" / "dfa_s42", audit=True)
    open_now = folders(tmp_path)
    shutil.move(run.parent, tmp_path / ".away")
    (reading,) = news(open_now)
    assert (reading.place, reading.gone) == (str(run), True)
    shutil.move(tmp_path / ".away", run.parent)
    (back,) = news(open_now)
    assert (back.place, back.gone, len(back.rows)) == (str(run), False, 1)
    (run / "manifest.json").unlink()
    (run / "audit.json").unlink()
    (half,) = news(open_now)
    assert half.gone


def test_a_run_whose_weights_changed_is_marked_and_says_so(tmp_path, sample_runs):
    run = tmp_path / "bp_s42"
    shutil.copytree(sample_runs / "main" / run.name, run)
    before, open_now = Session(scan([run]).rows), folders(run)
    weights = run / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    now, _ = merged(before, news(open_now))
    assert (now.rows[0].report.changed, mark_of(now, 0, UNICODE)) == (
        "its weights changed since",
        "≠",
    )
    assert now.cell(0) == "?" + before.cell(0)[1:]
    assert changed_cells(before, now) == {0}


def test_what_a_person_named_by_a_link_or_relatively_keeps_its_name(tmp_path, monkeypatch):
    run_folder(tmp_path / "real" / "dfa_s42")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    for growth, named in enumerate((Path("link"), Path("real"), Path()), 2):
        (row,) = scan([named]).rows
        open_now = folders(named)
        (tmp_path / "real" / "dfa_s42" / "audit.json").write_text(report(growth + 0.123))
        assert [reading.place for reading in news(open_now)] == [row.source]
    assert news(Folders([Path("loop")], [])) == []


def test_what_was_written_since_the_scan_began_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(report())
    since = path.stat().st_ctime
    assert news(Folders([tmp_path], [str(path)], since=since + 60)) == []
    (reading,) = news(Folders([tmp_path], [str(path)], since=since))
    assert reading.place == str(path)


def test_of_a_table_only_the_rows_that_changed_are_news(tmp_path):
    path = tmp_path / "table.json"

    def write(growth):
        lasts = {f"bp_s{seed}": 1.5 for seed in range(4)} | {"bp_s2": growth}
        reports = {key: {"residual_norms": [1.0, last]} for key, last in lasts.items()}
        put_json(path, {"reports": reports})

    write(1.5)
    session, open_now = Session(scan([path]).rows), folders(path)
    write(900.25)
    session, found = merged(session, news(open_now))
    assert (found.added, found.changed, found.gone) == ([], [2], [])
    assert session.rows[2].report.h_L == 900.25
    path.unlink()
    session, found = merged(session, news(open_now))
    assert found.gone == [0, 1, 2, 3]
    assert session.rows[2].report.h_L == 900.25


def test_an_audit_of_a_shown_checkpoint_is_shown_on_its_row(tmp_path):
    (net := tmp_path / "bp_s1.pt").write_bytes(b"")
    shown = row_of("bp_s1", net, ...)
    results = {"bp_s1": {"residual_norms": [1, 7], "provenance": {"checkpoint": str(net)}}}
    results["bp_s2"] = {"residual_norms": [1, 8]}
    open_now = folders(tmp_path)
    put_json(tmp_path / RESULTS, {"reports": results})
    session, found = merged(Session([shown]), news(open_now))
    audits = str(tmp_path / RESULTS)
    assert (found.added, found.changed, session.rows[0].source) == ([1], [0], audits)
    assert [row.report.h_L for row in session.rows] == [7, 8]
    put_json(tmp_path / "second.json", {"reports": {"bp_s1": results["bp_s1"]}})
    session, found = merged(session, news(open_now))
    assert (found.added, found.changed) == ([2], []), "a second audit of it is another run"


def test_reading_again_takes_a_place_as_found_in_a_folder(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert scan_again(str(tmp_path / "notes.txt")) == scan_again(str(tmp_path))
    assert scan_again(str(tmp_path / "missing.json")).problems
    run = run_folder(tmp_path / "dfa_s42", audit=True)
    (run / "more.json").write_text(report())
    assert [row.source for row in scan_again(str(run)).rows] == [str(run)]
