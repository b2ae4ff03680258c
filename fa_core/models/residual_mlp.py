"""The residual MLPs: ResMLP, whose stream explodes under direct feedback, and StudentNet without any LayerNorm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.models.base import Shape, StreamNet, checked_args, common_args, terminal_norm


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

    def __init__(
        self,
        input_dim: int = 3072,
        d: int = 256,
        L: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = True,
        num_classes: int = 10,
    ) -> None:
        hidden = 2 * d if hidden is None else hidden
        super().__init__(checked_args(ResidualMLP, locals()), (input_dim,), [(d,)] * (L + 1))
        self.embed = nn.Linear(input_dim, d)
        self.blocks = nn.ModuleList(self.block(d, hidden) for _ in range(L))
        self.out_ln = terminal_norm(d, terminal_ln)
        self.head = nn.Linear(d, num_classes)

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Arguments from ``embed.weight``, ``blocks.0.fc1.weight``, ``out_ln.weight`` and ``head.weight``."""
        d, input_dim = shapes["embed.weight"]
        common = common_args(shapes)
        return {
            "input_dim": input_dim,
            "d": d,
            "hidden": shapes["blocks.0.fc1.weight"][0] if common["L"] else 2 * d,
            **common,
        }


class PreNormBlock(nn.Module):
    """f(h) = W2·GELU(W1·LN(h)); (B, d) → (B, d)."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, hidden)
        self.fc2 = nn.Linear(hidden, d)

    def forward(self, h: Tensor) -> Tensor:
        added: Tensor = self.fc2(F.gelu(self.fc1(self.ln(h))))
        return added


class ResMLP(ResidualMLP):
    """h_0 = W·x + b; L pre-LN GELU blocks; terminal LN; linear head.

    Args:
        input_dim: values per sample (3072 = a flattened 3×32×32 image).
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        hidden: width inside a block (default 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.

    Source: docs/protocol.md §6 (d=256, L=4; d=512; depths 2–12). Initialised as PyTorch does.
    """

    arch = "resmlp"
    block = PreNormBlock


class PlainBlock(nn.Module):
    """f(h) = W2·GELU(W1·h); (B, d) → (B, d)."""

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(d, hidden)
        self.fc2 = nn.Linear(hidden, d)

    def forward(self, h: Tensor) -> Tensor:
        added: Tensor = self.fc2(F.gelu(self.fc1(h)))
        return added


class StudentNet(ResidualMLP):
    """h_0 = W·x + b; L residual GELU blocks without LayerNorm; linear head.

    Under DFA its stream explodes too, (a), but no LayerNorm shrinks its gradient, so (b) never fires.

    Args:
        input_dim: values per sample.
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        hidden: width inside a block (default 2d).
        terminal_ln: whether the head reads LN(h_L); the published network has none.
        num_classes: C.

    Source: docs/protocol.md §6 (d=128, L=4, on synthetic data), §11 ("no LN").
    """

    arch = "studentnet"
    block = PlainBlock

    def __init__(
        self,
        input_dim: int = 128,
        d: int = 128,
        L: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = False,
        num_classes: int = 10,
    ) -> None:
        super().__init__(input_dim, d, L, hidden, terminal_ln, num_classes)
