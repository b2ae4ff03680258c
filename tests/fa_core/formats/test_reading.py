"""Files and folders as a whole: what is found, in which order, and what is said of the rest."""

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from fa_core.errors import UnreadableInput
from fa_core.formats import load_audits, scan
from tests.json_files import put_json

REPORT = {"method_name": "DFA", "residual_norms": [1.0, 100.0], "bp_grad_norms": [1e-3, 1e-3]}


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    return put_json(path, value)


def test_a_folder_opens_with_the_good_files_and_lists_the_bad_ones(tmp_path):
    put(tmp_path / "good.json", REPORT)
    put(tmp_path / "deep/er/good_s7.json", REPORT)
    (tmp_path / "truncated.json").write_text(json.dumps({"reports": {"a_s1": REPORT}})[:60])
    put(tmp_path / "unequal.json", {**REPORT, "bp_grad_norms": [1.0]})
    put(tmp_path / "percent.json", {**REPORT, "headline_acc": 31})
    (tmp_path / "empty.json").touch()
    (tmp_path / "noise.pt").write_bytes(b"noise")
    found = scan([tmp_path])
    assert [row.key for row in found.rows] == ["good_s7", "good"]
    said = {Path(problem.path).name: problem.message for problem in found.problems}
    assert set(said) == {"truncated.json", "unequal.json", "percent.json", "empty.json", "noise.pt"}
    assert "truncated JSON" in said["truncated.json"]
    assert "unequal number" in said["unequal.json"]
    assert "divide by 100" in said["percent.json"]
    assert all(name in message and "\n" not in message for name, message in said.items())


def test_unrelated_files_in_a_folder_are_left_alone(tmp_path):
    put(tmp_path / "package.json", {"name": "x", "scripts": {}})
    put(tmp_path / "list.json", [1, 2, 3])
    put(tmp_path / "site/manifest.json", {"name": "app", "icons": []})
    (tmp_path / "notes.txt").write_text("{not json at all")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "data.pkl").write_bytes(b"\x80\x04K\x01.")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n")
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({"data": [1, 2]}, protocol=2))
    np.savez(tmp_path / "data.npz", x=1)
    put(tmp_path / ".hidden/report.json", REPORT)
    put(tmp_path / "report.json", REPORT)
    found = scan([tmp_path])
    assert [row.key for row in found.rows] == ["report"]
    assert found.problems == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty file"),
        (b"  \n ", "empty file"),
        (
            b'{"reports": {"a_s1": {"residual_norms": [1.0,',
            "truncated JSON: it ends inside a value at line 1",
        ),
        (b'{\n"residual_norms": [1.0,]\n}', "line 2 column"),
        (b'{"a": 1}', "nothing this project reads"),
        (b"[]", "nothing this project reads"),
        (b"3", "nothing this project reads"),
        (b"plain text", "nothing this project reads"),
        (b'{"reports": [1]}', "$.reports: Expected `object`, got `array`"),
        (b'{"reports": {"a_s1": 5}}', "$.reports.a_s1"),
        (b'{"reports": {"a_s1": {"foo": 5}}}', "none of a report's fields"),
        (
            b'{"reports": {"a_s1": {"residual_norms": [1.0, "x"]}}}',
            "$.reports.a_s1.residual_norms[1]: Expected `float`",
        ),
        (b'{"residual_norms": {"0": 1.0}}', "$.residual_norms: Expected `array`"),
        (b'[{"method": "bp", "seed": 1, "h_norms": [1, null]}]', "$[0].residual_norms[1]"),
        (b'{"log": 5, "lam": 0.1}', "$.log: not a list of epochs"),
        (b'{"epoch": 1, "test_acc": 131.0}', "divide by 100"),
        (b'{"epoch": 1, "h_norms": "x"}', "h_norms"),
        (b"\xff\xfe{\0{", "UTF-16"),
        (b'{"method_name": "\xff", "residual_norms": [1.0, 2.0]}', "not UTF-8"),
    ],
)
def test_a_named_bad_file_says_what_is_wrong_and_where(tmp_path, content, said):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput) as refusal:
        load_audits([path])
    assert str(path) in str(refusal.value)
    assert said in str(refusal.value)


def test_a_folder_with_nothing_of_ours_says_so(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    found = scan([tmp_path])
    assert found.rows == []
    assert "nothing here yet that this project reads" in found.problems[0].message


def test_a_walk_stays_in_the_named_folders_and_reads_nothing_twice(tmp_path):
    runs, elsewhere = tmp_path / "runs", tmp_path / "elsewhere"
    put(runs / "dfa/s3/a.json", REPORT)
    put(elsewhere / "b.json", REPORT)
    for link, target in (
        (runs / "up", tmp_path),
        (runs / "dfa/latest", runs / "dfa/s3"),
        (runs / "again.json", runs / "dfa/s3/a.json"),
        (runs / "itself", runs / "itself"),
        (runs / "link", elsewhere),
    ):
        link.symlink_to(target)
    found = scan([runs, runs / "dfa", runs / "dfa/latest"])
    assert [row.source for row in found.rows] == [str(runs / "dfa/s3/a.json")]
    assert [problem.path for problem in found.problems] == [str(runs / "link"), str(runs / "up")]
    assert f"outside {runs}, is not searched" in found.problems[0].message
    found = scan([runs, tmp_path])
    assert [row.key for row in found.rows] == ["s3/a", "b"]
    assert found.problems == []


def test_a_measurement_found_twice_is_one_run_and_another_of_its_checkpoint_is_a_second(tmp_path):
    facts = {"checkpoint": "/nets/a_s1.pt", "hashes": {"weights": "sha256:aa"}}
    for name, growth in (("a", 2.0), ("b", 2.0), ("c", 3.0)):
        report = {"residual_norms": [1.0, growth], "provenance": facts}
        put(tmp_path / name / "dfa_s1.json", report)
    found = load_audits(tmp_path).rows()
    assert [Path(row.source).parent.name for row in found] == ["b", "c"]


@pytest.mark.parametrize("name", ["huge.pt", "huge.safetensors", "huge.json", "huge"])
def test_a_huge_file_that_is_nothing_of_ours_is_not_read(tmp_path, name):
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(UnreadableInput):
        scan([path])
    with path.open("r+b") as file:
        file.write(b'{"weights": [')
    with pytest.raises(UnreadableInput, match="nothing this project reads"):
        scan([path])


def test_formats_are_told_by_content_under_any_name(tmp_path, published_table, published_cnn):
    for index, original in enumerate((published_table, published_cnn)):
        (tmp_path / f"file{index}").write_bytes(original.read_bytes())
    assert len(scan([tmp_path]).rows) == 30


def test_names_come_in_the_order_of_their_numbers(tmp_path):
    names = ["dfa_lam0_s7", "dfa_lam0_s42", "dfa_lam0_s123", "dfa_lam1e-4_s7", "dfa_lam0.01_s7"]
    for name in sorted(names):
        put(tmp_path / f"{name}.json", REPORT)
    assert [row.key for row in scan([tmp_path]).rows] == names


def test_a_bad_path_among_others_is_a_problem(tmp_path):
    absent = tmp_path / "absent.json"
    table = load_audits([absent, put(tmp_path / "good.json", REPORT)])
    assert (len(table), [problem.path for problem in table.problems]) == (1, [str(absent)])


@pytest.mark.parametrize(("opening", "name"), [("os.scandir", "locked"), ("os.open", "a.json")])
def test_what_may_not_be_read_is_listed_and_the_rest_is_read(tmp_path, monkeypatch, opening, name):
    put(tmp_path / "good.json", REPORT)
    put(tmp_path / "a.json", REPORT)
    put(tmp_path / "locked/b.json", REPORT)
    real = getattr(os, opening.partition(".")[2])

    def refuse(path, *args, **kwargs):
        if str(path) == str(tmp_path / name):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(opening, refuse)
    found = scan([tmp_path])
    assert len(found.rows) == 2
    assert "no permission" in found.problems[0].message


def test_runs_are_counted_over_all_files_of_a_path_and_need_bytes(tmp_path, monkeypatch):
    module = sys.modules[scan.__module__]
    monkeypatch.setattr(module, "MOST_RUNS", 3)
    monkeypatch.setattr(module, "BYTES_A_RUN", 100_000)
    for name in "abcd":
        put(tmp_path / f"{name}.json", REPORT)
        put(tmp_path / "long.d" / f"{name}.json", {**REPORT, "notes": "n" * 30_000})
    with pytest.raises(UnreadableInput, match=r"d\.json: more than 3 runs in 20 KiB"):
        scan([tmp_path])
    assert len(scan([tmp_path / "long.d"]).rows) == 4
    both = scan([tmp_path, tmp_path / "long.d"])
    assert [problem.path for problem in both.problems] == [str(tmp_path)]
    many = put(tmp_path / "many.json", {"reports": {f"dfa_s{seed}": REPORT for seed in range(4)}})
    with pytest.raises(UnreadableInput, match=r"many\.json: more than 3 runs"):
        scan([many])
