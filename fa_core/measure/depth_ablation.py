"""Whether a network uses its blocks: accuracy without each of them, and linear probes per layer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
    replace_first_tensor,
    tapped_inputs,
    tapped_outputs,
)
from fa_core.measure.isolate import Inputs, call_model, eval_mode
from fa_core.measure.patterns import match_modules, split_patterns
from fa_core.measure.taps import read_logits
from fa_core.models.base import StreamNet

RIDGE = 1e-3
"""λ of the probes, relative to the number of samples; features have variance 1."""


class Pieces(Protocol):
    """A network whose blocks can be changed one by one."""

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int], reset: nn.Module | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits and the stream h_0..h_L.

        Args:
            model: the network.
            x: a batch's inputs.
            without: the blocks to change.
            reset: the network at its initialisation, whose blocks take their place; None = the
                identity takes it.
        """


class StreamPieces(Pieces):
    """A built-in network, run block by block."""

    def run(
        self, model: nn.Module, x: Inputs, without: Collection[int], reset: nn.Module | None
    ) -> tuple[Tensor, list[Tensor]]:
        assert isinstance(model, StreamNet)
        assert isinstance(x, Tensor)
        stream = [model.embed_input(x)]
        for l in range(model.n_blocks):
            h = stream[l]
            if l not in without:
                stream.append(model.advance(l, h))
            elif isinstance(reset, StreamNet):
                stream.append(reset.advance(l, h))
            else:
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
        self, model: nn.Module, x: Inputs, without: Collection[int], reset: nn.Module | None
    ) -> tuple[Tensor, list[Tensor]]:
        stream: list[Tensor] = []

        def tap(name: str, state: Tensor, others: Sequence[Tensor]) -> Tensor:
            block = len(stream) - 1
            if block in without and reset is None and stream[-1].shape == state.shape:
                state = stream[-1]
            stream.append(state)
            return state

        def exchange(
            name: str, module: nn.Module, args: Args, kwargs: Kwargs, output: object
        ) -> object:
            # called before the tap of the same module
            if reset is None or len(stream) - 1 not in without:
                return None
            return reset.get_submodule(name)(*args, **kwargs)

        with hooked(model, exchange, self._modules), tapped_outputs(model, self._modules, tap):
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
        self, model: nn.Module, x: Inputs, without: Collection[int], reset: nn.Module | None
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
            if reset is not None:
                return reset.get_submodule(name)(*args, **kwargs)
            return replace_first_tensor(output, torch.zeros_like(branch))

        with tapped_inputs(model, self._modules, tap), hooked(model, exchange, self._modules):
            logits = read_logits(call_model(model, x))
        return logits, stream


def pieces_of(model: nn.Module, taps: str | Sequence[str] | None, x: Inputs) -> Pieces:
    """How the blocks of a network are changed.

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
    initial: nn.Module | None = None,
    dtype: str | None = None,
    device: str | torch.device | None = None,
) -> DepthAblation:
    """Accuracy with every block taken out in turn, and what a linear probe reads in every layer.

    For a stream h_{l+1} = h_l + f_l(h_l), l = 0..L-1, with readout r:

        without block l:     h_{l+1} = h_l
        up to layer l:       r(h_l), the blocks l..L-1 removed
        block l reset:       f_l with the weights of `initial`

    One forward pass per block and kind; no gradient. Nothing is a verdict: an accuracy that hardly
    falls shows that the other blocks, or the readout, do without this one.

    Args:
        model: any network whose stream can be tapped at modules; it is left unchanged.
        eval_batches: as `diagnose` takes them.
        taps: names of modules, as `diagnose` takes them; None = its own stream if it is a built-in
            network, else a guess.
        initial: the same network as it was initialised; None = not known.
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
    Probes: Alain and Bengio, arXiv:1610.01644.
    """
    batches = as_batches(eval_batches)
    with (
        eval_mode(model, dtype, device) as net,
        torch.no_grad(),
        net.rng.isolated_over(batches),
        _reset(initial, dtype, net.device) as start,
    ):
        ready = [to_device(batch, index, net) for index, batch in enumerate(batches)]
        pieces = pieces_of(net.model, taps, ready[0][0])
        run = _Runner(pieces, net.model, ready)
        accuracy, states, labels = run.whole()
        blocks = len(states) - 1
        without = [run.accuracy([l]) for l in range(blocks)]
        up_to = [run.accuracy(range(l, blocks)) for l in range(blocks)]
        reset: list[float | None] = []
        if start is not None:
            reset = [run.accuracy([l], start) for l in range(blocks)]
        return DepthAblation(
            accuracy=accuracy,
            accuracy_without=without,
            accuracy_up_to=up_to,
            accuracy_reset=reset,
            probe=[probe_accuracy(state, labels) for state in states],
            samples=len(labels),
        )


@contextmanager
def _reset(
    initial: nn.Module | None, dtype: str | None, device: torch.device
) -> Iterator[nn.Module | None]:
    """The initial network in eval mode, if it is known."""
    if initial is None:
        yield None
        return
    with eval_mode(initial, dtype, device) as net:
        yield net.model


class _Runner:
    """Runs one network over the same batches, with some of its blocks changed."""

    def __init__(
        self, pieces: Pieces, model: nn.Module, batches: Sequence[tuple[Inputs, Tensor]]
    ) -> None:
        self._pieces, self._model, self._batches = pieces, model, batches

    def whole(self) -> tuple[float, list[Tensor], Tensor]:
        """Accuracy, the features of every layer (N, d_l), and the labels (N,)."""
        hits: list[Tensor] = []
        features: list[list[Tensor]] = []
        labels: list[Tensor] = []
        for x, y in self._batches:
            logits, stream = self._pieces.run(self._model, x, (), None)
            counted = y != IGNORED
            hits.append(is_correct(logits, y)[counted])
            labels.append(y[counted])
            features.append([_features(h, y)[counted.flatten()] for h in stream])
        states = [torch.cat(layer) for layer in zip(*features, strict=True)]
        return _share(hits), states, torch.cat(labels)

    def accuracy(self, blocks: Collection[int], reset: nn.Module | None = None) -> float | None:
        """Accuracy with some blocks changed; None where the identity does not fit them."""
        hits = []
        for x, y in self._batches:
            logits, stream = self._pieces.run(self._model, x, blocks, reset)
            if reset is None and not _are_identities(stream, blocks):
                return None
            hits.append(is_correct(logits, y)[y != IGNORED])
        return _share(hits)


def _share(hits: Sequence[Tensor]) -> float:
    right = torch.cat(list(hits))
    return int(right.sum()) / len(right)


def _are_identities(stream: Sequence[Tensor], blocks: Iterable[int]) -> bool:
    """Whether each of these blocks gave back the state that it read."""
    return all(torch.equal(stream[l], stream[l + 1]) for l in blocks)


def _features(state: Tensor, y: Tensor) -> Tensor:
    """A state as one vector per label: (B, …) → (N, d).

    Of maps (B, C, H, W) the mean over the map, of sequences (B, T, d) with one label each the mean
    over T; with a label per token every token is a sample.
    """
    if y.dim() == 2:
        return state.flatten(0, 1)
    if state.dim() == 3:
        return state.mean(dim=1)
    if state.dim() > 3:
        return state.flatten(2).mean(dim=2)
    return state


def probe_accuracy(features: Tensor, labels: Tensor) -> float | None:
    """Accuracy of a linear probe: ridge regression onto one-hot labels, in closed form.

        W = argmin ‖X W − Y‖² + λ n ‖W‖²,   λ = `RIDGE`

    with X centred and scaled to variance 1, Y centred. Half of the samples, by a permutation that
    depends on N alone, fit it; the others judge it.

    Args:
        features: (N, d), any scale.
        labels: (N,) class indices.

    Returns:
        A fraction in [0, 1]; None for fewer than two samples, or features that are not finite.

    Source: Alain and Bengio, arXiv:1610.01644; Hoerl and Kennard, Technometrics 1970.
    """
    if len(labels) < 2 or not bool(torch.isfinite(features).all()):
        return None
    x = features.double()
    order = probe_order(len(labels)).to(labels.device)
    half = (len(labels) + 1) // 2
    fit, judged = x[order[:half]], x[order[half:]]
    y_fit, y_judged = labels[order[:half]], labels[order[half:]]
    centre = fit.mean(dim=0)
    scale = fit.std(dim=0, correction=0).clamp(min=torch.finfo(torch.float32).tiny)
    fit, judged = (fit - centre) / scale, (judged - centre) / scale
    classes = int(labels.max()) + 1
    wanted = torch.nn.functional.one_hot(y_fit, classes).double()
    mean = wanted.mean(dim=0)
    weights = _ridge(fit, wanted - mean, RIDGE * len(fit))
    right = is_correct(judged @ weights + mean, y_judged)
    return int(right.sum()) / len(right)


def probe_order(samples: int) -> Tensor:
    """A permutation of the samples, the same for every network and layer.

    Data are often sorted by class or periodic: neither halves nor every other sample would hold
    all classes.
    """
    return torch.randperm(samples, generator=torch.Generator().manual_seed(samples))


def _ridge(x: Tensor, y: Tensor, penalty: float) -> Tensor:
    """(XᵀX + λI)⁻¹ XᵀY = Xᵀ (XXᵀ + λI)⁻¹ Y, by the smaller of the two systems."""
    samples, width = x.shape
    if width <= samples:
        gram = x.T @ x + penalty * torch.eye(width, dtype=x.dtype, device=x.device)
        solved: Tensor = torch.linalg.solve(gram, x.T @ y)
        return solved
    gram = x @ x.T + penalty * torch.eye(samples, dtype=x.dtype, device=x.device)
    weights: Tensor = x.T @ torch.linalg.solve(gram, y)
    return weights
