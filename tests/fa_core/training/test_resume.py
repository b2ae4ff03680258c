"""An interrupted run goes on to the weights it would have reached anyway."""

import json
import sys
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file

from fa_core.errors import UnreadableInput, UsageError
from fa_core.report.manifest import (
    AUDIT,
    CREDIT,
    RESUME,
    TRACE,
    WEIGHTS,
)
from fa_core.training import train as run_module

from .conftest import Interrupt, plan, trained

KINDS = {
    "dfa": {"recipe": {"lam": 1e-3}},
    "random_targets": {"method_args": {"of": "credit_bridge"}},
    # rules with state of their own: noise, a second forward pass
    **{name: {} for name in ("dtp", "ff")},
}


def tensors_of(folder):
    files = [path for path in (folder / WEIGHTS, folder / CREDIT) if path.exists()]
    return {
        f"{path.name}:{name}": tensor for path in files for name, tensor in load_file(path).items()
    }


def trace_of(folder):
    lines = [json.loads(line) for line in (folder / TRACE).read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def assert_same_run(one, other):
    left, right = tensors_of(one), tensors_of(other)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert trace_of(one) == trace_of(other)


def interrupted(data, folder, *of, epoch=2, **changes):
    """A run that Ctrl-C ends in this epoch."""
    with pytest.raises(KeyboardInterrupt):
        trained(plan(*of, **changes), data, folder, progress=Interrupt(epoch))


@pytest.mark.parametrize("method", KINDS)
def test_a_resumed_run_reaches_the_same_weights(data, tmp_path, method):
    trained(plan(method, **KINDS[method]), data, tmp_path / "whole")
    interrupted(data, tmp_path / "cut", method, epoch=3, **KINDS[method])
    done = trained(plan(method, **KINDS[method]), data, tmp_path / "cut", resume=True)
    assert done.manifest.epochs_done == 4
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("dies_in", ["weights", "trace", "manifest"])
def test_a_kill_between_two_files_of_an_epoch_loses_that_epoch_only(
    data, tmp_path, monkeypatch, dies_in
):
    writer = run_module.RunWriter
    write, epochs = getattr(writer, dies_in), []

    def dying(self, *args):
        write(self, *args)
        epochs.append(dies_in)
        if len(epochs) == 3:
            raise SystemExit("killed")

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(writer, dies_in, dying)
        trained(plan("credit_bridge"), data, tmp_path / "cut")
    trained(plan("credit_bridge"), data, tmp_path / "cut", resume=True)
    trained(plan("credit_bridge"), data, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_run_killed_before_its_audit_gets_it(data, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(run_module, "audit_run", lambda *args: sys.exit("killed"))
        trained(plan(), data, tmp_path)
    assert not (tmp_path / AUDIT).exists()
    trained(plan(), data, tmp_path, resume=True)
    assert (tmp_path / AUDIT).exists() and not (tmp_path / RESUME).exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"recipe": {"lr": 1e-3}}, "has recipe"),
        ({"seed": 7}, "has seed 42, not 7"),
        ({"arch_args": {"d": 10, "L": 2}}, "has arch_args"),
    ],
)
def test_a_run_is_only_resumed_as_what_it_is(data, tmp_path, change, told):
    interrupted(data, tmp_path)
    with pytest.raises(UsageError, match=f"the run there {told}"):
        trained(plan(**change), data, tmp_path, resume=True)


@pytest.mark.parametrize("done", [-5, 0.5, "1", 2, 10**9])
def test_no_more_epochs_are_done_than_the_trace_has(data, tmp_path, done):
    interrupted(data, tmp_path)
    saved = torch.load(tmp_path / RESUME, weights_only=False)
    saved["state"]["epochs_done"] = done
    torch.save(saved, tmp_path / RESUME)
    with pytest.raises(UnreadableInput, match="cannot resume from it"):
        trained(plan(), data, tmp_path, resume=True)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["{}", "{}", "{}"], "1 of the 3 lines"),
        (["3", "{}"], "0 of the 2 lines"),
        ([], "0 of the 0 lines"),
    ],
)
def test_a_trace_that_is_not_of_the_run_is_refused(data, tmp_path, lines, why):
    interrupted(data, tmp_path)
    (tmp_path / TRACE).write_text("\n".join(lines))
    with pytest.raises(UnreadableInput, match=f"1 of 4 .* and {why} of trace"):
        trained(plan(), data, tmp_path, resume=True)


def test_an_optimizer_goes_on_by_the_recipe_and_from_its_own_state_alone(data, tmp_path):
    def changed(**fields):
        return lambda saved: saved["optimizer"]["state"][0].update(fields)

    folders = [tmp_path / name for name in ("whole", "cut", "text", "shape", "type", "less")]
    trained(plan("state_bridge"), data, folders[0])
    for folder, change in zip(
        folders[1:],
        [
            lambda saved: saved["optimizer"]["param_groups"][0].update(lr=9.0, betas=(2, "x")),
            lambda saved: saved.update(steps="x"),
            changed(exp_avg=torch.ones(3)),
            changed(step="x"),
            lambda saved: saved["optimizer"]["state"][0].pop("exp_avg"),
        ],
        strict=True,
    ):
        interrupted(data, folder, "state_bridge")
        saved = torch.load(folder / RESUME, weights_only=False)
        change(saved["state"]["training"])
        torch.save(saved, folder / RESUME)
        refused = folder != folders[1]
        with pytest.raises(UnreadableInput, match="cannot resume") if refused else nullcontext():
            trained(plan("state_bridge"), data, folder, resume=True)
    assert_same_run(*folders[:2])


@pytest.mark.parametrize("broken", [b"", b"PK\x03\x04cut", None])
def test_a_lost_or_broken_resume_file_says_what_to_do(data, tmp_path, broken):
    interrupted(data, tmp_path)
    (tmp_path / RESUME).unlink() if broken is None else (tmp_path / RESUME).write_bytes(broken)
    with pytest.raises(UnreadableInput, match=r"resume\.pt: cannot resume from it .*--overwrite"):
        trained(plan(), data, tmp_path, resume=True)
