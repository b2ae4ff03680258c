import json
import os
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import save_file

from fa_core.audit.audit import Measuring, audit
from fa_core.audit.devices import Execution
from fa_core.audit.jobs import JobProgress, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.audit.verify import _with_baselines, find_checkpoint, recorded_options, verify
from fa_core.audit.worker import MEASURE
from fa_core.errors import UnreadableInput, UsageError
from fa_core.formats import load_audits, scan
from fa_core.formats.audit_table import summary_row
from fa_core.formats.rows import Problem
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, MANIFEST, WEIGHTS
from fa_core.report.provenance import BASELINE_FROM, GIVEN
from fa_core.training.train import audit_run
from tests.fa_core.rows import row_of

from .runs_for_tests import make_run, small_net

HOW = Measuring(Execution(device="cpu"))
HERE = Path(__file__).parent


def recorded(path, **provenance):
    report = DiagnosticReport(
        residual_norms=[1.0, 2.0], n_batches=8, batch_size=64, norm_batches=2, provenance=provenance
    )
    return row_of("dfa_s42", path.parent / "audit.json", path, report=report)


@pytest.fixture
def audited(tmp_path, monkeypatch):
    """An audit of a bare checkpoint, and the checkpoint."""
    monkeypatch.chdir(HERE)
    monkeypatch.setenv(MEASURE, "faults:measure_described")
    checkpoint, out = tmp_path / "nets" / "dfa_s42.json", tmp_path / "audit.json"
    checkpoint.parent.mkdir()
    checkpoint.write_text('{"growth": 3.0}')
    audit([row_of("dfa_s42", checkpoint, ...)], out, MeasureOptions(data="synthetic"), HOW)
    return out, checkpoint


def verified(out):
    return verify(scan([out]).rows, HOW)


def test_a_changed_checkpoint_differs_in_weights_and_number(audited):
    out, checkpoint = audited
    (run,) = verified(out).runs
    assert (run.comparison.agrees, run.comparison.largest) == (True, 0)
    checkpoint.write_text('{"growth": 3.1}')
    (run,) = verified(out).runs
    assert [difference.kind for difference in run.comparison.differences] == ["fact", "number"]


def test_what_is_recorded_several_times_is_measured_once(audited):
    rows, planned = scan([audited[0]]).rows * 3, []
    result = verify(rows, replace(HOW, on_plan=lambda *counts: planned.append(counts)))
    assert (planned, len(result.runs)) == ([(1, 0)], 3)


def test_a_record_whose_checkpoint_is_gone_fails_alone(audited):
    out, _ = audited
    rows = scan([out]).rows
    other = replace(rows[0], checkpoint="/nowhere/bp.pt", key="bp_s1")
    result = verify([*rows, other], HOW)
    assert len(result.runs) == 1
    assert (
        "bp_s1: its checkpoint /nowhere/bp.pt is not there any more" in result.failures[0].message
    )


def test_a_record_without_numbers_is_compared_where_its_summary_has_some(audited):
    out, _ = audited
    (row,) = scan([out]).rows
    bare = replace(row, report=DiagnosticReport(provenance=row.report.provenance))
    with pytest.raises(UnreadableInput, match="nothing recorded to verify"):
        verify([replace(bare, summary=summary_row(bare))], HOW)
    (run,) = verify([replace(bare, summary=row.summary)], HOW).runs
    assert not run.comparison.agrees


class Here(Measuring):
    """Measures in this process."""

    def run(self, todo, skipped, on_report, failures):
        for job in todo:
            try:
                on_report(int(job.id), measure_run(job, "cpu", JobProgress()))
            except UnreadableInput as error:  # noqa: PERF203
                failures.append(Problem(job.checkpoint, str(error)))
        return False


def test_the_frozen_run_beside_a_run_is_measured_too_else_d_is_not_checked(tmp_path):
    cpu = torch.device("cpu")
    data = audit_run(make_run(tmp_path / "any", "bp"), cpu, None).provenance["data_hash"]
    frozen = make_run(tmp_path / "frozen_s42", "frozen", data_hash=data)
    dfa = make_run(tmp_path / "dfa_s42", "dfa", data_hash=data)
    for run in (frozen, dfa):
        audit_run(run, cpu, None)
    rows = [*load_audits(dfa).rows()]
    runs = verify(rows, Here()).runs
    assert [run.comparison.lines() for run in runs] == [[], []]
    assert [run.row.source for run in runs] == [str(dfa), str(frozen)]
    # its manifest calls the run frozen where its audit does not say it
    audits = {run: json.loads((run / AUDIT).read_text()) for run in (frozen, dfa)}
    (frozen / AUDIT).write_text(json.dumps(audits[frozen] | {"method_name": ""}))
    (dfa / AUDIT).write_text(json.dumps(audits[dfa] | {"frozen_baseline_acc": None}))
    assert load_audits(dfa).report(0).margin_pp == rows[0].report.margin_pp is not None
    (frozen / AUDIT).write_text("{")
    bare = replace(rows[0], report=replace(rows[0].report, frozen_baseline_acc=None))
    (run,) = verify([bare], Here()).runs
    said = f"of the frozen run {frozen} its {{}}: mend, measure"
    assert said.format("audit cannot be read, or is of another run") in "".join(
        run.comparison.lines()
    )
    facts = {**bare.report.provenance, BASELINE_FROM: GIVEN}
    by_hand = replace(bare, report=replace(rows[0].report, provenance=facts))
    (run,) = verify([by_hand], Here()).runs
    assert "frozen_baseline_acc" in run.comparison.lines()[0]
    assert "of the frozen run" not in "".join(run.comparison.lines())
    manifest = (frozen / MANIFEST).read_text()
    (frozen / MANIFEST).write_text(manifest.replace('"seed": 42', '"seed": "4x"'))
    (frozen / AUDIT).unlink()
    (run,) = verify([bare], Here()).runs
    assert said.format("manifest cannot be read") in "".join(run.comparison.lines())
    (frozen / MANIFEST).write_text(manifest)
    (frozen / AUDIT).write_text(json.dumps(audits[frozen]))
    # as a link to a folder elsewhere
    elsewhere = frozen.rename(tmp_path / "any" / frozen.name)
    frozen.symlink_to(elsewhere)
    (run, _) = verify([bare], Here()).runs
    assert "frozen_baseline_acc not in the record" in "".join(run.comparison.lines())
    (frozen / WEIGHTS).unlink()
    result = verify(rows, Here())
    (run,) = result.runs
    assert (run.comparison.agrees, run.comparison.unchecked) == (True, 4)
    assert "the weights are not there" in result.failures[0].message


@pytest.mark.parametrize("is_row", [False, True])
def test_all_frozen_runs_beside_a_run_that_fit_are_measured_and_have_to_agree(tmp_path, is_row):
    cpu = torch.device("cpu")
    data = audit_run(make_run(tmp_path / "any", "bp"), cpu, None).provenance["data_hash"]
    elsewhere = tmp_path / ("elsewhere" if is_row else "runs")
    places = [elsewhere / "a_frozen", tmp_path / "runs/frozen", tmp_path / "runs/dfa"]
    other, frozen, dfa = (make_run(run, run.name[-6:].strip("_"), data_hash=data) for run in places)
    save_file(small_net(7).state_dict(), other / WEIGHTS)
    for run in (frozen, other):
        report = audit_run(run, cpu, None)
    # its record alone agrees with the other one
    record = json.loads((frozen / AUDIT).read_text())
    assert record["headline_acc"] != report.headline_acc
    (frozen / AUDIT).write_text(json.dumps(record | {"headline_acc": report.headline_acc}))
    assert audit_run(dfa, cpu, None).frozen_baseline_acc == report.headline_acc
    found = verify(scan([dfa, other][: 1 + is_row]).rows, Here())
    states = {run.row.key: run.comparison for run in found.runs}
    assert not states["frozen"].agrees and states["a_frozen"].agrees
    assert f"of the frozen run {frozen} and of" in "".join(states["dfa"].lines()) or is_row
    assert not (states["dfa"].agrees and not states["dfa"].unchecked)


def test_a_run_that_only_its_key_calls_frozen_is_no_baseline_when_it_is_measured_again(tmp_path):
    facts = {"network": "mine", "data_hash": "1"}
    report = DiagnosticReport(residual_norms=[1.0, 2.0], headline_acc=0.5, provenance=facts)
    for name, margin in (("frozen", 0.0), ("", None)):
        own = replace(report, method_name=name)
        rows = [
            row_of("frozen_of-dfa_s1", "a.json", "f.pt", report=own),
            row_of("dfa_s1", "a.json", "d.pt", report=report),
        ]
        pairs = [(row, replace(report, method_name=row.method)) for row in rows]
        found = [run.margin_pp for _, run in _with_baselines(pairs)]
        assert found == [None, margin]


@pytest.mark.parametrize("name", ["/dev/zero", "fifo", "x" * 300, "/" + "d/" * 200_000, "a\0b", ""])
def test_a_checkpoint_that_is_no_file_is_refused_in_one_line(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    row = row_of("dfa_s42", "audit.json", tmp_path / name if name == "fifo" else name)
    with pytest.raises(UnreadableInput, match=r"is not there any more|checkpoint /d/d") as error:
        find_checkpoint(row)
    assert "\n" not in str(error.value)


def test_records_of_somebody_elses_are_skipped_with_one_line_per_file(audited):
    report = DiagnosticReport(residual_norms=[1.0, 2.0])
    published = [row_of(f"bp_s{n}", "p.json", report=report) for n in range(3)]
    result = verify([*published, *scan([audited[0]]).rows], HOW)
    assert (len(result.runs), result.failures) == (1, [])
    assert [problem.message.split(";")[0] for problem in result.skipped] == [
        "p.json: 3 records with no checkpoint"
    ]
    with pytest.raises(UnreadableInput, match=r"p\.json: 3 records with no checkpoint"):
        verify(published)
    with pytest.raises(UnreadableInput, match="nothing recorded"):
        verify([row_of("dfa", "dfa.pt", ...)])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"batches": 8, "batch_size": 64, "norm_batches": 2, "data": None}),
        (
            {"data": "digits", "batches": 20, "taps": ["embed"], "batch_size": 32},
            {"data": "digits", "batches": 20, "taps": ["embed"], "batch_size": 32},
        ),
    ],
)
def test_settings_are_those_recorded_else_the_reports(tmp_path, settings, expected):
    facts = {"settings": settings} if settings else {}
    options = recorded_options(recorded(tmp_path / "a.pt", **facts))
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("settings", "typed", "said"),
    [
        ({"loss": "lab:loss"}, {"loss": "lab:loss"}, "the loss 'lab:loss' .* --loss lab:loss$"),
        ({"credit": "lab:a"}, {"credit": "lab:a"}, "the credit 'lab:a' .* --credit lab:a$"),
        ({"model": "net;touch x"}, {"model": "lab:net"}, "--model 'net;touch x'$"),
        (
            {"logits": "lab:pick"},
            {"logits": "lab:pick"},
            "place of the logits .* --logits lab:pick$",
        ),
        (
            {"model": "lab:net", "loss": "lab:loss", "data": "lab:load"},
            {"model": "lab:net", "loss": "lab:loss", "data": "lab:load"},
            "--model lab:net --loss lab:loss --data lab:load$",
        ),
    ],
)
def test_a_recorded_function_is_typed_again(tmp_path, settings, typed, said):
    row = recorded(tmp_path / "a.pt", settings=settings)
    with pytest.raises(UsageError, match=said):
        recorded_options(row)
    options = recorded_options(row, MeasureOptions(**typed))
    assert typed.items() <= {name: getattr(options, name) for name in settings}.items()


def test_a_loss_and_a_place_by_name_are_taken_from_the_record(tmp_path):
    row = recorded(tmp_path / "a.pt", settings={"loss": "bce", "logits": "1"})
    assert (recorded_options(row).loss, recorded_options(row).logits) == ("bce", "1")
    assert recorded_options(row, MeasureOptions(loss="mse")).loss == "mse"
    full = recorded(tmp_path / "a.pt", settings={"credit": "full"})
    assert recorded_options(full).credit == "full"


def test_data_that_were_typed_again_may_name_code(tmp_path):
    row = recorded(tmp_path / "a.pt", settings={"data": "lab:load"})
    options = recorded_options(row, MeasureOptions(data="lab:load"))
    assert (options.data, options.data_typed) == ("lab:load", True)
    named = recorded(tmp_path / "a.pt", settings={"data": "cifar10:cifar"})
    assert recorded_options(named).data == "cifar10:cifar"
    with pytest.raises(UsageError, match="--model digits:net"):
        recorded_options(recorded(tmp_path / "a.pt", settings={"model": "digits:net"}))


def test_settings_that_cannot_be_read_are_an_error_in_words(tmp_path):
    with pytest.raises(UnreadableInput, match=r"settings cannot be read.*batches"):
        recorded_options(recorded(tmp_path / "a.pt", settings={"batches": "many"}))
