"""The residual MLPs: ResMLP as published, a wider one, and StudentNet without any LayerNorm."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.models.base import Shape, StreamNet, checked_args, common_args, terminal_norm


class ResidualMLP(StreamNet):
    """h_0 = W·x + b; L residual blocks; perhaps a terminal LN; linear head.

    Args:
        input_dim: values per sample.
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        hidden: width inside a block (None = 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.
    """

    block: ClassVar[type[PreNormBlock]]
    """``block(d, hidden)`` makes an f_l: its two linear layers, from d to hidden and back, around a
    GELU."""
    last: ClassVar[str] = "head"
    """What the head is called."""

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
        super().__init__(checked_args(type(self), locals()), (input_dim,), [(d,)] * (L + 1))
        self.embed = nn.Linear(input_dim, d)
        self.blocks = nn.ModuleList(self.block(d, hidden) for _ in range(L))
        self.out_ln = terminal_norm(d, terminal_ln)
        self.add_module(self.last, nn.Linear(d, num_classes))

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, Any]:
        """Arguments from ``embed.weight``, ``blocks.0.fc1.weight``, ``out_ln.weight`` and
        ``head.weight``."""
        d, input_dim = shapes["embed.weight"]
        common = common_args(shapes, cls.last)
        if common["L"]:
            hidden = shapes[f"blocks.0.{cls.block.inner}.weight"][0]
        else:
            hidden = 2 * d
        found = {"input_dim": input_dim, "d": d, "hidden": hidden, **common}
        return {name: found[name] for name in signature(cls).parameters}


class PreNormBlock(nn.Module):
    """f(h) = W2·GELU(W1·LN(h)); (B, d) → (B, d)."""

    inner, outer = "fc1", "fc2"
    normed = True

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__()
        if self.normed:
            self.ln = nn.LayerNorm(d)
        self.add_module(self.inner, nn.Linear(d, hidden))
        self.add_module(self.outer, nn.Linear(hidden, d))

    def forward(self, h: Tensor) -> Tensor:
        inner = getattr(self, self.inner)(self.ln(h) if self.normed else h)
        added: Tensor = getattr(self, self.outer)(F.gelu(inner))
        return added


class PublishedBlock(PreNormBlock):
    """As `PreNormBlock`, both d → d. W2 starts at N(0, 0.01²), its bias at 0."""

    inner, outer = "w1", "w2"
    w2: nn.Linear

    def __init__(self, d: int, hidden: int) -> None:
        super().__init__(d, hidden)
        nn.init.normal_(self.w2.weight, std=0.01)
        nn.init.zeros_(self.w2.bias)


class ResMLP(ResidualMLP):
    """The published network: h_0 = W·x + b; L pre-LN GELU blocks d → d → d; terminal LN; linear
    head.

    Args:
        input_dim: values per sample (3072 = a flattened 3×32×32 image).
        d: width of the stream.
        L: number of blocks (0 = the shallow control).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.

    Source: docs/protocol.md §6 (d=256, L=4; d=512; depths 2–12); its tensors have the published
    names.
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
    """As `ResMLP`, but wider inside its blocks, and initialised as PyTorch does.

    It was called ``resmlp`` before that had the published block: see `fa_core.models.arch_of`.

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

    Under DFA its stream explodes too, (a), but no LayerNorm shrinks its gradient: (b) fires only
    where the softmax is saturated at the right labels, and its cause then is ``saturated``.
    Published: never.

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
