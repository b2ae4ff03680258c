"""Accuracy of a whole network, and without each of its blocks: whether it uses them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.batch_input import IGNORED, as_batches, to_device
from fa_core.measure.diagnose import run_accuracy
from fa_core.measure.gradients import loss_terms
from fa_core.measure.hooks import (
    READS,
    Args,
    first_tensor,
    match_modules,
    read_logits,
    replace_first_tensor,
    tapped,
)
from fa_core.measure.isolate import Inputs, call_model, detached_inputs, eval_mode
from fa_core.measure.loss import is_correct
from fa_core.measure.taps import States, guess_taps
from fa_core.report.provenance import DepthAblation


def accuracy(model: nn.Module, batches: Iterable[object]) -> float:
    """The share of samples that `model` classifies correctly, a fraction in [0, 1].

    Arguments and errors: `run_accuracy`.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.eye_(net.weight)
    >>> accuracy(net, [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([1, 1]))])
    0.75
    """
    right = torch.cat(run_accuracy(model, batches))
    return int(right.sum()) / len(right)


def _run_tapped(
    modules: Sequence[str], model: nn.Module, x: Inputs, without: Collection[int]
) -> States:
    """A network whose modules return the states: block l is the module of h_{l+1}. Or one that adds
    ``h + block(h)``: block l reads h_l, the last module is the readout."""
    stream: list[Tensor] = []
    reading = modules[-1].endswith(READS)

    def tap(name: str, state: Tensor) -> Tensor:
        block = len(stream) - 1
        if not reading and block in without and stream[-1].shape == state.shape:
            state = stream[-1]
        stream.append(state)
        return state

    def exchange(module: nn.Module, args: Args, output: object) -> object:
        branch = first_tensor(output)
        if not reading or len(stream) - 1 not in without or branch is None:
            return None
        return replace_first_tensor(output, torch.zeros_like(branch))

    with tapped(model, modules, tap), ExitStack() as handles:
        for name in modules:
            module = model.get_submodule(name.removesuffix(READS))
            handles.enter_context(module.register_forward_hook(exchange))
        return read_logits(call_model(model, x)), stream


def _states_of(model: nn.Module, taps: str | Sequence[str] | None, x: Inputs) -> list[str]:
    """Modules that read or give the states.

    Raises:
        TapError: names that match nothing, or a network whose stream cannot be guessed.
        UsageError: a mix of inputs and outputs, but for h_0 as an input.
    """
    modules = match_modules(model, guess_taps(model, x) if taps is None else taps)
    first, *reads = [name.endswith(READS) for name in modules]
    if len({*reads}) > 1 or first < modules[-1].endswith(READS):
        raise UsageError(
            "taps at inputs and at outputs",
            hint="name inputs alone, e.g. blocks.*:in,head:in, or outputs after h_0",
        )
    return modules


def depth_ablation(
    model: nn.Module,
    eval_batches: Iterable[object],
    taps: str | Sequence[str] | None = None,
    dtype: str | None = None,
) -> DepthAblation:
    """Accuracy with every block taken out in turn.

    For a stream h_{l+1} = h_l + f_l(h_l), l = 0..L-1, with readout r:

        without block l:     h_{l+1} = h_l

    One forward pass per block; no gradient. Nothing is a verdict: an accuracy that hardly
    falls shows that the other blocks, or the readout, do without this one.

    Args:
        model: any network whose stream can be tapped at modules; left as `diagnose` leaves it.
        eval_batches: as `diagnose` takes them.
        taps: names of modules, as `diagnose` takes them; None = a guess.
        dtype: as `diagnose` takes it.

    Returns:
        Accuracies, fractions.

    Raises:
        TapError: the stream cannot be tapped at modules.
        UsageError: taps at inputs and at outputs.
        MeasureError: batches that cannot be used.

    Source: docs/protocol.md, *Depth without retraining*. Removing blocks: Veit, Wilber and
    Belongie, Residual networks behave like ensembles of relatively shallow networks, NeurIPS 2016.
    """
    batches = as_batches(eval_batches)
    with eval_mode(model, dtype) as net, net.rng.isolated_over(batches):
        ready = [to_device(batch, index, net) for index, batch in enumerate(batches)]
        modules = _states_of(net.model, taps, ready[0][0])

        def measured(without: Collection[int]) -> tuple[float | None, list[Tensor]]:
            """Accuracy, None where the identity does not fit a block; the last batch's stream."""
            hits: list[Tensor] = []
            stream: list[Tensor] = []
            for x, y in ready:
                inputs = detached_inputs(net.model, x)
                logits, stream = _run_tapped(modules, net.model, inputs, without)
                if not all(torch.equal(stream[l], stream[l + 1]) for l in without):
                    return None, stream
                hits.append(is_correct(logits, y)[y != IGNORED])
            right = torch.cat(hits)
            return int(right.sum()) / len(right), stream

        accuracy, stream = measured(())
        assert accuracy is not None, "nothing is taken out"
        blocks = len(stream) - 1
        return DepthAblation(
            accuracy=accuracy,
            accuracy_without=[measured([l])[0] for l in range(blocks)],
            samples=sum(loss_terms(y) for _, y in ready),
        )
