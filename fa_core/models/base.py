"""What every built-in network offers: its residual stream, one block at a time."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

from torch import Tensor, nn

from fa_core.errors import MeasureError, UsageError

Shape = tuple[int, ...]


class StreamNet(nn.Module, ABC):
    """A network with an explicit stream h_0..h_L.

        h_0 = embed(x),   h_{l+1} = h_l + f_l(h_l),   logits = head(out_ln(read(h_L)))

    A subclass builds ``embed``, ``blocks``, ``out_ln`` (``nn.Identity`` where there is no terminal
    LayerNorm) and ``head``, and passes the shapes to `__init__`. Hidden states are never changed in
    place.

    Attributes:
        arch: the registry name.
        arch_args: every constructor argument, so that ``build(arch, **arch_args)`` makes the same
            shapes.
        input_shape: shape of one sample; any input with as many values per sample is taken.
        state_shapes: shape of one sample's h_l, l = 0..L.
        residual: whether h_{l+1} = h_l + f_l(h_l); else h_{l+1} = f_l(h_l).

    Source: docs/protocol.md §2, §6.
    """

    arch: ClassVar[str]
    residual: ClassVar[bool] = True

    embed: nn.Module
    blocks: nn.ModuleList
    out_ln: nn.Module
    head: nn.Linear

    def __init__(
        self,
        arch_args: Mapping[str, Any],
        input_shape: Sequence[int],
        state_shapes: Sequence[Shape],
    ) -> None:
        super().__init__()
        self.arch_args = dict(arch_args)
        self.input_shape = tuple(input_shape)
        self.state_shapes = [tuple(shape) for shape in state_shapes]

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """The constructor arguments that tensors of these shapes would need.

        Raises:
            KeyError, ValueError: these tensors are not this network's.
        """
        raise NotImplementedError

    @property
    def n_blocks(self) -> int:
        """L."""
        return len(self.blocks)

    @property
    def num_classes(self) -> int:
        """C."""
        return self.head.out_features

    @property
    def credit_sizes(self) -> list[int]:
        """Length of the per-sample vector that a feedback matrix produces for h_l, l = 0..L (see
        `place`)."""
        return [math.prod(shape) for shape in self.state_shapes]

    def place(self, l: int, vector: Tensor) -> Tensor:
        """A feedback vector (B, credit_sizes[l]) as a credit signal of h_l's shape."""
        return vector.reshape(len(vector), *self.state_shapes[l])

    def read(self, h: Tensor) -> Tensor:
        """The part of h_L that the head reads, (B, d)."""
        return h

    def embed_input(self, x: Tensor) -> Tensor:
        """h_0 of a batch.

        Raises:
            MeasureError: a sample holds another number of values than `input_shape`.
        """
        if x.ndim < 2 or x.shape[1:].numel() != math.prod(self.input_shape):
            what = (
                f"{self.arch} takes samples of shape {self.input_shape}, got a batch of shape "
                f"{tuple(x.shape)}"
            )
            raise MeasureError(what, hint="choose data or network arguments that fit each other")
        embedded: Tensor = self.embed(x.reshape(len(x), *self.input_shape))
        return embedded

    def branch(self, l: int, h: Tensor) -> Tensor:
        """f_l(h_l): what block l adds to the stream (or, where not `residual`, puts in its
        place)."""
        added: Tensor = self.blocks[l](h)
        return added

    def advance(self, l: int, h: Tensor) -> Tensor:
        """h_{l+1} of h_l."""
        if self.residual:
            return h + self.branch(l, h)
        return self.branch(l, h)

    def onward(self, h_0: Tensor) -> list[Tensor]:
        """h_0..h_L of h_0."""
        stream = [h_0]
        for l in range(self.n_blocks):
            stream.append(self.advance(l, stream[l]))
        return stream

    def readout(self, h: Tensor) -> Tensor:
        """Logits (B, C) of h_L."""
        logits: Tensor = self.head(self.out_ln(self.read(h)))
        return logits

    def tail(self, l: int, h: Tensor) -> Tensor:
        """Logits (B, C) of h_l: blocks l..L-1, then the readout."""
        for k in range(l, self.n_blocks):
            h = self.advance(k, h)
        return self.readout(h)

    def forward(self, x: Tensor, return_hidden: bool = False) -> Any:
        """Logits (B, C); with ``return_hidden`` also the stream [h_0..h_L]."""
        stream = self.onward(self.embed_input(x))
        logits = self.readout(stream[-1])
        if return_hidden:
            return (logits, stream)
        return logits


def terminal_norm(width: int, on: bool) -> nn.Module:
    """The terminal LayerNorm, or nothing."""
    if on:
        return nn.LayerNorm(width)
    return nn.Identity()


def common_args(shapes: Mapping[str, Shape], head: str = "head") -> dict[str, Any]:
    """L, from names such as ``blocks.3.fc1.weight``, and what the layers after the blocks show."""
    blocks = [int(name.split(".")[1]) for name in shapes if name.startswith("blocks.")]
    return {
        "L": 1 + max(blocks, default=-1),
        "terminal_ln": "out_ln.weight" in shapes,
        "num_classes": shapes[f"{head}.weight"][0],
    }


LARGEST = 2**24
"""Of a network's sizes: the products of any two can be counted in bytes."""


def checked_args(network: type[StreamNet], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments of a network, in its order; a size is 1 (``L``: 0) to `LARGEST`.

    Args:
        network: the class that declares the constructor.
        given: their values by name, e.g. the constructor's ``locals()``; other names are ignored.

    Raises:
        UsageError: with the argument's name and value.
    """
    args = {name: given[name] for name in signature(network).parameters}
    for name, size in args.items():
        if name == "L":
            least = 0
        else:
            least = 1
        is_size = isinstance(size, int) and not isinstance(size, bool) and least <= size <= LARGEST
        if name != "terminal_ln" and not is_size:
            raise UsageError(
                f"{name} is {size!r}", hint=f"give a whole number from {least} to {LARGEST}"
            )
    return args
