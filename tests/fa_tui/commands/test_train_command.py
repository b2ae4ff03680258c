"""`fa-tui train` as a person meets it: what it prints where, what it leaves, what it refuses."""

import os
from pathlib import Path

import pytest

from fa_core.report.manifest import read_manifest
from fa_tui.cli import main

TINY = (
    "train --data synthetic:input=6,train=320,test=300 --d 8 --L 2 --batch-size 32 --epochs 2 "
    "--threads 1 --device cpu --out"
)


def train(out, words):
    return main([*TINY.split(), str(out), *words.split()])


def test_method_times_seed_becomes_run_folders_with_their_verdict_on_stdout(tmp_path, capsys):
    assert train(tmp_path, "--method dfa,frozen --seeds 1,2") == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    names = ["frozen_s1", "frozen_s2", "dfa_s1", "dfa_s2"]
    assert [Path(line.partition(": ")[0]).name for line in lines] == names
    assert all("measured], accuracy 0." in line for line in lines)
    assert "dfa_s1 epoch 2/2: loss" in told.err
    assert "d measured]" in lines[-1]


def test_lists_of_lambda_width_and_depth_make_a_sweep(tmp_path):
    assert train(tmp_path, "--method bp --lam 0,1e-2 --d 4 --L 1 --epochs 1") == 0
    found = {path.name: read_manifest(path) for path in tmp_path.iterdir()}
    assert set(found) == {
        f"bp_lam{lam}_d{d}_L{L}_s42" for lam in ("0", "0.01") for d in (8, 4) for L in (2, 1)
    }
    one = found["bp_lam0.01_d4_L1_s42"]
    assert (one.axes, one.recipe["lam"], one.arch_args["d"]) == (
        {"lam": 0.01, "d": 4, "L": 1},
        0.01,
        4,
    )


def test_stop_on_tells_what_it_saved(tmp_path, capsys):
    assert train(tmp_path, "--method bp --stop-on a --h-norm-explosion-ratio 0.1") == 0
    assert "(a) fired at epoch 1 of 2: 50 % of the epochs saved" in capsys.readouterr().out


def test_resume_leaves_finished_runs_alone(tmp_path, capsys, monkeypatch):
    # torch's own folder for it lies among those of all users, where another may put a file
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train(tmp_path, "--method bp")
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "cache" / "fa-tui" / "torch")
    capsys.readouterr()
    assert train(tmp_path, "--method bp --resume") == 0
    assert capsys.readouterr().out.strip().endswith("finished before, left alone")


def test_ctrl_c_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    import fa_core.training.train as training

    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(training.Training, "epoch", interrupted)
    assert train(tmp_path, "--method bp") == 130
    assert "--resume goes on after the last complete epoch" in capsys.readouterr().err
    assert read_manifest(tmp_path / "bp_s42").epochs_done == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("--method dfaa", "unknown method 'dfaa'; did you mean dfa? known: bp"),
        ("--method dfa --seeds one", "--seeds 'one' cannot be read; write whole numbers with comm"),
        ("--method dfa --method-arg variant", "--method-arg 'variant' is not KEY=VALUE"),
        ("--method dfa --stop-on e", "--stop-on 'e' is not a list of diagnostics"),
        ("--method ,", "nothing to train"),
        ("--method dfa --device cuda:77", "--device 'cuda:77' is not there"),
    ],
)
def test_a_typing_error_is_one_line_with_exit_code_2_and_leaves_nothing(
    tmp_path, capsys, args, message
):
    assert train(tmp_path / "out", args) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert not (tmp_path / "out").exists()


def test_options_of_network_and_method_reach_them(tmp_path):
    given = "--arch resmlp_wide --arch-arg hidden=12 --no-terminal-ln --method-arg variant=stable"
    assert train(tmp_path, f"--method credit-bridge {given} --epochs 1") == 0
    (folder,) = tmp_path.iterdir()
    manifest = read_manifest(folder)
    assert (manifest.arch_args["hidden"], manifest.arch_args["terminal_ln"]) == (12, False)
    assert manifest.method_args == {"variant": "stable"}
    assert manifest.axes == {"arch": "resmlp_wide", "terminal_ln": False}
