"""The base class of built-in networks: an explicit stream, advanced one block at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import ClassVar

from torch import Tensor, nn

from fa_core.errors import MeasureError, UsageError

Shape = tuple[int, ...]
Shapes = Mapping[str, Sequence[int]]
"""Tensor name → shape."""


class StreamNet(nn.Module):
    """A network with an explicit stream h_0..h_L.

        h_0 = embed(x),   h_{l+1} = h_l + f_l(h_l),   logits = head(out_ln(read(h_L)))

    A subclass builds ``embed``, ``blocks``, ``out_ln`` (``nn.Identity`` without a terminal
    LayerNorm) and ``head``, and passes the shapes to `__init__`. It never changes hidden states in
    place.

    Attributes:
        arch: the registry name.
        arch_args: every constructor argument: ``build(arch, **arch_args)`` makes the same shapes.
        input_shape: of one sample; any input with as many values per sample is accepted.
        state_shapes: of one sample's h_l, l = 0..L.
        residual: whether h_{l+1} = h_l + f_l(h_l); else h_{l+1} = f_l(h_l).

    Source: docs/protocol.md §2, §6.
    """

    arch: ClassVar[str]
    residual = True

    embed: nn.Module
    blocks: nn.ModuleList
    out_ln: nn.Module
    head: nn.Linear

    def __init__(
        self,
        arch_args: Mapping[str, object],
        input_shape: Shape,
        state_shapes: Sequence[Shape],
    ) -> None:
        super().__init__()
        self.arch_args = dict(arch_args)
        self.input_shape = input_shape
        self.state_shapes = state_shapes

    @classmethod
    def infer_args(cls, shapes: Shapes) -> dict[str, int]:
        """Constructor arguments for tensors of these shapes.

        Raises:
            KeyError, ValueError: they are not tensors of this network.
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
    def state_sizes(self) -> list[int]:
        """Values per sample of h_l, l = 0..L."""
        return [math.prod(shape) for shape in self.state_shapes]

    @property
    def credit_sizes(self) -> list[int]:
        """Length of the per-sample feedback vector of h_l, l = 0..L (see `place`)."""
        return self.state_sizes

    def place(self, l: int, vector: Tensor) -> Tensor:
        """A feedback vector (B, credit_sizes[l]) as a credit of h_l's shape."""
        return vector.reshape(len(vector), *self.state_shapes[l])

    def read(self, h: Tensor) -> Tensor:
        """The part of h_L that the head reads, (B, d)."""
        return h

    def embed_input(self, x: Tensor) -> Tensor:
        """h_0 of a batch.

        Raises:
            MeasureError: a sample has another number of values than `input_shape`.
        """
        if x.ndim < 2 or x.shape[1:].numel() != math.prod(self.input_shape):
            raise MeasureError(
                f"{self.arch} takes samples of shape {self.input_shape}, got a batch of shape "
                f"{tuple(x.shape)}",
                hint="choose data or network arguments that fit each other",
            )
        embedded: Tensor = self.embed(x.reshape(len(x), *self.input_shape))
        return embedded

    def branch(self, l: int, h: Tensor) -> Tensor:
        """f_l(h_l), the output of block l."""
        output: Tensor = self.blocks[l](h)
        return output

    def join(self, h: Tensor, branch: Tensor) -> Tensor:
        """h_{l+1} of h_l and f_l(h_l): their sum if `residual`, else the branch."""
        if self.residual:
            return h + branch
        return branch

    def advance(self, l: int, h: Tensor) -> Tensor:
        """h_{l+1} of h_l."""
        return self.join(h, self.branch(l, h))

    def onward(self, h_0: Tensor) -> list[Tensor]:
        """The stream h_0..h_L from h_0."""
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

    def forward(
        self, x: Tensor, return_hidden: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Logits (B, C); with ``return_hidden`` also the stream [h_0..h_L]."""
        stream = self.onward(self.embed_input(x))
        logits = self.readout(stream[-1])
        if return_hidden:
            return (logits, stream)
        return logits


def normal_(tensor: Tensor, std: float) -> Tensor:
    """Fill with N(0, std²); not on the meta device, where torch imports its compiler for that."""
    return tensor if tensor.is_meta else nn.init.normal_(tensor, std=std)


def terminal_norm(width: int, on: bool) -> nn.Module:
    """The terminal LayerNorm, or the identity."""
    if on:
        return nn.LayerNorm(width)
    return nn.Identity()


def common_args(shapes: Shapes, head: str = "head") -> dict[str, int]:
    """L, terminal_ln and num_classes, from tensor names such as ``blocks.3.fc1.weight``."""
    blocks = [int(name.split(".")[1]) for name in shapes if name.startswith("blocks.")]
    return {
        "L": 1 + max(blocks, default=-1),
        "terminal_ln": "out_ln.weight" in shapes,
        "num_classes": shapes[f"{head}.weight"][0],
    }


LARGEST = 2**24
"""The largest size of a network: 64 bits can count the bytes of any product of two."""


def checked_args(network: type[StreamNet], given: Mapping[str, object]) -> dict[str, object]:
    """The constructor arguments of a network, in its order; sizes are 1 (``L``: 0) to `LARGEST`.

    Args:
        network: the class with the constructor.
        given: values by name, e.g. the constructor's ``locals()``; other names are ignored.

    Raises:
        UsageError: names the argument and its value.
    """
    args = {name: given[name] for name in signature(network).parameters}
    for name, size in args.items():
        if name == "terminal_ln":
            continue
        least = 0 if name == "L" else 1
        if type(size) is not int or not least <= size <= LARGEST:
            raise UsageError(
                f"{name} is {size!r}", hint=f"give a whole number from {least} to {LARGEST}"
            )
    return args
