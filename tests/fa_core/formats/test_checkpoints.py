"""Checkpoints and run folders: recognised, named, never loaded."""

import json
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.errors import UnreadableInput
from fa_core.formats import load_audits, scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.checkpoint_file import with_places
from fa_core.formats.frozen_runs import with_baselines
from fa_core.formats.run_folder import ProgressFiles
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import RESULTS
from fa_core.report.verdict_text import recorded_text
from tests.fa_core.rows import row_of
from tests.json_files import json_of, put_json

MANIFEST = {
    "method": "dfa",
    "arch": "resmlp",
    "data": "synthetic",
    "seed": 42,
    "recipe": {"lam": 0.01},
}


def safetensors(path, metadata=None):
    header = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    if metadata is not None:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    return path


def torch_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    return path


def manifest(folder, **fields):
    folder.mkdir(parents=True, exist_ok=True)
    put_json(folder / "manifest.json", {**MANIFEST, **fields})
    return folder


def audited_run(place, method, acc):
    """A run folder with its audit."""
    run = manifest(place, method=method, headline_acc=acc, arch_args={}, recipe={})
    facts = json_of(run / "manifest.json")
    report = DiagnosticReport(method, residual_norms=[1, 1], headline_acc=acc, provenance=facts)
    report.save(run / "audit.json")
    return run


@pytest.mark.parametrize("make", [safetensors, torch_zip])
def test_a_checkpoint_is_a_row_that_nobody_measured(tmp_path, make):
    path = make(tmp_path / "dfa_s42.pt")
    (row,) = scan([path]).rows
    assert (row.method, row.seed, row.checkpoint, row.report.coverage) == ("dfa", 42, str(path), "")
    assert len(load_audits([path])) == 0


def test_safetensors_metadata_names_the_run(tmp_path):
    (row,) = scan(
        [safetensors(tmp_path / "x.safetensors", {"method": "Credit Bridge", "seed": "9"})]
    ).rows
    assert (row.method, row.seed) == ("credit_bridge", 9)


def test_a_bare_pickle_under_a_checkpoints_name_is_listed_and_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    (tmp_path / "evil_s1.pt").write_bytes(pickle.dumps(Trap()))
    (row,) = scan([tmp_path]).rows
    assert row.checkpoint == str(tmp_path / "evil_s1.pt")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("make", [safetensors, torch_zip])
@pytest.mark.parametrize("missing", [1, 8, 30])
def test_a_truncated_checkpoint_says_so(tmp_path, make, missing):
    path = make(tmp_path / "a.pt")
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(UnreadableInput, match="truncated"):
        scan([path])


@pytest.mark.parametrize("name", ["a.pt", "pytorch_model.bin"])
def test_a_pointer_in_place_of_weights_says_so(tmp_path, name):
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(UnreadableInput, match="git lfs pull"):
        scan([tmp_path / name])
    (problem,) = scan([tmp_path]).problems
    assert "git lfs pull" in problem.message


def test_a_run_folder_is_one_row_with_its_report_and_its_trace(tmp_path):
    run = manifest(tmp_path / "run")
    safetensors(run / "model.safetensors")
    safetensors(run / "credit.safetensors")
    put_json(run / "audit.json", {"method_name": "DFA", "residual_norms": [1.0, 100.0]})
    (run / "trace.jsonl").write_text('{"epoch": 1, "test_acc": 0.5}\n')
    found = scan([tmp_path])
    (row,), (trace,) = found.rows, found.traces
    assert (row.source, row.checkpoint, row.key) == (str(run), str(run), "run")
    assert (row.method, row.seed, row.axes) == ("dfa", 42, {"lam": 0.01})
    assert row.report.flags == {"a"}
    assert (trace.key, trace.method, trace.seed, trace.axes) == ("run", "dfa", 42, {"lam": 0.01})
    assert found.problems == []
    assert scan([run]) == found


def test_a_run_is_judged_by_the_frozen_run_beside_it_however_it_is_opened(tmp_path):
    run = audited_run(tmp_path / "dfa", "dfa", 0.5)
    audited_run(tmp_path / "frozen", "frozen", 0.6)
    for opened in (tmp_path, run):
        report = load_audits(opened).report(0)
        assert (report.margin_pp, report.recorded_verdict) == (-10.0, "trustworthy")
        recorded = recorded_text(report, report.thresholds)
        assert recorded.startswith("recorded as “trustworthy”; (d) differs, over the frozen run")
        kept = replace(report, recorded_verdict=report.verdict).with_assumed_baseline(0.1)
        assert recorded_text(kept, kept.thresholds) == f"recorded as “{report.verdict}”"


@pytest.mark.parametrize(
    ("done", "unmeasured", "measured"),
    [(2, ": training ended after epoch 2 of 8", "; measured after epoch 2 of 8"), (8, "", "")],
)
def test_a_run_says_where_its_training_ended(tmp_path, done, unmeasured, measured):
    run = manifest(tmp_path / "run", recipe={"epochs": 8}, epochs_done=done)
    assert scan([run]).rows[0].report.words == f"not measured{unmeasured}"
    (run / "trace.jsonl").write_text('{"epoch": 1, "test_acc": 0.5}\n')
    with ProgressFiles() as files:
        # it goes on
        files.begin(run, "training")
        assert "epochs_done" not in scan([run]).traces[0].provenance
    facts = {"epochs_done": done, "recipe": {"epochs": 8}}
    DiagnosticReport(residual_norms=[1, 1], provenance=facts).save(run / "audit.json")
    assert scan([run]).rows[0].report.words == f"trustworthy on (a) alone{measured}"


@pytest.mark.parametrize("name", ["audit.json", "trace.jsonl"])
def test_a_broken_report_or_trace_leaves_the_run_to_be_measured(tmp_path, name):
    run = manifest(tmp_path / "run")
    (run / name).write_text('{"epoch": 1, "residual_norms": [1.0,')
    found = scan([tmp_path])
    assert [row.checkpoint for row in found.rows] == [str(run)]
    assert name in found.problems[0].message


@pytest.mark.parametrize("named", [{"seed": 7}, {"run": "bp_s42"}, {"method": "dfa"}])
def test_a_runs_trace_that_names_another_run_is_a_problem(tmp_path, named):
    run = manifest(tmp_path / "run")
    put_json(run / "trace.jsonl", {"epoch": 1, "test_acc": 0.5, **named})
    found = scan([run])
    assert len(found.traces) == (named == {"method": "dfa"}) == 1 - len(found.problems)


def test_a_broken_manifest_is_a_problem_and_the_weights_are_still_offered(tmp_path):
    run = manifest(tmp_path / "dfa_s1", seed="one")
    safetensors(run / "model.safetensors")
    safetensors(run / "credit.safetensors")
    found = scan([tmp_path])
    assert "seed" in found.problems[0].message
    assert [row.checkpoint for row in found.rows] == [str(run / "model.safetensors")]
    without_seed = {name: value for name, value in MANIFEST.items() if name != "seed"}
    put_json(run / "manifest.json", {"format": "fa-run/1", **without_seed, "headline_acc": 0.5})
    assert [row.checkpoint for row in scan([tmp_path]).rows] == [str(run / "model.safetensors")], (
        "it is no report"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"axes": {"lam": 0.5}}, "another lam than the rest"),
        ({"axes": {"d": 64}, "arch_args": {"d": 32}}, "another d than the rest"),
        ({"axes": {"arch": "cnn"}}, "another arch than the rest"),
        ({"axes": {"seed": 7}}, "another seed than the rest"),
        ({"axes": {"d": 64}, "arch_args": {"d": 32}, "recipe": {"d": 64}}, "another d than"),
        ({"axes": {"lam": True}, "recipe": {}}, "λ is no number"),
    ],
)
def test_a_manifest_whose_axes_contradict_it_is_a_problem(tmp_path, fields, said):
    run = manifest(tmp_path / "dfa_s1", **fields)
    assert said in scan([run]).problems[0].message


def test_further_checkpoints_in_a_run_folder_are_rows_of_their_own(tmp_path):
    run = manifest(tmp_path / "dfa_s42")
    (run / "epochs").mkdir()
    safetensors(run / "epochs/dfa_s42.safetensors")
    # the weights of a run are in model.safetensors
    put_json(run / "model.safetensors.index.json", {"weight_map": {"w": "a.safetensors"}})
    assert [row.source for row in scan([tmp_path]).rows] == [
        str(run),
        str(run / "epochs/dfa_s42.safetensors"),
    ]


def test_a_checkpoint_is_not_listed_beside_its_audit_and_is_opened_alone_with_it(tmp_path):
    for seed in (1, 2):
        safetensors(tmp_path / f"dfa_s{seed}.safetensors")
    rows = scan([tmp_path]).rows
    report = DiagnosticReport(residual_norms=[1.0, 2.0], bp_grad_norms=[1.0, 1.0])
    write_audit_table(tmp_path / RESULTS, [replace(row, report=report) for row in rows])
    for path, seeds in ((tmp_path, [1, 2]), (rows[1].source, [2])):
        found = scan([path]).rows
        assert [(row.report.coverage, row.seed) for row in found] == [
            ("ab", seed) for seed in seeds
        ]
    tmp_path.rename(tmp_path.with_name("moved"))
    assert [row.report.coverage for row in scan([tmp_path.with_name("moved")]).rows] == ["ab"] * 2


@pytest.mark.parametrize(
    ("files", "recorded", "expected"),
    [
        ("new/x.pt old/x.pt", "old/x.pt", "new/x.pt"),
        ("new/nets/x.pt new/x.pt", "old/nets/x.pt", "new/nets/x.pt"),
        ("new/x.pt", "old/./nets/../../x.pt", "new/x.pt"),
        ("new/x.pt", "old/x.pt older/x.pt", "old/x.pt older/x.pt"),
        ("new/y.pt", "old/x.pt new/y.pt", "old/x.pt new/y.pt"),
        ("new/y.pt", "old/new", "new"),
    ],
)
def test_a_recorded_checkpoint_is_looked_for_beside_its_record_first(
    tmp_path, files, recorded, expected
):
    for name in files.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    rows = [row_of("x", tmp_path / "new/a.json", tmp_path / name) for name in recorded.split()]
    found = [row.checkpoint for row in with_places(rows)]
    assert found == [str(tmp_path / name) for name in expected.split()]


def edited(file, **members):
    put_json(file, json_of(file) | members)


def recorded(run, **facts):
    """Other facts in the provenance of a run's audit."""
    file = run / "audit.json"
    edited(file, provenance=json_of(file)["provenance"] | facts)


def with_data_of_the_record(runs):
    recorded(runs / "frozen", trained_on="x", arch="vit")


def with_a_recipe_of_the_record(runs):
    recorded(runs / "frozen", recipe={"lr": 1})


def measured_on_other_data(runs, own="sha256:own"):
    for run, measured in {"dfa": "sha256:own", "frozen": "sha256:other"}.items():
        recorded(runs / run, data_hash=measured)
        edited(runs / run / "manifest.json", data_hash=own)
    edited(runs / "frozen/audit.json", headline_acc=0.9)


def measured_on_other_data_than_no_hash_names(runs):
    measured_on_other_data(runs, own=None)
    recorded(runs / "frozen", data="digits")


def recorded_elsewhere(runs):
    facts = json_of(runs / "frozen/audit.json")
    facts["provenance"]["checkpoint"] = str(runs / "frozen")
    put_json(runs / "july.json", {"reports": {"frozen_s42": facts | {"headline_acc": 0.9}}})


def recorded_elsewhere_on_other_data(runs):
    measured_on_other_data(runs)
    recorded_elsewhere(runs)


def recorded_elsewhere_and_unmeasured(runs):
    recorded_elsewhere(runs)
    (runs / "frozen/audit.json").unlink()


def recorded_elsewhere_by_another_recipe(runs):
    recorded_elsewhere(runs)
    edited(runs / "frozen/manifest.json", recipe={"epochs": 8})


def measured_where_the_frozen_one_has_no_hash(runs):
    recorded(runs / "dfa", data_hash="sha256:measured")
    (runs / "frozen/audit.json").unlink()


def without_a_hash_of_its_data(runs):
    for run in ("dfa", "frozen"):
        recorded(runs / run, data_hash="sha256:measured")
        edited(runs / run / "manifest.json", data_hash=None)


def with_the_audit_of_another_seed(runs):
    edited(runs / "frozen/audit.json", seed=43)


def without_an_accuracy(runs):
    edited(runs / "frozen/audit.json", headline_acc=None)


def unmeasured(runs):
    (runs / "frozen/audit.json").unlink()
    edited(runs / "frozen/manifest.json", headline_acc=None)


def unreadable(runs):
    edited(runs / "frozen/manifest.json", seed="42")


def with_an_audit_of_nothing(runs):
    (runs / "frozen/audit.json").write_text("null")


def unreadable_and_renamed(runs):
    unreadable(runs)
    (runs / "frozen").rename(runs / "x7")


def without_a_manifest(runs):
    (runs / "frozen/manifest.json").unlink()


def called_otherwise_by_its_manifest(runs):
    edited(runs / "frozen/manifest.json", method="bp")


def linked(runs):
    (runs / "dfa").rename(runs / "elsewhere/dfa")
    (runs / "dfa").symlink_to("elsewhere/dfa")


def linked_from_elsewhere(runs):
    (runs / "frozen").rename(runs / "elsewhere/frozen")
    (runs / "dfa").rename(runs / "elsewhere/real")
    (runs / "dfa").symlink_to("elsewhere/real")


def by_its_weights(runs):
    facts = json_of(runs / "dfa/audit.json")
    facts["provenance"]["checkpoint"] = str(safetensors(runs / "dfa/model.safetensors"))
    (runs / "dfa/audit.json").unlink()
    put_json(runs / "dfa.json", {"reports": {"dfa_s42": facts}})


def of_another_seed(runs):
    edited(runs / "frozen/manifest.json", seed=7)


def of_another_network(runs):
    without_an_accuracy(runs)
    edited(runs / "frozen/manifest.json", arch="vit")


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (with_data_of_the_record, ""),
        (with_a_recipe_of_the_record, ""),
        (measured_on_other_data, ""),
        (recorded_elsewhere_on_other_data, ""),
        (recorded_elsewhere, "of the frozen run {}/frozen and of {}/july.json: frozen_s42, "),
        (recorded_elsewhere_and_unmeasured, "of the frozen run {}/frozen and of {}/july.json"),
        (recorded_elsewhere_by_another_recipe, "the frozen run {}/frozen has epochs 8, not (none)"),
        (without_a_hash_of_its_data, ""),
        (measured_where_the_frozen_one_has_no_hash, "of the frozen run {}/frozen no hash says"),
        (measured_on_other_data_than_no_hash_names, "of the frozen run {}/frozen no hash says"),
        (
            with_the_audit_of_another_seed,
            "of the frozen run {}/frozen its audit cannot be read, or is of another",
        ),
        (linked, ""),
        (linked_from_elsewhere, ""),
        (by_its_weights, ""),
        (without_an_accuracy, "of the frozen run {}/frozen its accuracy is not measured"),
        (unmeasured, "of the frozen run {}/frozen its accuracy is not measured"),
        (with_an_audit_of_nothing, "of the frozen run {}/frozen its audit cannot be read"),
        (unreadable, "of the frozen run {}/frozen its manifest cannot be read"),
        (unreadable_and_renamed, "of the frozen run {}/x7 its manifest cannot be read"),
        (without_a_manifest, "of the frozen run {}/frozen its manifest cannot be read"),
        (
            called_otherwise_by_its_manifest,
            "of the frozen run {}/frozen its audit cannot be read, or is of another",
        ),
        (of_another_seed, "no frozen run"),
        (of_another_network, "no frozen run"),
    ],
)
def test_a_frozen_run_beside_a_run_judges_it_or_is_named_unless_it_is_of_another(
    tmp_path, forge, says
):
    (tmp_path / "elsewhere").mkdir()
    for method in ("dfa", "frozen"):
        audited_run(tmp_path / method, method, 0.5)
    forge(tmp_path)
    place = tmp_path / ("dfa.json" if forge is by_its_weights else "dfa")
    report = load_audits([place, *tmp_path.glob("july.json")]).report(0)
    assert report.unmeasured.get("d", "").startswith(says.replace("{}", str(tmp_path)))
    assert report.frozen_baseline_acc == (None if says else 0.5), report.unmeasured


@pytest.mark.parametrize("is_link", [True, False])
def test_frozen_runs_of_one_name_beside_the_runs_or_a_link_judge_none_where_they_differ(
    tmp_path, is_link
):
    accuracies = {"new": 0.05, "old": 0.6}
    for folder, acc in accuracies.items():
        for method in ("dfa", "frozen"):
            audited_run(tmp_path / folder / method, method, acc)
    runs = [tmp_path / folder / "dfa" for folder in accuracies]
    for run, acc in zip(runs, accuracies.values(), strict=True):
        assert load_audits(run).report(0).frozen_baseline_acc == acc
    real = str(runs[-1])
    if is_link:
        shutil.rmtree(runs[0])
        runs[0].symlink_to(runs.pop())
    recorded = scan(runs).rows
    # an audit names the checkpoint without links
    audited = with_baselines([replace(recorded[0], checkpoint=real)] if is_link else recorded)
    for row in [*load_audits(runs).rows(), *audited]:
        why = row.report.unmeasured["d"]
        assert why.startswith("of the frozen run ") and "accuracies differ" in why
        assert all(str(tmp_path / folder / "frozen") in why for folder in accuracies)
