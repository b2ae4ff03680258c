"""Logs: which columns are read, how entries become epochs, and what each number rests on."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fa_core.errors import UnreadableInput, UsageError
from fa_core.formats import event_files, given_columns, scan
from fa_core.formats import logs as of_logs
from fa_core.formats.log_columns import DOCUMENTED, LAST, columns_of
from tests.fa_core.formats import logs


def read(path, columns=""):
    found = scan([path], columns=given_columns(columns.split(",") if columns else []))
    assert found.problems == []
    (trace,) = found.traces
    return trace


def accuracies(trace):
    return {epoch.epoch: epoch.test_acc for epoch in trace.epochs}


def evidence(path, **entry):
    (epoch,) = read(logs.lines(path, {"epoch": 1, **entry})).epochs
    return epoch.residual_norms, epoch.bp_grad_norms, epoch.growth_bound, epoch.evidence


@pytest.mark.parametrize("layers", [(1, 2), (0, 1, 2, 10), (10,)])
def test_norms_of_which_some_lack_are_not_said_to_be_one_alone(tmp_path, layers):
    norms = {f"fa/h_{layer}": 1.0 for layer in layers}
    (epoch,) = read(logs.lines(tmp_path / "a.jsonl", {"epoch": 1, **norms})).epochs
    said = (
        f"not each of ‖h_0‖ … ‖h_L‖ is logged: a bound on growth from ‖h_{layers[-1]}‖ needs --h0"
    )
    assert epoch.unmeasured["a"].startswith(said)


def test_every_documented_name_is_read_and_no_other():
    for field, names in DOCUMENTED.items():
        for name in names:
            layer = 3 if "*" in name else None
            column = name.replace("*", "3")
            place = {"h_L": ("residual_norms", LAST), "g_L": ("bp_grad_norms", LAST)}.get(field)
            assert columns_of([column], {}) == {column: place or (field, layer)}
    others = "acc accuracy val_acc test-acc Test_Acc growth h_3 h_L g_norm h__norm gamma_0 fa/h_x"
    assert columns_of(others.split(), {}) == {}
    names = ["step", "test_acc", "fa/acc", "fa/step"]
    assert columns_of(names, {}) == {"fa/step": ("step", None), "fa/acc": ("test_acc", None)}


def test_a_given_column_is_read_and_its_layers_in_natural_order(tmp_path):
    layers = {f"norms/h_{layer}": 2.0**layer for layer in (10, *range(1, 10))}
    path = logs.lines(tmp_path / "dfa_s1.jsonl", {"_step": 5, "val/acc": 0.5, **layers})
    with pytest.raises(UnreadableInput, match="no column has a name that is read"):
        scan([path])
    trace = read(path, "step=_step,acc=val/acc,h=norms/h_*")
    assert (trace.unit, accuracies(trace)) == ("step", {5: 0.5})
    assert trace.epochs[0].residual_norms == [2.0**layer for layer in range(1, 11)]
    assert not trace.epochs[0].evidence
    other = logs.lines(tmp_path / "a.jsonl", {"epoch": 1, "test_acc": 0.5})
    assert accuracies(read(other, "acc=val/acc")) == {1: 0.5}


@pytest.mark.parametrize(
    ("logged", "epochs", "read_of"),
    [
        ([0, 3], 100, 100),
        ([0, 128], 2, 0),
        (range(0, 320, 64), 2, 2),
        (range(0, 320, 64), 4, 0),
        (range(300), 4, 4),
    ],
)
def test_gamma_of_few_layers_has_a_limit_over_all_runs_of_a_log(
    tmp_path, monkeypatch, logged, epochs, read_of
):
    monkeypatch.setattr(of_logs, "_MOST_LAYERS", 1000)
    gamma = ",1" * len(logged)
    rows = [f"{epoch % 2},{epoch},.5{gamma}" for epoch in range(epochs)]
    heads = "".join(f",gamma_{layer}" for layer in logged)
    logs.put(tmp_path / "a.csv", "\n".join([f"seed,epoch,test_acc{heads}", *rows, ""]))
    found = scan([tmp_path], columns=given_columns(["gamma=gamma_*"]))
    gammas = [epoch.gamma for trace in found.traces for epoch in trace.epochs]
    assert all("few of them logged" in problem.message for problem in found.problems)
    assert len(gammas) == read_of
    assert set(map(len, gammas)) <= {logged[-1] + 1}


@pytest.mark.parametrize("item", ["acc", "acc=", "x=y", "acc=a_*", "h=*_*", ""])
def test_a_given_column_that_cannot_be_meant_is_refused(item):
    with pytest.raises(UsageError, match="--columns"):
        given_columns([item])


def test_a_log_of_other_names_gets_one_line_with_them_escaped_and_bounded(tmp_path):
    names = ["epoch", "\x1b[2J", "x" * 90, *map(str, range(30))]
    table = logs.put(tmp_path / "a.csv", ",".join(names) + "\n" + "1," * 33 + "\n")
    logs.lines(tmp_path / "b.jsonl", *[{"epoch": 1, "val_acc": 0.5}] * 2)
    logs.put(tmp_path / "README.md", "Accuracy, one line per epoch\n")
    problems = [problem.message for problem in scan([tmp_path]).problems]
    assert len(problems) == 2
    assert "no column has a name that is read: epoch, \\x1b[2J, xxxx" in problems[0]
    assert "x" * 41 not in problems[0] and "and 21 more" in problems[0]
    assert "read: epoch, val_acc; name them, --columns acc=val_acc" in problems[1]
    assert "h_norms" in problems[1]
    with pytest.raises(UnreadableInput, match="no column"):
        scan([table])


@pytest.mark.parametrize(
    "text", ["name,step_size\na,1\n", "steps to see: one, two\n1,2\n", "epoch\n1\n"]
)
def test_other_tables_in_a_folder_are_left_alone(tmp_path, text):
    logs.put(tmp_path / "table.csv", text)
    logs.lines(tmp_path / "fa_s1.jsonl", {"epoch": 1, "test_acc": 0.5})
    found = scan([tmp_path])
    assert ([trace.key for trace in found.traces], found.problems) == (["fa_s1"], [])


READ = """
epoch,test_acc|1,.25|2,.5                                       {1: 0.25, 2: 0.5}
,epoch,test_acc|7,1,.25|8,2,.5                                  {1: 0.25, 2: 0.5}
Unnamed: 0,epoch,test_acc|7,1,.25                               {1: 0.25}
"epoch";"test_acc"|"1";"0.25"                                   {1: 0.25}
epoch\ttest_acc|1\t0.25                                         {1: 0.25}
epoch,test_acc|3,.5|2,.25|1,.125                                {1: 0.125, 2: 0.25, 3: 0.5}
epoch,test_acc|1,.1|2,.2|3,.3|4,.4|2,.25|3,.5                   {1: 0.1, 2: 0.25, 3: 0.5}
epoch,loss,test_acc|1,2,|2,1,|1,,.25|2,,.5                      {1: 0.25, 2: 0.5}
epoch,test_acc,x|1,.25,9|epoch,x,test_acc|2,9,.5                {1: 0.25, 2: 0.5}
epoch,test_acc,loss|1,.25,|1,nan,2|1,NA,1|1,None,|1,-,          {1: 0.25}
fa/step,loss,fa/acc|nan,2,nan|10,nan,.25|,1,|20,,.5             {10: 0.25, 20: 0.5}
epoch,test_acc,x,x|1,.25,1,2                                    {1: 0.25}
{"epoch": "1", "test_acc": "0.25"}|{"epoch": "1", "test_acc": "NA"} {1: 0.25}
[{"epoch": 1, "test_acc": 0.25}, {"epoch": 2, "test_acc": 0.5}]   {1: 0.25, 2: 0.5}
epoch,test_acc|1,"0,25"                                         test_acc is '0,25', not a number
epoch;test_acc|1;0,25                                           test_acc is '0,25', not a number
epoch,test_acc|1,25%                                            test_acc is '25%', not a number
step,test_acc|"1,000",.25                                       step is '1,000', not a number
{"epoch": [1, 2], "test_acc": [0.1, 0.2]}                       epoch is '[1, 2]', not a number
{"epoch": 1, "test_acc": 0.5, "residual_norms": 2.0}            $.residual_norms: Expected
{"epoch": 1, "test_acc": 0.5, "residual_norms": {"a": 1.0}}     $.residual_norms: Expected
epoch,test_acc|1,0,25                                           line 2: 3 cells under 2 headings
epoch,test_acc,test_acc|1,.25,.5                                test_acc heads two columns
test_acc,loss|.25,1                                             no column is named epoch or step
epoch,val_acc|1,.25                                             no column has a name that is read
"""
"""A log with | between lines, and its accuracies, or what is said of it."""


@pytest.mark.parametrize("line", READ.strip().splitlines())
def test_what_is_logged_is_read_or_named_for_what_it_is(tmp_path, line):
    text, expected = map(str.strip, re.split(r"  +| (?={1: 0.25}$)", line, maxsplit=1))
    text = text.replace("|", "\n").replace("\\t", "\t") + "\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"):
        path = tmp_path / "dfa_s1.csv"
        path.write_text(text, encoding=encoding)
        if expected.startswith("{"):
            assert str(accuracies(read(path))) == expected
        else:
            with pytest.raises(UnreadableInput) as refusal:
                scan([path])
            assert expected in str(refusal.value)


def test_broken_cells_and_rows_are_said_and_the_rest_is_kept(tmp_path):
    text = "epoch,test_acc,note\n1,0.5,x\n2,oops,\n3,0.7,\n3,0.75,\n,0.1,\n5,61,\n7\n4,0.8"
    path = logs.put(tmp_path / "dfa_s1.csv", text)
    found = scan([path])
    (trace,) = found.traces
    assert (accuracies(trace), trace.unfinished) == ({1: 0.5, 3: 0.75}, True)
    assert trace.notes == (
        "logged more than once, the last counts: epoch 3",
        "logged, not used: note",
    )
    short, wrong, skipped, percent = (problem.message for problem in found.problems)
    assert short == f"{path}: line 8: fewer cells than headings; the row is skipped"
    assert "line 3: test_acc is 'oops', not a number" in wrong
    assert skipped == f"{path}: line 6: no epoch; the entry is skipped"
    assert "line 7: headline_acc is 61.0; accuracies are fractions: divide by 100" in percent


@pytest.mark.parametrize("other", ["test_acc", "loss"])
def test_what_a_log_held_before_it_went_back_is_said_and_left_out_in_all_columns(other, tmp_path):
    again = "logged more than once, the last counts: epoch 2"
    back = "logged before the log went back, left out: epoch 2, 3"
    for epochs, *notes in (((1, 2, 3, 2), again, back), ((1, 2, 3, 2, 3), f"{again}, 3", back)):
        rows = [{"epoch": epoch, "test_acc": 0.5, "loss": 1.0} for epoch in epochs]
        rows[3][other] = 0.25
        rows[1]["fa/g_L"] = rows[2]["fa/g_L"] = 1e-9
        trace = read(logs.lines(tmp_path / "a.jsonl", *rows))
        assert list(trace.notes) == notes
        assert not any(one.bp_grad_norms for one in trace.epochs)


def test_a_log_in_two_passes_is_one(tmp_path):
    passes = [{"fa/frozen_acc": 0.49}, {"fa/g_L": 1e-3}]
    rows = [{"epoch": at, "test_acc": 0.5, **own} for own in passes for at in (1, 2)]
    *_, last = read(logs.lines(tmp_path / "a.jsonl", *rows)).epochs
    assert (last.frozen_baseline_acc, last.bp_grad_norms) == (0.49, [1e-3])


def test_a_last_norm_that_is_none_of_the_list_counts_alone(tmp_path):
    for last, norms in ((1, [1, 1, 1]), (200, [200])):
        found, *_ = evidence(tmp_path / "a.jsonl", h_norms=[1, 1, 1], **{"fa/h_L": last})
        assert found == norms


def test_entries_are_numbered_by_step_where_epochs_do_not_number_them(tmp_path):
    halves = [{"epoch": step / 20, "step": step, "fa/acc": 0.5} for step in (10, 20)]
    own = [{"epoch": 0, "step": at, "fa/step": 10 * at, "fa/acc": 0.5} for at in (1, 2)]
    for number, entries in enumerate((halves, own)):
        trace = read(logs.lines(tmp_path / f"{number}_s1.jsonl", *entries))
        assert (trace.unit, list(accuracies(trace))) == ("step", [10, 20])


def test_runs_of_one_log_are_told_apart(tmp_path):
    path = logs.put(
        tmp_path / "all.csv", "method,seed,epoch,test_acc\nBP,1,1,0.5\nDFA,1,1,0.3\nDFA,2,1,0.2\n"
    )
    named = [{"run": name, "epoch": 1, "test_acc": 0.5} for name in ("ep_lam0.1_s1", "fa_s1")]
    for lam in (0.0, 0.5):
        named.append({"method": "fa", "seed": 2.0, "lam": lam, "epoch": 1, "test_acc": 0.5})
    found = scan([path, logs.lines(tmp_path / "runs.jsonl", *named)]).traces
    assert [(trace.key, trace.method, trace.seed) for trace in found] == [
        *(("bp_s1", "bp", 1), ("dfa_s1", "dfa", 1), ("dfa_s2", "dfa", 2)),
        *(("ep_lam0.1_s1", "ep", 1), ("fa_s1", "fa", 1)),
        *(("fa_lam0_s2", "fa", 2), ("fa_lam0.5_s2", "fa", 2)),
    ]
    assert [trace.axes for trace in found[3:]] == [{"lam": 0.1}, {}, {"lam": 0}, {"lam": 0.5}]
    assert not any("lam" in note for trace in found for note in trace.notes)


def test_layers_in_columns_of_their_own_are_the_stream_or_a_proxy(tmp_path):
    path = tmp_path / "dfa_s1.jsonl"
    h = {"fa/h_0": 1.0, "fa/h_1": 3.0, "fa/h_2": 6.0}
    g = {"fa/g_0": 1.0, "fa/g_1": 0.5, "fa/g_2": 0.25}
    whole = ([1.0, 3.0, 6.0], [1.0, 0.5, 0.25], None, {})
    assert evidence(path, **h, **g) == whole
    assert evidence(path, **h, **g, **{"fa/h_L": 6.0, "fa/g_L": 0.25}) == whole
    part = {"h_0_norm": 1.0, "h_3_norm": 8.0, "g_2_norm": 0.25}
    assert evidence(path, **part) == ([8.0], [0.25], None, {"b": "proxy"})
    for first in ({"fa/h_0": 1.0, "fa/h_1": 3.0}, {"h_norms": [1.0, 3.0]}):
        few = evidence(path, **first, g_4_norm=1e-12, g_L_norm=0.25)
        assert few == ([3.0], [0.25], None, {}), "of the first layers alone"
    deep = {"fa/h_L": 16.0, "fa/g_L": 0.5, "fa/growth": 4.0}
    assert evidence(path, **deep) == ([16.0], [0.5], 4.0, {})
    assert evidence(path, **h, **{"fa/growth": 3.0})[2] == 3.0
    with pytest.raises(UnreadableInput, match="growth_bound is above the growth of its norms"):
        evidence(path, **h, **{"fa/growth": 200.0})


STREAM = {"fa/h_0": 1.0, "fa/h_1": 3.0, "fa/h_2": 6.0, "fa/g_0": 1.0, "fa/g_1": 0.5, "fa/g_2": 2.0}
H, G = [1.0, 3.0, 6.0], [1.0, 0.5, 2.0]
GAPS = "norms of some layers are not logged, those of others not used: epoch 2"


@pytest.mark.parametrize(
    ("lost", "h", "g"),
    [
        ("fa/h_2 fa/g_2", [], []),
        ("fa/g_2", H, []),
        ("fa/g_1 fa/g_2", H, []),
        ("fa/h_1", [6.0], G),
        ("fa/h_0", [6.0], G),
        ("fa/h_2 and fa/h_L", [6.0], G),
        ("fa/h_L and fa/h_L", [], G),
    ],
)
def test_of_a_stream_that_a_log_has_elsewhere_no_part_is_taken_for_all(tmp_path, lost, h, g):
    norms = STREAM | ({"fa/h_L": 6.0} if "and" in lost else {})
    gone = lost.partition(" and")[0].split()
    left = {name: norm for name, norm in norms.items() if name not in gone}
    first, second = {"epoch": 1, **norms}, {"epoch": 2, **left}
    rows = first, first.values(), (second.get(name, "") for name in first)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    for path in (
        logs.lines(tmp_path / "a_s1.jsonl", first, second),
        logs.lines(tmp_path / "b_s1.jsonl", first, {**second, **dict.fromkeys(gone)}),
        logs.put(tmp_path / "c_s1.csv", text),
        logs.events(tmp_path / "d_s1" / "events.out.tfevents.1", {1: norms, 2: left}),
    ):
        trace = read(path)
        whole, part = trace.epochs
        assert (whole.residual_norms, whole.bp_grad_norms) == (H, G)
        assert (part.residual_norms, part.bp_grad_norms) == (h, g)
        assert trace.notes == (GAPS,)


def test_layers_at_steps_of_their_own_are_no_streams(tmp_path):
    first = {"fa/h_0": 1.0, "fa/h_1": 1.0}
    steps = {10: first, 11: {"fa/h_2": 100.0}, 20: first, 21: {"fa/h_2": 100.0}}
    trace = read(logs.events(tmp_path / "events.out.tfevents.1", steps))
    assert [epoch.residual_norms for epoch in trace.epochs] == [[], [100.0], [], [100.0]]


@pytest.mark.parametrize(("deeper", "h"), [("", []), ("2,1,.5,1,2,3\n", [1.0, 2.0])])
def test_a_column_that_no_row_fills_is_a_layer_unless_it_is_another_runs(tmp_path, deeper, h):
    text = f"seed,epoch,fa/acc,fa/h_0,fa/h_1,fa/h_2\n1,1,.5,1,2,\n{deeper}"
    first, *_ = scan([logs.put(tmp_path / "dfa.csv", text)]).traces
    assert first.epochs[0].residual_norms == h


def test_a_trainers_history_is_a_trace_and_its_last_state_is_the_run(tmp_path):
    for epochs in (1, 2, 10):
        logs.trainer(tmp_path / "dfa_s5" / f"checkpoint-{10 * epochs}", epochs)
    (trace,) = scan([tmp_path]).traces
    assert (trace.method, trace.seed, trace.unit) == ("dfa", 5, "epoch")
    assert accuracies(trace) == {epoch: epoch / 100 for epoch in range(1, 11)}
    assert trace.epochs[0].loss == 2.0
    assert trace.notes == ("logged, not used: grad_norm, eval_accuracy",)
    logs.trainer(tmp_path / "dfa_s5", 11)
    assert [len(trace.epochs) for trace in scan([tmp_path]).traces] == [11]
    for folder in ("best", "last"):
        logs.lines(tmp_path / "dfa_s6" / folder / "a.jsonl", {"epoch": 1, "test_acc": 0.5})
    assert len(scan([tmp_path / "dfa_s6"]).traces) == 2, "other logs are of runs of their own"


SCALARS = {
    0: {"hp_metric": -1.0},
    390: {"epoch": 0.0, "fa/acc": 0.5, "train/loss": 2.0},
    780: {"epoch": 1.0, "fa/acc": 0.25},
}


@pytest.mark.parametrize("tensors", [False, True])
def test_tensorboard_scalars_are_a_trace(tmp_path, tensors):
    path = logs.events(tmp_path / "dfa_s4" / "events.out.tfevents.1.host", SCALARS, tensors)
    trace = read(path)
    assert (trace.key, trace.method, trace.seed) == ("dfa_s4", "dfa", 4)
    assert accuracies(trace) == {0: 0.5, 1: 0.25}
    assert [epoch.step for epoch in trace.epochs] == [390, 780]
    assert trace.notes == ("logged, not used: hp_metric, train/loss",)
    data = path.read_bytes()
    for cut in (1, 10, 40):
        path.write_bytes(data[:-cut])
        assert accuracies(read(path)) == {0: 0.5}


@pytest.mark.parametrize("newest", ["empty", "backup", "folder", "junk"])
def test_event_files_of_a_run_that_was_started_again_are_one_run(tmp_path, newest):
    run = tmp_path / "dfa_s4"
    scalars = {1: {"fa/acc": 0.1}, 2: {"fa/acc": 0.2}, 4: {"fa/g_L": 0.1}}
    first = logs.events(run / "events.out.tfevents.100.a", scalars)
    logs.events(run / "events.out.tfevents.200.b", {2: {"fa/acc": 0.5}, 3: {"fa/acc": 0.75}})
    last = run / ("events.out.tfevents.300.c" + ("~" if newest == "backup" else ""))
    if newest == "folder":
        last.mkdir()
    else:
        last.write_bytes({"empty": b"", "backup": first.read_bytes(), "junk": b"none"}[newest])
    for places in ([tmp_path], [first], sorted(run.glob("*.?"))):
        (trace,) = scan(places).traces
        assert accuracies(trace) == pytest.approx({1: 0.1, 2: 0.5, 3: 0.75})


def test_event_files_go_back_by_the_loss_too_and_say_so(tmp_path):
    first = {1: {"loss": 2.0}, 2: {"fa/acc": 0.4}, 3: {"loss": 1.0}, 4: {"fa/acc": 0.6}}
    logs.events(tmp_path / "dfa_s1/events.out.tfevents.1", first)
    logs.events(tmp_path / "dfa_s1/events.out.tfevents.2", {3: {"loss": 9.0, "fa/acc": 0.1}})
    trace = read(tmp_path / "dfa_s1")
    assert accuracies(trace) == pytest.approx({1: None, 2: 0.4, 3: 0.1})
    assert "logged before the log went back, left out: epoch 4" in trace.notes


def test_folders_below_a_runs_events_are_parts_of_it_unless_they_name_a_run(tmp_path):
    run, file = tmp_path / "dfa_s1", "events.out.tfevents.1"
    logs.events(run / file, {1: {"fa/acc": 0.5}})
    logs.events(run / "acc_val" / file, {1: {"acc": 0.25}})
    logs.events(run / "bp_s1" / file, {1: {"fa/acc": 0.75}})
    logs.events(tmp_path.with_name(f"{tmp_path.name}_beside") / file, {1: {"fa/acc": 1.0}})
    (run / "val").symlink_to(tmp_path.with_name(f"{tmp_path.name}_beside"))
    found = {trace.key: trace for trace in scan([tmp_path]).traces}
    assert found.keys() == {"dfa_s1", "bp_s1"}
    assert found["dfa_s1"].notes == ("logged, not used: acc_val/acc",)
    assert accuracies(read(run / "acc_val", "acc=acc")) == {1: 0.25}
    (problem,) = scan([run / "acc_val"]).problems
    assert "no column has a name that is read: step, acc" in problem.message


def test_steps_that_a_restarted_writer_purges_are_void(tmp_path):
    first = {step: {"fa/acc": step / 8} for step in (1, 2, 3, 4)}
    logs.events(tmp_path / "events.out.tfevents.1", first)
    logs.events(tmp_path / "events.out.tfevents.2", {3: None, 5: {"fa/acc": 0.75}})
    assert accuracies(read(tmp_path)) == {1: 0.125, 2: 0.25, 5: 0.75}


def test_what_is_read_of_event_files_has_a_limit_in_all(tmp_path, monkeypatch):
    for part in range(3):
        logs.events(tmp_path / f"events.out.tfevents.{part}", {part: {"fa/acc": 0.5}})
    assert len(scan([tmp_path]).traces[0].epochs) == 3
    monkeypatch.setattr(event_files, "_MOST_BYTES", 100)
    (problem,) = scan([tmp_path]).problems
    assert "export the scalars as CSV" in problem.message


def test_loggers_own_files_are_refused_with_what_to_export(tmp_path):
    path = tmp_path / "mlflow.db"
    photos = tmp_path / "photos.db"
    for place, table in ((path, "metrics"), (photos, "photos")):
        with closing(sqlite3.connect(place)) as base:
            base.execute(f"CREATE TABLE {table} (key TEXT, value FLOAT, step BIGINT)")
    (tmp_path / "run-abc.wandb").write_bytes(b":W&B\xcd\xd4\x00" + bytes(64))
    found = scan([tmp_path]).problems
    assert [Path(problem.path).name for problem in found] == ["mlflow.db", "run-abc.wandb"]
    assert "history().to_csv('log.csv')" in found[1].message
    with pytest.raises(UnreadableInput, match=r"SQLite database.* export each run as CSV"):
        scan([photos])
