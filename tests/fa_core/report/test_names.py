"""What a run is called, by its key or path; names of many runs."""

import re
import sys
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.formats import scan, scan_again
from fa_core.formats.rows import measured, row_of_file
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import (
    canonical_method,
    differing_axes,
    is_control,
    name_of,
    numbered,
    run_names,
    split_key,
    unique_names,
)
from fa_core.sanitize import WHITE_SPACE, sanitize
from tests.fa_core.formats.test_checkpoints import torch_zip
from tests.fa_core.rows import row_of

TABLE = """
state_bridge_s123                                       state_bridge 123
runs/DFA-s7.json                                        dfa 7
dfa_seed42.jsonl                                        dfa 42
nets/eqprop-seed_2.pt                                   ep 2
dfa_pen_lam0.01_s42                                     dfa 42 lam=0.01
dfa_lam1e-3_s42                                         dfa 42 lam=0.001
dfa_L12_d256_s1                                         dfa 1 L=12 d=256
vit_mini_dfa_s42                                        dfa 42 arch=vit_mini
fa_cnn_lam0.1_s42                                       fa 42 arch=cnn lam=0.1
vit_mini_s42                                            vit_mini 42
dfa_s42_final                                           dfa 42
seed42_bp_d512                                          bp 42 d=512
audit_s42_s123                                          audit_s42 123
frozen_of_mine_s1.pt                                    frozen 1 of=mine
dfa_shallow_s2.pt                                       shallow 2 of=dfa
my_frozen_s2.pt                                         my_frozen 2
nets/my_model_s7.pth.tar                                my_model 7
weights                                                 weights -
dfa_s                                                   dfa_s -
s9.pt                                                   s9 9
SB/s1.pt                                                state_bridge 1
mine/seed_3.safetensors                                 mine 3
ep_s7/epoch_10.pt                                       ep 7 epoch=10
bp_s1/step100.ckpt                                      bp 1 step=100
dfa/model_s7.pt                                         dfa 7
runs/dfa/seed42/model.pt                                dfa 42
sign_symmetry/model_best.pth.tar                        sign_symmetry -
feedback_alignment/model_best.pth.tar                   fa -
mine/latest_model.pt                                    mine -
mine/seed1/checkpoints/final_model.tar                  mine 1
dfa/checkpoints/epoch=9-step=400.ckpt                   dfa - epoch=9
dfa/ep10.pt                                             dfa - epoch=10
runs/ep_10.pt                                           ep_10 -
runs/checkpoint.tar                                     checkpoint -
runs/dfa_s1/model.safetensors                           dfa 1
out/dfa_s1/metrics.csv                                  dfa 1
dfa/version_0/metrics.csv                               dfa -
fa_s2/checkpoint-500/model.safetensors                  fa 2 checkpoint=500
runs/model.safetensors                                  runs -
method=dfa,seed=42/model.pt                             dfa 42
lr=0.1,method=state_bridge,seed=42,lam=0.01/best.pt     state_bridge 42 lam=0.01
method=dfa/seed=3/last.ckpt                             dfa 3
mine/d=64,seed=3/last.ckpt                              mine 3 d=64
runs/method=dfa/lr=0.1/seed=3/checkpoints/last.ckpt     dfa 3
seed_3/dfa/best.pt                                      dfa 3
exp_s42/sign_symmetry/model_best.pth.tar                sign_symmetry 42
dfa_s1/plots/model.pt                                   dfa 1
dfa/fold0/model_best.pth.tar                            dfa - fold=0
dfa/resnet20/seed_7/checkpoint.pth.tar                  dfa 7 arch=resnet20
lam=0.1/dfa_s3.pt                                       dfa 3 lam=0.1
mine_s1/fa_log.csv                                      mine 1
runs/dfa/mine_s3.pt                                     mine 3
"""
"""Path, method, seed and axes."""


def test_a_path_says_method_seed_and_axes_by_its_own_name_or_its_folders():
    for line in TABLE.strip().splitlines():
        path, *expected = line.split()
        _, method, seed, axes = name_of(path)
        found = [method, "-" if seed is None else str(seed)]
        assert [*found, *sorted(f"{k}={v}" for k, v in axes.items())] == expected, path
    assert name_of("").method == "unknown" and name_of("a\nb_s1").method == "a_b"
    assert split_key(f"dfa_s{'9' * 19}")[1] is None


ROLES = """
dfa/s3/best.pt dfa/s3/last.pt dfa/s3/epoch_10.pt                     dfa/s3/best.pt
dfa/s4/epoch_9.pt dfa/s4/epoch_10.pt                                 dfa/s4/epoch_10.pt
rule/model_best.pth.tar rule/checkpoint.pth.tar                      rule/model_best.pth.tar
fa/checkpoint-500/pytorch_model.bin fa/checkpoint-1000/model.pt      fa/checkpoint-1000/model.pt
fa/checkpoint-500/model.pt fa/pytorch_model.bin                      fa/pytorch_model.bin
ep/best.pt ep/checkpoints/last.ckpt                                  ep/best.pt
dfa/model_1.pt dfa/model_2.pt                     dfa/model_1.pt dfa/model_2.pt
dfa_s1.pt dfa_s2.pt best.pt                       best.pt dfa_s1.pt dfa_s2.pt
"""
"""Checkpoints in a folder, and those of them that are runs."""


@pytest.mark.parametrize("line", ROLES.strip().splitlines())
def test_several_roles_of_one_run_are_one_run_unless_they_are_named(tmp_path, line):
    paths, taken = (part.split() for part in re.split("  +", line))
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        torch_zip(tmp_path / path)
    (tmp_path / "link").symlink_to(tmp_path / paths[0].partition("/")[0])
    rows = scan([tmp_path]).rows
    assert sorted(row.source for row in rows) == [str(tmp_path / path) for path in taken]
    named = [str(tmp_path / path) for path in paths]
    assert [row.source for row in scan([*named, tmp_path]).rows] == named
    left = {Path(path).name for path in {*paths} - {*taken}}
    assert all(name in rows[0].report.notes for name in left)
    assert measured(rows[0], DiagnosticReport(notes="x")).report.notes.endswith("x")


def test_a_folder_of_hydras_is_called_as_its_overrides_say(tmp_path):
    said = tmp_path / "multirun" / "2024-01-01" / "0" / ".hydra" / "overrides.yaml"
    said.parent.mkdir(parents=True)
    said.write_text("- +method=dfa\n- 'seed=42'\n- optim/lr=0.1\n")
    file = Path("checkpoints", "last.ckpt")
    path = said.parent.parent / file
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".hydra").symlink_to(said.parent)
    path.parent.mkdir()
    torch_zip(path)
    logs = {
        "log.csv": "epoch,test_acc\n1,0.5\n",
        "log.jsonl": '{"epoch": 1, "test_acc": 0.5}\n',
        "report.json": '{"headline_acc": 0.5}',
        "penalty.json": '{"lam": 0.0, "log": [{"epoch": 1, "test_acc": 0.5}]}',
    }
    for name, text in logs.items():
        path.with_name(name).write_text(text)
    near = said.parents[1] / "near.csv"
    near.write_text(logs["log.csv"])
    for opened, count, is_named in (
        (path.parent, 5, False),
        (path, 1, False),
        (near, 1, True),
        (tmp_path, 6, True),
    ):
        found = scan([opened])
        sources = {run.source for run in (*found.rows, *found.traces)}
        assert len(sources) == count
        again = (scan_again(source, str(opened)) for source in sources)
        for run in chain(*((each.rows + each.traces) for each in (found, *again))):
            assert ((run.method, run.seed) == ("dfa", 42)) == is_named
    assert row_of_file(str(tmp_path / "other" / file), str(tmp_path)).method != "dfa"


def test_every_sample_run_is_called_in_its_key_what_its_record_says(sample_runs):
    found = scan([sample_runs])
    methods = {row.method for row in found.rows}
    assert len(found.rows) > 300 and len(methods) > 15
    for run in (*found.rows, *found.traces):
        method, seed, axes = split_key(run.key)
        assert (seed in (None, run.seed)) and axes.items() <= run.axes.items()
        assert method.startswith(run.method) or seed is None
    for row in found.rows:
        report = row.report
        stated_method = canonical_method(report.method_name)
        assert stated_method == row.method and report.seed in (None, row.seed)
        assert row.is_control == is_control(report.method_name)


HOSTILE = st.text(
    st.one_of(st.characters(), st.sampled_from("/._-=,@#s0123456789\x1b\u202e")), max_size=40
)


@given(HOSTILE)
def test_no_name_of_a_file_brings_control_codes_or_other_kinds_of_value(path):
    for key, method, seed, axes in (name_of(path), ("", *split_key(path))):
        assert sanitize(key, WHITE_SPACE) == key
        assert method == canonical_method(method)
        assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in method)
        assert seed is None or 0 <= seed < 10**18
        kinds = {name: type(value) for name, value in axes.items()}.items()
        assert (
            kinds
            <= {
                **dict.fromkeys(("d", "L", "epoch", "fold"), int),
                "lam": float,
                "arch": str,
                "of": str,
            }.items()
        )


def named(keys, sources):
    """Names of runs whose records say nothing else than their keys."""
    return run_names([*map(row_of, keys, sources)])


@given(st.lists(st.tuples(st.sampled_from(["a", "a#2", "b@x"]), st.sampled_from(["x", "y/x", ""]))))
def test_every_run_has_a_name_of_its_own_that_holds_its_key(runs):
    keys, places = [key for key, _ in runs], [place for _, place in runs]
    for names in (named(keys, places), unique_names(keys, places, places[::-1])):
        assert len(set(names)) == len(runs)
        assert all(name.startswith(key) for key, name in zip(keys, names, strict=True))


def test_names_of_runs_in_any_order_are_the_same_and_the_shortest():
    keys = ["bp_s1", "bp_s1", "bp_s1", "dfa_s1"]
    sources = ["a/audits.json", "a/bp_s1/trace.jsonl", "b/bp_s1", "b/dfa_s1"]
    names = ["bp_s1@audits.json", "bp_s1@a/bp_s1", "bp_s1@b/bp_s1", "dfa_s1"]
    assert named(keys, sources) == names
    assert named(keys[::-1], sources[::-1]) == names[::-1]


def test_a_run_is_named_as_its_record_says_whatever_its_folder_is_called():
    said = {"method": "dfa", "seed": 2}
    runs = [row_of("bp_s1", "a", **said), row_of("dfa_s2", "b", **said), row_of("bp_s1", "c")]
    assert run_names(runs) == ["dfa_s2@a", "dfa_s2@b", "bp_s1"]
    runs[0] = row_of("bp_s1", "a", **said, axes={"lam": 0.1})
    assert run_names(runs) == ["dfa_lam0.1_s2", "dfa_s2", "bp_s1"]


@pytest.mark.parametrize("naming", [numbered, lambda names: named(names, ["a.json"] * len(names))])
def test_naming_equal_entries_takes_steps_in_proportion(
    naming,
):
    def steps(count):
        lines = 0

        def trace(*_):
            nonlocal lines
            lines += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            naming(["m"] * count)
        finally:
            sys.settrace(before)
        return lines

    assert steps(100) > 100 and steps(400) < 5 * steps(100)


def test_an_axis_that_differs_is_named_on_every_run_of_the_group_that_has_it():
    runs = [("dfa", {"lam": lam, "d": 64}) for lam in (0.001, 0.01, 0.01)]
    runs += [("dfa", {"d": 64}), ("bp", {"lam": 0.5})]
    assert differing_axes(runs) == {"dfa": ["lam"], "bp": []}
