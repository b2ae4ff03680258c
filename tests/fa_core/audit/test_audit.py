import json
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from fa_core.audit.audit import Measuring, audit, measurable
from fa_core.audit.devices import Execution
from fa_core.audit.jobs import JobState, MeasureOptions
from fa_core.audit.worker import MEASURE
from fa_core.errors import UnreadableInput, UsageError
from fa_core.formats import scan
from fa_core.formats.audit_table import Journal
from fa_core.formats.rows import with_given_baseline
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import MANIFEST
from fa_core.zoo.data.load import load_test_data
from tests.fa_core.rows import row_of
from tests.json_files import json_of, put_json

HERE = Path(__file__).parent
CPU = Execution(device="cpu")
NETWORK = {"arch": "resmlp", "arch_args": {"d": 8, "L": 2}, "data": "synthetic"}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.setenv(MEASURE, "faults:measure_described")


@pytest.fixture
def described(tmp_path):
    """Makes a checkpoint that says what it would measure, and its row."""

    def make(method, seed=42, **description):
        path = tmp_path / f"{method}_s{seed}.json"
        put_json(path, {"provenance": NETWORK, **description})
        return row_of(path.stem, path, ...)

    return make


def keys(out):
    return list(json_of(out)["reports"])


def run(rows, out, **options):
    settings = MeasureOptions(**{"data": "synthetic"} | options.pop("settings", {}))
    named = {name: options.pop(name) for name in Measuring.__struct_fields__ if name in options}
    how = Measuring(**{"execution": CPU, **named})
    return audit(rows, out, settings, how, **options)


def test_an_audit_that_is_there_is_not_written_over_unless_told_and_then_kept(described, tmp_path):
    out = tmp_path / "audit.json"
    run([described("dfa")], out)
    for method in ("bp", "dfa"):
        with pytest.raises(
            UsageError, match=r"holds 1 measured run already; add --resume .* or --replace"
        ):
            run([described(method)], out)
    assert keys(out) == ["dfa_s42"]
    run([described("bp")], out, resume=True)
    assert keys(out) == ["dfa_s42", "bp_s42"]
    told = []
    run([described("bp")], out, replace_old=True, on_notice=told.append)
    assert keys(out) == ["bp_s42"]
    kept = tmp_path / "audit.json.~1~"
    assert keys(kept) == ["dfa_s42", "bp_s42"]
    assert f"{out}: what it holds and is measured again stays in {kept}" in told


def test_a_run_that_fails_costs_no_other_is_named_and_leaves_nothing_behind(described, tmp_path):
    out, folder = tmp_path / "audit.json", tmp_path / "sb_s42"
    folder.mkdir()
    (folder / MANIFEST).touch()
    rows = [
        described("bp"),
        described("fa", fault="killed"),
        row_of("sb_s42", folder, ...),
        described("dfa"),
    ]
    result = run(rows, out)
    assert [row.method for row in result.rows] == ["bp", "dfa"]
    failed = {Path(failure.path).name for failure in result.failures}
    assert failed == {"sb_s42", "fa_s42.json"}
    assert [path.name for path in folder.iterdir()] == [MANIFEST]
    assert any("SIGKILL" in failure.message for failure in result.failures)
    assert keys(out) == ["bp_s42", "dfa_s42"]


def test_an_interrupted_audit_keeps_what_is_finished(described, tmp_path):
    out = tmp_path / "audit.json"

    def interrupt(view):
        if view.job.method == "second" and view.total == 2 and view.state is JobState.RUNNING:
            while not scan([out]).rows:
                pass
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    result = run(
        [described("first"), described("second", fault="stuck"), described("third")],
        out,
        on_event=interrupt,
    )
    assert result.interrupted
    assert [row.method for row in result.rows] == ["first"]
    assert result.failures == []
    assert keys(out) == ["first_s42"]


class TestResume:
    @pytest.fixture
    def seen(self):
        return []

    def again(self, rows, out, seen, **options):
        seen.clear()
        return run(
            rows, out, resume=True, on_event=lambda view: seen.append(view.job.method), **options
        )

    def test_measures_nothing_that_is_in_the_file(self, described, tmp_path, seen):
        out, rows = tmp_path / "audit.json", [described("bp"), described("dfa")]
        first = run(rows, out)
        before = out.read_text()
        second = self.again(rows, out, seen)
        assert seen == []
        assert second.rows == first.rows
        assert out.read_text() == before

    def test_measures_only_what_failed_or_changed(self, described, tmp_path, seen):
        out = tmp_path / "audit.json"
        run([described("bp"), described("fa", acc=0.5), described("dfa", fault="bug")], out)
        rows = [described("bp"), described("fa", acc=0.6), described("dfa")]
        result = self.again(rows, out, seen)
        assert set(seen) == {"fa", "dfa"}
        assert [row.method for row in result.rows] == ["bp", "fa", "dfa"]
        reports = json_of(out)["reports"]
        assert (len(reports), reports["fa_s42"]["headline_acc"]) == (3, 0.6)

    def test_measures_again_under_other_settings_and_keeps_the_file(
        self, described, tmp_path, seen
    ):
        out, rows = tmp_path / "audit.json", [described("bp")]
        run(rows, out, settings={"ablate": True})
        before = out.read_bytes()
        self.again(rows, out, seen)
        assert seen
        assert (tmp_path / "audit.json.~1~").read_bytes() == before

    @pytest.mark.parametrize("data", ["npz:{}", "synthetic_data:load"])
    def test_measures_again_where_the_data_changed(
        self, data, described, tmp_path, seen, monkeypatch
    ):
        out, file, x = tmp_path / "audit.json", tmp_path / "d.npz", np.eye(4, dtype="f4")
        code = f"import numpy\ndef load(): return tuple(numpy.load({str(file)!r}).values())\n"
        (tmp_path / "synthetic_data.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        data = data.format(file)

        def put(last_label):
            y = np.array([0, 1, 0, last_label])
            np.savez(file, train_x=x, train_y=y, test_x=x, test_y=y)
            return load_test_data(data, allow_code=True).hash

        facts = {**NETWORK, "data": data, "data_hash": put(last_label=0)}
        rows = [described("bp", provenance=facts), described("dfa")]
        run(rows, out, settings={"data": data})
        self.again(rows, out, seen, settings={"data": data})
        assert seen == []
        put(last_label=1)
        self.again(rows, out, seen, settings={"data": data})
        assert set(seen) == {"bp"}

    def test_knows_settings_of_a_program_that_had_other_ones(self, described, tmp_path, seen):
        out, rows = tmp_path / "audit.json", [described("bp")]
        run(rows, out)
        content = json_of(out)
        settings = content["reports"]["bp_s42"]["provenance"]["settings"]
        del settings["precision"]
        settings["resamples"] = 100  # an option that is gone
        put_json(out, content)
        self.again(rows, out, seen)
        assert seen == []

    def test_knows_runs_that_were_moved_and_copies_apart(self, described, tmp_path, seen):
        out, rows = tmp_path / "audit.json", [described("bp"), described("dfa")]
        copy = tmp_path / "copy.json"
        copy.write_text(Path(rows[0].checkpoint).read_text())
        rows.insert(1, row_of("bp_s42", copy, ...))
        run(rows, out)
        moved = Path(rows[2].checkpoint).rename(tmp_path / "moved.json")
        rows[2] = row_of("dfa_s42", moved, ...)
        result = self.again(rows[1:], out, seen)
        assert seen == []
        named = [row.report.provenance["checkpoint"] for row in result.rows]
        assert named == [str(copy), str(moved)]
        assert len(json_of(out)["reports"]) == 3


class TestFrozenBaseline:
    def test_that_the_person_gave_is_marked_and_not_taken_for_the_runs_own(
        self, described, tmp_path
    ):
        def given(rows):
            return [with_given_baseline(row, FrozenBaseline(0.3)) for row in rows]

        out = tmp_path / "audit.json"
        run([described("bp")], out, adjust=given)
        assert scan([out]).rows[0].report.frozen_baseline_acc == 0.3
        result = run([described("bp")], out, resume=True)
        assert result.rows[0].report.frozen_baseline_acc is None


def test_a_checkpoint_that_is_named_twice_is_measured_once(tmp_path):
    folder = tmp_path / "dfa_s42"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    weights = folder / "model.safetensors"
    weights.write_bytes(b"")
    named = row_of("dfa_s42", "audit.json", folder)
    itself = row_of("dfa_s42", folder, ...)
    file = row_of("model", weights, ...)
    gone = row_of("gone", "audit.json", tmp_path / "gone")
    published = row_of("bp_s1", "audit.json", report=DiagnosticReport(residual_norms=[1.0]))
    (row,) = measurable([named, gone, published, itself, file])
    assert row.source == str(folder)


def bare(folder):
    """The smallest checkpoint there is: a safetensors header without tensors."""
    path = folder / "bp_s42.safetensors"
    path.write_bytes((2).to_bytes(8, "little") + b"{}")
    return row_of("bp_s42", path, ...)


def test_a_checkpoint_that_is_gone_is_told_before_data_are_asked_for(tmp_path):
    row = bare(tmp_path)
    Path(row.checkpoint).unlink()
    with pytest.raises(UnreadableInput, match=r"bp_s42\.safetensors: is not there any more"):
        audit([row], tmp_path / "out.json", how=Measuring(CPU))


def test_a_file_that_is_no_audit_table_is_not_overwritten(described, tmp_path):
    out = tmp_path / "notes.json"
    row = {"epoch": 0, "test_acc": 0.5, "h_L_norm": 2.0}
    report = {"method_name": "dfa", "seed": 1, "residual_norms": [1.0, 2.0]}
    for content in (
        "weights\n",
        '{"a": 1}',
        "[1, 2",
        json.dumps(row) + "\n",
        json.dumps([row]),
        json.dumps({"log_history": [{"step": 1, "epoch": 1.0, "test_acc": 0.4}]}),
        json.dumps({"reports": {}, "summary": [], "notes": "mine"}),
        json.dumps({"lam": 0.1, "seed": 1, "log": [row]}),
        json.dumps({"reports": {"dfa_s1": report, "bp_s1": {**report, "seed": "1"}}}),
    ):
        out.write_text(content)
        for told in ({}, {"resume": True}, {"replace_old": True}):
            with pytest.raises(UsageError, match=r"notes\.json.*no audit table.*--out"):
                run([described("bp", fault="killed")], out, **told)
        assert out.read_text() == content
    assert [path.name for path in tmp_path.glob("notes*")] == ["notes.json"]
    Journal(out).close()
    run([described("bp")], out)
    assert keys(out) == ["bp_s42"]
    with pytest.raises(UsageError, match="is a folder"):
        run([described("bp")], tmp_path)
