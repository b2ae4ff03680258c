"""Logs of other tools, read by their content, each value with what it rests on."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fa_core.analysis.timeline import timeline
from fa_core.errors import UnreadableInput
from fa_core.formats import Scan, log_files, scan
from fa_core.formats.log_names import columns_of
from fa_core.trace import Trace
from tests.fa_core.formats import logs


def read(path: Path) -> Trace:
    found = scan([path])
    assert found.problems == []
    (trace,) = found.traces
    return trace


def lines(path: Path, *entries: dict[str, Any]) -> Path:
    return logs.put(path, "\n".join(map(json.dumps, entries)) + "\n")


def accuracies(trace: Trace) -> dict[int, float | None]:
    return {epoch.epoch: epoch.test_acc for epoch in trace.epochs}


def test_lightning_rows_of_one_epoch_are_merged(tmp_path: Path) -> None:
    trace = read(logs.lightning(tmp_path / "dfa_s3"))
    assert (trace.key, trace.method, trace.seed) == ("dfa_s3", "dfa", 3)
    assert accuracies(trace) == {0: 0.2, 1: 0.3, 2: 0.4}
    assert [(epoch.loss, epoch.step, epoch.lr) for epoch in trace.epochs[:2]] == [
        (1.9, 9, 0.001),
        (1.9, 19, 0.001),
    ]
    assert trace.notes == ("the accuracy is val_acc", "logged, not used: train_loss_step, val_loss")


def test_timm_percentages_become_fractions_and_that_is_said(tmp_path: Path) -> None:
    trace = read(logs.timm(tmp_path / "fa_s1"))
    assert accuracies(trace) == {0: 0.205, 1: 0.3125}
    assert "eval_top1 is in percent: divided by 100" in trace.notes
    assert "logged, not used: eval_loss, eval_top5" in trace.notes


def test_one_value_above_1_among_fractions_is_refused_not_a_percentage(tmp_path: Path) -> None:
    found = scan(
        [
            lines(
                tmp_path / "a.jsonl",
                *({"epoch": e, "val_acc": a} for e, a in enumerate((0.4, 61, 0.5))),
            )
        ]
    )
    assert accuracies(found.traces[0]) == {0: 0.4, 2: 0.5}
    (problem,) = found.problems
    assert "headline_acc is 61.0; accuracies are fractions: divide by 100" in problem.message
    low = read(
        lines(tmp_path / "b.jsonl", *({"epoch": e, "top1": a} for e, a in enumerate((0.8, 20, 60))))
    )
    assert accuracies(low) == pytest.approx({0: 0.008, 1: 0.2, 2: 0.6})


def test_a_trainers_history_is_a_trace_and_its_gradient_norm_is_no_b(tmp_path: Path) -> None:
    trace = read(logs.trainer(tmp_path / "dfa_s5"))
    assert accuracies(trace) == {1: 0.1, 2: 0.2}
    assert trace.epochs[0].loss == 2.0
    assert not trace.epochs[0].bp_grad_norms
    assert trace.epochs[0].unmeasured["b"] == "grad_norm is a norm over all parameters, not ‖g_L‖"
    assert (
        "(b) not judged: grad_norm is a norm over all parameters, not ‖g_L‖"
        in timeline(trace).skipped
    )


def test_of_a_trainers_checkpoints_the_last_state_is_the_run(tmp_path: Path) -> None:
    run = tmp_path / "dfa_s5"
    for step in (10, 20, 100):
        logs.trainer(run / f"checkpoint-{step}", step // 10)
    found = scan([tmp_path])
    assert [(trace.key, len(trace.epochs)) for trace in found.traces] == [("dfa_s5", 10)]
    logs.trainer(run, 11)
    assert [len(trace.epochs) for trace in scan([tmp_path]).traces] == [11]


def test_measurements_at_fractions_of_an_epoch_are_numbered_by_step(tmp_path: Path) -> None:
    history = [{"epoch": step / 20, "step": step, "eval_accuracy": 0.5} for step in (10, 20, 30)]
    path = logs.put(
        tmp_path / "trainer_state.json", json.dumps({"global_step": 30, "log_history": history})
    )
    trace = read(path)
    assert list(accuracies(trace)) == [10, 20, 30]
    assert "numbered by step: measured at fractions of an epoch" in trace.notes


@pytest.mark.parametrize(
    "name",
    [
        "val_acc",
        "acc",
        "accuracy",
        "val/acc",
        "test_acc",
        "Accuracy/val",
        "eval_accuracy",
        "acc@1",
        "fa/acc",
    ],
)
def test_every_spelling_of_the_accuracy_is_read(tmp_path: Path, name: str) -> None:
    assert accuracies(
        read(lines(tmp_path / "dfa_s1.jsonl", *({"epoch": e, name: e / 4} for e in (1, 2))))
    ) == {
        1: 0.25,
        2: 0.5,
    }


def test_an_accuracy_on_held_out_data_comes_before_one_that_may_be_the_training_one(
    tmp_path: Path,
) -> None:
    trace = read(
        lines(
            tmp_path / "a.jsonl",
            {"epoch": 1, "acc": 0.9, "val_acc": 0.5},
            {"epoch": 2, "acc": 0.95},
        )
    )
    assert accuracies(trace) == {1: 0.5, 2: None}
    assert "logged, not used: acc" in trace.notes


def test_gammas_of_a_method_are_gammas(tmp_path: Path) -> None:
    assert read(lines(tmp_path / "a.jsonl", {"epoch": 1, "gamma_dfa": 0.07})).epochs[0].gamma == [
        0.07
    ]
    layered = read(lines(tmp_path / "b.jsonl", {"epoch": 1, "gamma_0": 0.4, "gamma_2": -0.02}))
    assert layered.epochs[0].gamma == [0.4, None, -0.02]


def test_a_log_by_step_alone_says_so(tmp_path: Path) -> None:
    trace = read(
        lines(tmp_path / "a.jsonl", {"_step": 100, "val_acc": 0.1}, {"_step": 200, "val_acc": 0.2})
    )
    assert accuracies(trace) == {100: 0.1, 200: 0.2}
    assert trace.notes[0] == "numbered by step: the log names no epoch"


def test_entries_without_a_position_are_counted_and_that_is_said(tmp_path: Path) -> None:
    log = [{"h_L_norm": 2.0, "test_acc": acc} for acc in (0.1, 0.2)]
    trace = read(logs.put(tmp_path / "dfa_s1.json", json.dumps({"lam": 0.1, "log": log})))
    assert accuracies(trace) == {1: 0.1, 2: 0.2}
    assert trace.notes[0] == "numbered by entry: the log names neither epoch nor step"


def test_a_log_without_any_epoch_says_why_once(tmp_path: Path) -> None:
    path = logs.put(
        tmp_path / "dfa_s1.json", json.dumps({"lam": 0.1, "log": [{"epoch": "x", "test_acc": 0.1}]})
    )
    with pytest.raises(UnreadableInput, match="no epoch can be read"):
        scan([path])
    (problem,) = scan([tmp_path]).problems
    assert problem.message.count("names no epoch") == 1


def test_layers_that_are_logged_one_by_one_are_a_stream_or_a_bound(tmp_path: Path) -> None:
    whole = {"epoch": 1, "h_0": 1.0, "h_1": 3.0, "h_2": 6.0, "g_0": 1.0, "g_1": 0.5, "g_2": 0.25}
    epoch = read(lines(tmp_path / "whole.jsonl", whole)).epochs[0]
    assert (epoch.residual_norms, epoch.bp_grad_norms, epoch.evidence) == (
        [1.0, 3.0, 6.0],
        [1.0, 0.5, 0.25],
        {},
    )
    part = {"epoch": 1, "h_0": 1.0, "h_3": 8.0, "g_2": 0.25}
    epoch = read(lines(tmp_path / "part.jsonl", part)).epochs[0]
    assert epoch.growth_bound == pytest.approx(2.0)
    assert epoch.evidence == {"a": "bound", "b": "proxy"}
    assert epoch.layers == {"residual_norms": "3", "bp_grad_norms": "2"}
    ends = read(
        lines(tmp_path / "ends.jsonl", {"epoch": 1, "h_0": 1.0, "h_1": 2.0, "h_L": 16.0})
    ).epochs[0]
    assert (ends.residual_norms, ends.layers) == ([16.0], {"residual_norms": "L"})
    deep = {"epoch": 1, "h_L": 16.0, "g_L": 0.5, "growth": 4.0}
    epoch = read(lines(tmp_path / "deep.jsonl", deep)).epochs[0]
    assert (epoch.growth_bound, epoch.evidence) == (4.0, {})
    assert epoch.layers == {"residual_norms": "L", "bp_grad_norms": "L"}


def test_all_residual_norms_with_one_gradient_norm_are_both_kept(tmp_path: Path) -> None:
    epoch = read(
        lines(tmp_path / "a.jsonl", {"epoch": 1, "h_norms": [1.0, 2.0, 4.0], "g_2": 0.1})
    ).epochs[0]
    assert (epoch.residual_norms, epoch.bp_grad_norms, epoch.evidence) == (
        [1.0, 2.0, 4.0],
        [0.1],
        {},
    )
    report = epoch.report()
    assert (report.by_layer("residual_norms").keys(), report.by_layer("bp_grad_norms")) == (
        {"0", "1", "2"},
        {"L": 0.1},
    )


SCALARS = {
    390: {"epoch": 0.0, "val/acc": 0.5, "train/loss": 2.0},
    780: {"epoch": 1.0, "val/acc": 0.25, "hp_metric": -1},
}


@pytest.mark.parametrize("tensors", [False, True])
def test_tensorboard_scalars_are_a_trace(tmp_path: Path, tensors: bool) -> None:
    trace = read(logs.events(tmp_path / "dfa_s4" / "events.out.tfevents.1.host", SCALARS, tensors))
    assert (trace.key, trace.method, trace.seed) == ("dfa_s4", "dfa", 4)
    assert accuracies(trace) == {0: 0.5, 1: 0.25}
    assert [epoch.step for epoch in trace.epochs] == [390, 780]
    assert "logged, not used: hp_metric" in trace.notes


def test_a_truncated_event_file_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    path = logs.events(tmp_path / "dfa_s4" / "events.out.tfevents.1", SCALARS)
    data = path.read_bytes()
    for cut in (1, 10, 40):
        path.write_bytes(data[:-cut])
        trace = read(path)
        assert accuracies(trace) == {0: 0.5}
        assert (
            trace.notes[0]
            == "events.out.tfevents.1 ends inside a record: what is whole before it is read"
        )


def test_event_files_of_a_run_that_was_started_again_are_one_run(tmp_path: Path) -> None:
    run = tmp_path / "dfa_s4"
    logs.events(run / "events.out.tfevents.100.a", {1: {"val/acc": 0.1}, 2: {"val/acc": 0.2}})
    logs.events(run / "events.out.tfevents.200.b", {2: {"val/acc": 0.5}, 3: {"val/acc": 0.75}})
    (trace,) = scan([tmp_path]).traces
    assert accuracies(trace) == pytest.approx({1: 0.1, 2: 0.5, 3: 0.75})


def test_a_loggers_database_is_refused_with_what_to_export(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    photos = tmp_path / "photos.db"
    for place, table in ((path, "metrics"), (photos, "photos")):
        with closing(sqlite3.connect(place)) as base:
            base.execute(f"CREATE TABLE {table} (key TEXT, value FLOAT, step BIGINT)")
    logs.timm(tmp_path / "fa_s1")
    (problem,) = scan([tmp_path]).problems
    assert problem.path == str(path)
    for place in (path, photos):
        with pytest.raises(
            UnreadableInput, match=r"SQLite database.* export each run as CSV or JSON lines"
        ):
            scan([place])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fa_s1", "mlflow.db", "photos.db"]


@pytest.mark.parametrize("newest", ["empty", "backup", "folder", "junk"])
def test_event_files_are_read_beside_a_newest_one_that_is_none(tmp_path: Path, newest: str) -> None:
    run = tmp_path / "dfa_s4"
    first = logs.events(run / "events.out.tfevents.100.a", {1: {"val/acc": 0.5}})
    last = run / ("events.out.tfevents.200.b" + ("~" if newest == "backup" else ""))
    if newest == "folder":
        last.mkdir()
    else:
        last.write_bytes({"empty": b"", "backup": first.read_bytes(), "junk": b"no events"}[newest])
    (trace,) = scan([tmp_path]).traces
    assert accuracies(trace) == {1: 0.5}
    assert trace.notes[0].startswith(f"{last.name} is left out: ")


def test_an_older_event_file_is_refused_by_name(tmp_path: Path) -> None:
    older = logs.events(tmp_path / "events.out.tfevents.100.a", {1: {"val/acc": 0.5}})
    logs.events(tmp_path / "events.out.tfevents.200.b", {2: {"val/acc": 0.5}})
    with pytest.raises(UnreadableInput, match=r"200\.b goes on from it; name the folder"):
        scan([older])


def test_what_is_decoded_of_event_files_has_a_limit_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scalars = {step: {"val/acc": 0.5} for step in range(10)}
    logs.events(tmp_path / "events.out.tfevents.100.a", scalars)
    logs.events(tmp_path / "events.out.tfevents.200.b", scalars)
    assert len(scan([tmp_path]).traces) == 1
    monkeypatch.setattr(log_files, "_FIELDS", 100)
    (problem,) = scan([tmp_path]).problems
    assert (
        "200.b: TensorBoard's event files of more than 100 fields; export the scalars as CSV"
        in problem.message
    )


def test_a_folder_of_many_event_files_is_listed_once_and_its_newest_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(30):
        logs.events(tmp_path / f"events.out.tfevents.{step:03}", {step: {"val/acc": 0.5}})
    listed: list[object] = []
    real = os.listdir

    def listdir(folder: Path) -> list[str]:
        listed.append(folder)
        return real(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    monkeypatch.setattr(log_files, "_PARTS", 10)
    (trace,) = scan([tmp_path]).traces
    assert listed == [tmp_path]
    assert list(accuracies(trace)) == list(range(20, 30))
    assert trace.notes[0] == "20 older event files are left out"
    logs.events(tmp_path / "events.out.tfevents.100", {100: {"val/acc": 0.5}})
    assert 100 in accuracies(scan([tmp_path]).traces[0])


def test_a_table_may_have_a_header_of_any_length(tmp_path: Path) -> None:
    names = [f"column_{number}" for number in range(2000)]
    lines = [",".join([*names, "epoch", "acc"]), ",".join(["0"] * 2000 + ["1", "0.5"])]
    trace = read(logs.put(tmp_path / "dfa_s1.csv", "\n".join(lines) + "\n"))
    assert accuracies(trace) == {1: 0.5}


def test_broken_cells_and_rows_are_said_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = logs.put(
        tmp_path / "dfa_s1.csv",
        "epoch,test_acc,note\n1,0.5,x\n2,oops,\n3,nan,\n3,0.75,\n,0.1,\n4,0.8",
    )
    found = scan([path])
    (trace,) = found.traces
    assert accuracies(trace) == {1: 0.5, 3: 0.75}
    assert "logged more than once, the last counts: epoch 3" in trace.notes
    assert trace.unfinished
    said = [problem.message for problem in found.problems]
    assert said == [
        f"{path}: line 6: names no epoch; the epoch is skipped",
        f"{path}: line 3: $.test_acc: Expected `float | null`, got `str`; see `fa-tui schema`; the epoch is skipped",
    ]


def test_runs_of_one_table_are_told_apart_by_method_and_seed(tmp_path: Path) -> None:
    path = logs.put(
        tmp_path / "all.csv", "method,seed,epoch,acc\nBP,1,1,0.5\nDFA,1,1,0.3\nDFA,2,1,0.2\n"
    )
    assert [trace.key for trace in scan([path]).traces] == ["bp_s1", "dfa_s1", "dfa_s2"]


@pytest.mark.parametrize(
    "text",
    [
        "name,step_size\na,1\n",
        "steps to reproduce: first, open it\n1,2\n",
        "epoch;comment\n1;2\n",
        "epoch\n1\n",
    ],
)
def test_other_tables_are_left_alone(tmp_path: Path, text: str) -> None:
    logs.put(tmp_path / "table.csv", text)
    logs.timm(tmp_path / "fa_s1")
    found = scan([tmp_path])
    assert [trace.key for trace in found.traces] == ["fa_s1"]
    assert found.problems == []


def everything(folder: Path) -> Scan:
    logs.lightning(folder / "dfa_s1")
    logs.timm(folder / "fa_s1")
    logs.trainer(folder / "bp_s1")
    logs.events(folder / "ep_s1" / "events.out.tfevents.1", SCALARS)
    lines(folder / "frozen_s1.jsonl", {"epoch": 1, "acc": 0.3})
    logs.put(folder / "bp_s9.json", json.dumps({"residual_norms": [1.0, 2.0], "headline_acc": 0.5}))
    return scan([folder])


def test_a_folder_of_every_kind_is_read_whole(tmp_path: Path) -> None:
    found = everything(tmp_path)
    assert found.problems == []
    assert [row.key for row in found.rows] == ["bp_s9"]
    assert sorted(trace.key for trace in found.traces) == [
        "bp_s1",
        "dfa_s1",
        "ep_s1",
        "fa_s1",
        "frozen_s1",
    ]


def test_positions_that_are_no_numbers_are_said(tmp_path: Path) -> None:
    path = logs.put(
        tmp_path / "a.jsonl",
        '{"epoch": Infinity, "acc": 0.5}\n{"epoch": 1e400, "acc": 0.5}\n{"epoch": 2, "acc": 0.5}\n',
    )
    found = scan([path])
    assert accuracies(found.traces[0]) == {2: 0.5}
    assert [problem.message.split(": ", 2)[1:] for problem in found.problems] == [
        ["line 1", "names no epoch; the epoch is skipped"],
        ["line 2", "names no epoch; the epoch is skipped"],
    ]


def test_names_of_other_things_mean_nothing() -> None:
    for name in (
        "val_loss",
        "top5",
        "eval_top5",
        "hparam",
        "g",
        "h_step",
        "learning",
        "stepsize",
        "accumulate",
    ):
        assert columns_of((name,)) == ({}, {}), name


def test_a_bound_is_the_largest_between_two_layers_that_are_known(tmp_path: Path) -> None:
    """h_0 and h_1 without a gap are not the whole stream where a deeper layer is logged too."""
    entries = [
        {"epoch": 1, "h_0": 1.0, "h_1": 10.0, "h_4": 1e8},
        {"epoch": 2, "h_1": 1.0, "h_2": 1000.0},
    ]
    path = tmp_path / "dfa_s1.jsonl"
    path.write_text("\n".join(map(json.dumps, entries)))
    (trace,) = scan([path]).traces
    assert [epoch.growth_bound for epoch in trace.epochs] == [pytest.approx(1e7 ** (1 / 3)), 1000.0]
    assert [epoch.evidence for epoch in trace.epochs] == [{"a": "bound"}] * 2
    assert trace.epochs[0].residual_norms == [1e8] and trace.epochs[0].layers == {
        "residual_norms": "4"
    }


def test_nan_is_logged_once_and_gamma_per_layer_goes_before_one_number(tmp_path: Path) -> None:
    path = tmp_path / "dfa_s1.jsonl"
    path.write_text(
        '{"epoch": 1, "val_acc": NaN, "gamma_dfa": 0.2, "gamma_0": 0.4, "gamma_1": 0.1}'
    )
    (trace,) = scan([path]).traces
    assert not [note for note in trace.notes if "more than once" in note]
    assert trace.epochs[0].gamma == [0.4, 0.1]


def test_lightnings_hyperparameters_name_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("epoch,step,fa/growth,fa/g_L\n0,9,2.0,0.5\n1,19,3.0,0.4\n")
    (folder / "hparams.yaml").write_text("lr: 0.1\nmethod: DFA\nseed: 7\nnested:\n  seed: 3\n")
    (trace,) = scan([tmp_path]).traces
    assert (trace.method, trace.seed) == ("dfa", 7)


def test_a_folder_of_wandb_says_how_to_export_it(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "run-20261101_120000-abc"
    folder.mkdir(parents=True)
    (folder / "run-abc.wandb").write_bytes(b":W&B\xcd\xd4\x00" + bytes(64))
    (problem,) = scan([tmp_path]).problems
    assert "history().to_csv('log.csv')" in problem.message
