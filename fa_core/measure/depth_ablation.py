"""Whether a network uses its blocks: its accuracy without each of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.facts.measurements import DepthAblation
from fa_core.measure.accuracy import is_correct
from fa_core.measure.batch_input import as_batches, to_device
from fa_core.measure.gradients import IGNORED
from fa_core.measure.guess import guess_taps
from fa_core.measure.hooks import (
    READS,
    Args,
    Kwargs,
    first_tensor,
    hooked,
    match_modules,
    read_logits,
    replace_first_tensor,
    split_patterns,
    tapped_inputs,
    tapped_outputs,
)
from fa_core.measure.isolate import Inputs, call_model, eval_mode
from fa_core.models.base import StreamNet


class Pieces(Protocol):
    """A network whose blocks can be taken out one by one."""

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits and the stream h_0..h_L.

        Args:
            model: the network.
            x: a batch's inputs.
            without: the blocks whose place the identity takes.
        """


class StreamPieces(Pieces):
    """A built-in network, run block by block."""

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int]
    ) -> tuple[Tensor, list[Tensor]]:
        assert isinstance(model, StreamNet)
        assert isinstance(x, Tensor)
        stream = [model.embed_input(x)]
        for l in range(model.n_blocks):
            h = stream[l]
            if l not in without:
                h = model.advance(l, h)
            stream.append(h)
        return model.readout(stream[-1]), stream


class OutputPieces(Pieces):
    """A network whose tapped modules return the states: block l is the module of h_{l+1}.

    Args:
        modules: their names.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int]
    ) -> tuple[Tensor, list[Tensor]]:
        stream: list[Tensor] = []

        def tap(name: str, state: Tensor, others: Sequence[Tensor]) -> Tensor:
            block = len(stream) - 1
            if block in without and stream[-1].shape == state.shape:
                state = stream[-1]
            stream.append(state)
            return state

        with tapped_outputs(model, self._modules, tap):
            logits = read_logits(call_model(model, x))
        return logits, stream


class InputPieces(Pieces):
    """A network that adds ``h + block(h)`` itself: block l is the module that reads h_l.

    Args:
        modules: the modules that read the states, the last of them the readout.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int]
    ) -> tuple[Tensor, list[Tensor]]:
        stream: list[Tensor] = []

        def tap(name: str, state: Tensor, others: Sequence[Tensor]) -> Tensor:
            stream.append(state)
            return state

        def exchange(
            name: str, module: nn.Module, args: Args, kwargs: Kwargs, output: object
        ) -> object:
            branch = first_tensor(output)
            if len(stream) - 1 not in without or branch is None:
                return None
            return replace_first_tensor(output, torch.zeros_like(branch))

        with tapped_inputs(model, self._modules, tap), hooked(model, exchange, self._modules):
            logits = read_logits(call_model(model, x))
        return logits, stream


def pieces_of(model: nn.Module, taps: str | Sequence[str] | None, x: Inputs) -> Pieces:
    """How the blocks of a network are taken out.

    Args:
        model: the network.
        taps: names of its states, as `diagnose` takes them; None = its own stream, or a guess.
        x: a batch's inputs, for the guess.

    Raises:
        TapError: names that match nothing, or a network whose stream cannot be guessed.
        UsageError: a mix of inputs and outputs.
    """
    if taps is None and isinstance(model, StreamNet):
        return StreamPieces()
    if taps is None:
        taps = guess_taps(model, x)
    parts = split_patterns(taps)
    reading = [part for part in parts if part.endswith(READS)]
    if not reading:
        return OutputPieces(match_modules(model, parts))
    if len(reading) < len(parts):
        hint = "name inputs alone, e.g. blocks.*:in,head:in, or outputs alone"
        raise UsageError("taps at inputs and at outputs", hint=hint)
    return InputPieces(match_modules(model, reading))


def depth_ablation(
    model: nn.Module,
    eval_batches: Iterable[object],
    taps: str | Sequence[str] | None = None,
    dtype: str | None = None,
    device: str | torch.device | None = None,
) -> DepthAblation:
    """Accuracy with every block taken out in turn.

    For a stream h_{l+1} = h_l + f_l(h_l), l = 0..L-1, with readout r:

        without block l:     h_{l+1} = h_l
        up to layer l:       r(h_l), the blocks l..L-1 removed

    One forward pass per block and kind; no gradient. Nothing is a verdict: an accuracy that hardly
    falls shows that the other blocks, or the readout, do without this one.

    Args:
        model: any network whose stream can be tapped at modules; it is left unchanged.
        eval_batches: as `diagnose` takes them.
        taps: names of modules, as `diagnose` takes them; None = its own stream if it is a built-in
            network, else a guess.
        dtype: as `diagnose` takes it.
        device: as `diagnose` takes it.

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
    with (
        eval_mode(model, dtype, device) as net,
        torch.no_grad(),
        net.rng.isolated_over(batches),
    ):
        ready = [to_device(batch, index, net) for index, batch in enumerate(batches)]
        pieces = pieces_of(net.model, taps, ready[0][0])
        run = _Runner(pieces, net.model, ready)
        accuracy, blocks, samples = run.whole()
        return DepthAblation(
            accuracy=accuracy,
            accuracy_without=[run.accuracy([l]) for l in range(blocks)],
            accuracy_up_to=[run.accuracy(range(l, blocks)) for l in range(blocks)],
            samples=samples,
        )


class _Runner:
    """Runs one network over the same batches, with some of its blocks taken out."""

    def __init__(
        self, pieces: Pieces, model: nn.Module, batches: Sequence[tuple[Inputs, Tensor]]
    ) -> None:
        self._pieces, self._model, self._batches = pieces, model, batches

    def whole(self) -> tuple[float, int, int]:
        """Accuracy, the number of blocks, and the number of labels."""
        hits: list[Tensor] = []
        blocks = 0
        for x, y in self._batches:
            logits, stream = self._pieces.run(self._model, x, ())
            hits.append(is_correct(logits, y)[y != IGNORED])
            blocks = len(stream) - 1
        return _share(hits), blocks, sum(map(len, hits))

    def accuracy(self, blocks: Collection[int]) -> float | None:
        """Accuracy without some blocks; None where the identity does not fit them."""
        hits = []
        for x, y in self._batches:
            logits, stream = self._pieces.run(self._model, x, blocks)
            if not _are_identities(stream, blocks):
                return None
            hits.append(is_correct(logits, y)[y != IGNORED])
        return _share(hits)


def _share(hits: Sequence[Tensor]) -> float:
    right = torch.cat(list(hits))
    return int(right.sum()) / len(right)


def _are_identities(stream: Sequence[Tensor], blocks: Iterable[int]) -> bool:
    """Whether each of these blocks gave back the state that it read."""
    return all(torch.equal(stream[l], stream[l + 1]) for l in blocks)
