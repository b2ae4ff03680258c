"""Weights that change on disk: while they are measured, and afterwards."""

import os
import shutil

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.audit import measuring
from fa_core.audit.jobs import Job
from fa_core.audit.measuring import measure_run
from fa_core.errors import MeasureError
from fa_core.formats import checkpoint_file, frozen_runs, load_audits, scan
from fa_core.formats.checkpoint_file import input_hashes, marked_changed, stamp
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, CREDIT, MANIFEST, WEIGHTS
from tests.fa_core.rows import row_of
from tests.json_files import json_of, put_json

from .runs_for_tests import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "dfa_s42", "dfa")


def measured(run):
    return measure_run(Job(id="0", checkpoint=str(run)), "cpu", measuring.JobProgress())


def spoil(file):
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_a_run_whose_files_changed_since_its_audit_is_not_measured_and_a_copy_is(run, tmp_path):
    measured(run).save(run / AUDIT)
    copy = shutil.copytree(run, tmp_path / "moved" / run.name)
    for place in (run, copy):
        os.utime(place / WEIGHTS, (1, 1))
        assert load_audits(place).report(0).claim != "not measured"
    spoil(copy / WEIGHTS)
    spoil(copy / CREDIT)
    report, before = load_audits(copy).report(0), load_audits(run).report(0)
    assert (report.claim, report.cell()) == ("not measured", f"?{before.cell()[1:]}")
    said = "not measured: its weights and credit changed since; before: "
    assert report.words == said + before.words
    assert "(changed)" not in report.to_dict()
    seeds = over_seeds(load_audits(copy))
    assert seeds.groups == ()
    said = "runs (its weights and credit changed since) are left out: dfa_s42"
    assert said in seeds.notes
    # what is too large for the explorer
    (row,) = marked_changed(scan([copy]).rows, 0)
    assert (row.report.changed, bool(row.touched)) == ("", True)
    with (copy / WEIGHTS).open("ab") as weights:
        weights.write(b"x")
    (row,) = marked_changed(scan([copy]).rows, 0)
    assert (row.report.changed, row.touched) == ("its files changed since", "")
    # an older record has the stamp of its weights alone, or none: the hashes decide
    facts = json_of(run / AUDIT)
    stamps = facts["provenance"]["files"]
    os.utime(run / WEIGHTS, ns=(1, stamps[0][1]))
    with (run / MANIFEST).open("a") as manifest:
        manifest.write(" ")
    for kept in (1, 0):
        del stamps[kept:]
        put_json(run / AUDIT, facts)
        assert load_audits(run).report(0).changed == "its manifest changed since"


@pytest.mark.parametrize(
    ("gone", "new", "changed"),
    [
        ([CREDIT], [], "its credit changed since"),
        ([MANIFEST], [], "its manifest changed since"),
        ([], [CREDIT], "its credit changed since"),
        # audits are moved, weights are not
        ([WEIGHTS], [], ""),
        ([WEIGHTS, CREDIT], [], ""),
    ],
)
def test_a_manifest_or_a_credit_that_is_gone_or_new_beside_the_weights_is_a_change(
    run, tmp_path, gone, new, changed
):
    credit = (run / CREDIT).read_bytes()
    for name in new:
        (run / name).unlink()
    measured(run).save(tmp_path / AUDIT)
    for name in gone:
        (run / name).unlink()
    for name in new:
        (run / name).write_bytes(credit)
    assert load_audits(tmp_path / AUDIT).report(0).changed == changed


def overwritten(text):
    return lambda index, *shards: index.write_text(text)


def names_another(index, *shards):
    overwritten(index.read_text().replace("1-of", "3-of"))(index)
    os.utime(index, (1, 1))


def one_is_gone_and_the_other(*, touched):
    def change(index, gone, other):
        gone.unlink()
        touched(other)

    return change


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (lambda *files: None, ""),
        (lambda index, *shards: os.utime(index, (1, 1)), ""),
        (lambda index, *shards: index.unlink(), ""),
        (lambda index, *shards: [shard.unlink() for shard in shards], ""),
        (one_is_gone_and_the_other(touched=lambda shard: None), ""),
        (lambda index, *shards: spoil(shards[1]), "its weights changed since"),
        (overwritten("garbage"), "its files changed since"),
        (overwritten('{"weight_map": {"a": ""}}'.ljust(94)), "its weights changed since"),
        (names_another, "its weights cannot be read"),
        (one_is_gone_and_the_other(touched=spoil), "its weights cannot be read"),
        (
            one_is_gone_and_the_other(touched=lambda shard: shard.write_bytes(b"")),
            "its files changed since",
        ),
    ],
)
def test_weights_in_shards_that_cannot_be_told_are_changed_and_those_that_are_gone_are_not(
    tmp_path, change, changed
):
    shards = [tmp_path / f"model-{number}-of-2.safetensors" for number in (1, 2)]
    for shard in shards:
        shard.write_bytes(b"weights")
    index = tmp_path / "model.safetensors.index.json"
    put_json(index, {"weight_map": {shard.name[:7]: shard.name for shard in shards}})
    assert index.stat().st_size == 94
    for file in (index, *shards):
        os.utime(file, (5, 5))
    facts = {"hashes": input_hashes(index), "files": stamp(index)}
    row = row_of("dfa", "", index, report=DiagnosticReport(provenance=facts))
    change(index, *shards)
    (found,) = marked_changed([row])
    assert found.report.changed == changed
    put_json(tmp_path / MANIFEST, {})
    (found,) = marked_changed([row])
    assert found.report.changed == "its manifest changed since" * bool(stamp(index))


def test_a_frozen_run_whose_files_changed_since_its_audit_is_no_baseline(
    run, tmp_path, monkeypatch
):
    known = measured(run).provenance["data_hash"]
    frozen = make_run(tmp_path / "frozen_s42", "frozen", data_hash=known)
    for place in (run, frozen):
        measured(place).save(place / AUDIT)
    os.utime(frozen / WEIGHTS, (1, 1))

    def judged(of):
        (found,) = (row.report for row in load_audits(of).rows() if row.method == "dfa")
        return found.unmeasured.get("d", "frozen_s42 judges it")

    assert [judged(of) for of in (run, tmp_path)] == ["frozen_s42 judges it"] * 2
    spoil(frozen / WEIGHTS)
    for of in (run, tmp_path):
        assert "frozen_s42 its weights changed since: mend, measure or remove it" in judged(of)
    monkeypatch.setattr(frozen_runs, "HASHED", 0)
    assert "frozen_s42 its audit has another time of its files, or none: mend" in judged(run)


def test_a_checkpoint_in_many_spellings_and_behind_links_is_looked_at_once(
    run, tmp_path, monkeypatch
):
    index = tmp_path / "x.index.json"
    index.touch()
    (tmp_path / "link").symlink_to(run)
    (tmp_path / "other.index.json").symlink_to(index)
    names = [f"{run.name}/../{run.name}", f"link/{WEIGHTS}", index.name, "other.index.json"]
    report, seen = DiagnosticReport(provenance={"files": [[1, 1]], "hashes": {"weights": ""}}), []
    monkeypatch.setattr(checkpoint_file, "stamp", lambda path: seen.append(path.name) or [])
    list(marked_changed(row_of("", "", f"{tmp_path}/{name}", report=report) for name in names))
    assert seen == [run.name, index.name]


def replaced(weights):
    """Put another file of the same size and time in its place."""
    other = weights.with_name("other")
    shutil.copy2(weights, other)
    other.rename(weights)


@pytest.mark.parametrize("change", [lambda weights: os.utime(weights, (1, 1)), replaced])
def test_weights_that_change_while_they_are_measured_give_no_report(run, monkeypatch, change):
    real = measuring.run_diagnosis

    def meanwhile(*args, **given):
        change(run / WEIGHTS)
        return real(*args, **given)

    monkeypatch.setattr(measuring, "run_diagnosis", meanwhile)
    with pytest.raises(MeasureError, match="changed while they were measured"):
        measured(run)


def test_an_index_of_shards_is_read_once_for_all_links_to_it(tmp_path, monkeypatch):
    seen = []
    index = b'{"weight_map": {"w": "a"}}'
    monkeypatch.setattr(checkpoint_file, "read_file", lambda path, most: seen.append(path) or index)
    (tmp_path / "x.index.json").touch()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        link = tmp_path / name / "x.index.json"
        link.symlink_to("../x.index.json")
        assert checkpoint_file.files_of(link) == [link, link.with_name("a")]
    assert seen == [tmp_path / "x.index.json"]
