"""A run folder from start to finish: what is in it, and when a run ends early."""

import json
import math

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from fa_core.errors import MeasureError, UsageError
from fa_core.formats import scan
from fa_core.formats.frozen_runs import with_baselines
from fa_core.formats.rows import row_of_manifest
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import (
    AUDIT,
    CREDIT,
    MANIFEST,
    TRACE,
    WEIGHTS,
    read_manifest,
)
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.training.plan import Order
from fa_core.training.runs import check_orders
from fa_core.training.train import threads_for
from fa_core.zoo.methods import restore_method
from fa_core.zoo.models import build
from tests.json_files import json_of

from .conftest import plan, trained


def trace_of(folder):
    return [json.loads(line) for line in (folder / TRACE).read_text().splitlines()]


def test_a_finished_run_holds_what_reading_it_needs_and_nothing_else(data, tmp_path):
    done = trained(plan(), data, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {MANIFEST, WEIGHTS, CREDIT, TRACE, AUDIT}
    manifest = read_manifest(tmp_path)
    assert (manifest.epochs_done, manifest.data_hash, manifest.stopped) == (4, data.hash, None)
    net = build(manifest.arch, **manifest.arch_args)
    net.load_state_dict(load_file(tmp_path / WEIGHTS))
    method = restore_method(
        manifest.method, net, load_file(tmp_path / CREDIT), **manifest.method_args
    )
    logits, stream = net(data.test_x[:4], return_hidden=True)
    credit = method.credit(net, stream, logits, data.test_y[:4])
    assert [a.shape for a in credit] == [h.shape for h in stream]
    lines = trace_of(tmp_path)
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert {"loss", "test_acc", "cross_batch_stability", "gamma", "seconds"} <= set(line)
        assert len(line["residual_norms"]) == len(line["bp_grad_norms"]) == len(line["gamma"]) == 3
    recorded = DiagnosticReport.from_dict(json_of(tmp_path / AUDIT))
    assert recorded.residual_norms == lines[-1]["residual_norms"] == done.report.residual_norms
    assert recorded.headline_acc == manifest.headline_acc


def test_a_seed_decides_the_weights_and_the_callers_generator_is_left_alone(data, tmp_path):
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first = trained(plan(seed=1), data, tmp_path / "a")
    assert torch.equal(torch.rand(1), expected)
    again = trained(plan(seed=1), data, tmp_path / "b")
    other = trained(plan(seed=2), data, tmp_path / "c")
    weights = [load_file(run.folder / WEIGHTS)["out_head.weight"] for run in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_run_is_judged_by_the_frozen_run_beside_it_if_that_can_be_read(data, tmp_path):
    frozen = trained(plan("frozen"), data, tmp_path / "frozen_s42")
    alone = trained(plan("bp"), data, tmp_path / "bp_s42")
    assert alone.report.frozen_baseline_acc == frozen.manifest.headline_acc
    assert ("d" in alone.report.coverage, "d" in frozen.report.coverage) == (True, False)
    assert alone.report.provenance["frozen_baseline_from"] == "frozen_s42"
    (frozen.folder / AUDIT).write_text("{")
    (judged,) = with_baselines([row_of_manifest(alone.manifest, str(alone.folder))])
    assert (
        "frozen_s42 its audit cannot be read, or is of another run: mend, measure"
        in judged.report.unmeasured["d"]
    )


@pytest.mark.parametrize(
    ("method", "letters", "stopped", "epochs"),
    [
        ("dfa", "a", "(a) fired at epoch 1 of 4: 75 % of the epochs saved", 1),
        ("dfa", "b", None, 4),
        ("frozen", "a", None, 4),
    ],
)
def test_stop_on_ends_a_run_where_the_letter_fires_but_never_frozen_blocks(
    data, tmp_path, method, letters, stopped, epochs
):
    low = DiagnosticThresholds(h_norm_explosion_ratio=0.1)
    done = trained(plan(method), data, tmp_path, stop_on=letters, thresholds=low)
    assert (done.manifest.stopped, done.manifest.epochs_done) == (stopped, epochs)
    assert len(trace_of(tmp_path)) == epochs
    assert (tmp_path / AUDIT).exists() and "a" in done.report.flags


def test_no_run_ends_by_d_which_its_epochs_do_not_judge(data, tmp_path):
    """Its baseline is of the end of a training."""
    with pytest.raises(UsageError, match="stop on a, b or c"):
        trained(plan(), data, tmp_path, stop_on="ad")
    for method in ("frozen", "dfa"):
        trained(plan(method), data, tmp_path / method)
    assert all("frozen_baseline_acc" not in entry for entry in trace_of(tmp_path / "dfa"))


def test_a_diverging_run_stops_and_is_audited_as_non_finite(data, tmp_path):
    done = trained(plan("bp", recipe={"lr": 1e30, "optimizer": "sgd"}), data, tmp_path)
    assert done.manifest.stopped.startswith("diverged: the loss is ")
    assert done.manifest.epochs_done == 1
    assert math.isnan(trace_of(tmp_path)[0]["loss"])
    (row,) = scan([tmp_path]).rows
    assert {"a", "b"} <= row.report.flags
    assert row.report.nonfinite


def test_a_run_that_is_there_is_not_touched_unless_asked(data, tmp_path):
    trained(plan(), data, tmp_path)
    before = (tmp_path / WEIGHTS).read_bytes()
    with pytest.raises(UsageError, match="there is a run already; add --resume or --overwrite"):
        trained(plan(), data, tmp_path)
    assert trained(plan(), data, tmp_path, resume=True).report is None
    assert (tmp_path / WEIGHTS).read_bytes() == before
    trained(plan(recipe={"epochs": 1}), data, tmp_path, overwrite=True)
    assert read_manifest(tmp_path).epochs_done == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"arch": "vit_mini", "arch_args": {}},
            r"takes square images .* gives samples of shape \(6,\)",
        ),
        ({"arch_args": {"depth": 2}}, "unknown argument of resmlp 'depth'"),
        (
            {"method": "random_targets", "method_args": {"variant": "x"}},
            "unknown option of bp",
        ),
        (
            {"recipe": {"batch_size": 1000}},
            "a batch of 1000 is larger than the 320 training samples",
        ),
    ],
)
def test_a_plan_that_cannot_be_trained_is_refused_before_anything_is_written(
    data, tmp_path, change, message
):
    changes = dict(change)
    with pytest.raises(UsageError, match=message):
        wrong = plan(str(changes.pop("method", "dfa")), **changes)
        check_orders([Order(plan=plan()), Order(plan=wrong)], data, tmp_path)
    assert not list(tmp_path.iterdir())


def test_small_networks_of_vectors_are_trained_on_one_thread(data):
    small, wide = plan("bp"), plan("dfa")
    wide = msgspec.structs.replace(wide, arch_args={**wide.arch_args, "d": 700})
    assert threads_for([small], data) == 1
    assert threads_for([small, wide], data) is None


@pytest.mark.parametrize("when", ["checked", "trained"])
def test_a_network_larger_than_memory_is_one_line(when, data, tmp_path, monkeypatch):
    def full(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    for module in ("train", "runs"):
        monkeypatch.setattr(f"fa_core.training.{module}.Training", full)
    with pytest.raises(MeasureError, match=r"dfa_s42: out of memory: .*; free the device"):
        if when == "checked":
            check_orders([Order(plan=plan())], data, tmp_path)
        else:
            trained(plan(), data, tmp_path / "dfa_s42")
