"""The residual MLPs: the published ResMLP, a wider one, and StudentNet without LayerNorm."""

from __future__ import annotations

from inspect import signature
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.zoo.models.base import (
    Shapes,
    StreamNet,
    checked_args,
    common_args,
    normal_,
    terminal_norm,
)


class ResidualMLP(StreamNet):
    """h_0 = W·x + b; L residual blocks; an optional terminal LN; a linear head.

    Args:
        input_dim: values per sample.
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        hidden: width inside a block (None = 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.
    """

    block: ClassVar[type[PreNormBlock]]
    """Class of f_l: ``block(d, hidden)`` has linear layers d → hidden → d around a GELU."""
    last = "head"
    """Name of the head."""

    def __init__(
        self,
        input_dim: int = 3072,
        d: int = 256,
        L: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = True,
        num_classes: int = 10,
    ) -> None:
        if hidden is None:
            hidden = 2 * d
        args = checked_args(type(self), locals())
        super().__init__(args, (input_dim,), [(d,)] * (L + 1))
        self.embed = nn.Linear(input_dim, d)
        self.blocks = nn.ModuleList(self.block(d, hidden) for _ in range(L))
        self.out_ln = terminal_norm(d, terminal_ln)
        self.add_module(self.last, nn.Linear(d, num_classes))

    @classmethod
    def infer_args(cls, shapes: Shapes) -> dict[str, int]:
        """Arguments from the embedding, the first block, the terminal LN and the head."""
        d, input_dim = shapes["embed.weight"]
        common = common_args(shapes, cls.last)
        hidden = 2 * d
        if common["L"]:
            hidden = shapes[f"blocks.0.{cls.block.inner}.weight"][0]
        found = {"input_dim": input_dim, "d": d, "hidden": hidden, **common}
        return {name: found[name] for name in signature(cls).parameters}


class PreNormBlock(nn.Module):
    """f(h) = W2·GELU(W1·LN(h)); (B, d) → (B, d)."""

    inner = "fc1"
    outer = "fc2"
    normed = True

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        if self.normed:
            self.ln = nn.LayerNorm(d)
        self.add_module(self.inner, nn.Linear(d, hidden))
        self.add_module(self.outer, nn.Linear(hidden, d))

    def forward(self, h: Tensor) -> Tensor:
        if self.normed:
            h = self.ln(h)
        inner = self.get_submodule(self.inner)(h)
        output: Tensor = self.get_submodule(self.outer)(F.gelu(inner))
        return output


class PublishedBlock(PreNormBlock):
    """`PreNormBlock` with initial W2 ~ N(0, 0.01²) and zero bias."""

    inner = "w1"
    outer = "w2"
    w2: nn.Linear

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__(d, hidden)
        normal_(self.w2.weight, 0.01)
        nn.init.zeros_(self.w2.bias)


class ResMLP(ResidualMLP):
    """The published network: linear embedding; L pre-LN GELU blocks d → d → d; terminal LN; head.

    Args:
        input_dim: values per sample (3072 = a flattened 3×32×32 image).
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.

    Source: docs/protocol.md §6 (d=256, L=4; d=512; depths 2–12); tensors have published names.
    """

    arch = "resmlp"
    block = PublishedBlock
    last = "out_head"
    out_head: nn.Linear

    def __init__(
        self,
        input_dim: int = 3072,
        d: int = 256,
        L: int = 4,
        terminal_ln: bool = True,
        num_classes: int = 10,
    ) -> None:
        super().__init__(input_dim, d, L, d, terminal_ln, num_classes)

    @property
    def head(self) -> nn.Linear:  # type: ignore[override]
        """The head, ``out_head``."""
        return self.out_head


class WideResMLP(ResidualMLP):
    """`ResMLP` with wider blocks and PyTorch's initialisation.

    Formerly ``resmlp``, before that had the published block; its manifests still say so.

    Args:
        input_dim, d, L, terminal_ln, num_classes: as for `ResMLP`.
        hidden: width inside a block (default 2d).

    Source: docs/protocol.md §6.
    """

    arch = "resmlp_wide"
    block = PreNormBlock


class PlainBlock(PreNormBlock):
    """f(h) = W2·GELU(W1·h); (B, d) → (B, d)."""

    normed = False


class StudentNet(ResidualMLP):
    """h_0 = W·x + b; L residual GELU blocks without LayerNorm; linear head.

    Under DFA its stream explodes too (a), but no LayerNorm shrinks its gradient. (b) therefore
    fires only if the softmax saturates at the right labels, with the cause ``saturated``; in the
    publication it never fires.

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
