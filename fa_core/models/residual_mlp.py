"""The residual MLP, whatever its block: what ResMLP and StudentNet share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn

from fa_core.models.base import Shape, StreamNet, check_sizes, count_blocks, terminal_norm


class ResidualMLP(StreamNet):
    """h_0 = W·x + b; L residual blocks; perhaps a terminal LN; linear head. Initialised as PyTorch does.

    Args:
        input_dim: values per sample.
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        hidden: width inside a block (None = 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.
    """

    block: ClassVar[type[nn.Module]]
    """``block(d, hidden)`` makes an f_l, with a linear layer ``fc1`` from d to hidden."""

    def __init__(self, input_dim: int, d: int, L: int, hidden: int | None, terminal_ln: bool, num_classes: int) -> None:
        hidden = 2 * d if hidden is None else hidden
        check_sizes(input_dim=input_dim, d=d, L=L, hidden=hidden, num_classes=num_classes)
        args = {
            "input_dim": input_dim,
            "d": d,
            "L": L,
            "hidden": hidden,
            "terminal_ln": terminal_ln,
            "num_classes": num_classes,
        }
        super().__init__(args, (input_dim,), [(d,)] * (L + 1))
        self.embed = nn.Linear(input_dim, d)
        self.blocks = nn.ModuleList(self.block(d, hidden) for _ in range(L))
        self.out_ln = terminal_norm(d, terminal_ln)
        self.head = nn.Linear(d, num_classes)

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Arguments from ``embed.weight``, ``blocks.0.fc1.weight``, ``out_ln.weight`` and ``head.weight``."""
        d, input_dim = shapes["embed.weight"]
        L = count_blocks(shapes)
        return {
            "input_dim": input_dim,
            "d": d,
            "L": L,
            "hidden": shapes["blocks.0.fc1.weight"][0] if L else 2 * d,
            "terminal_ln": "out_ln.weight" in shapes,
            "num_classes": shapes["head.weight"][0],
        }
