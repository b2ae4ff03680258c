"""Decoder: a small causal transformer for next-token prediction."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.zoo.models.base import Shape, checked_args, terminal_norm
from fa_core.zoo.models.vit_mini import TokenStream, TransformerBlock


class TokenEmbedding(nn.Module):
    """Token numbers (B, T), integers or floats, → (B, T, d): token plus position embedding."""

    def __init__(self, vocab: int, length: int, d: int) -> None:
        super().__init__()
        self.token = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(nn.init.normal_(torch.empty(1, length, d), std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.token(x.long()) + self.pos
        return embedded


class Decoder(TokenStream):
    """Token embedding; L causal pre-LN blocks; terminal LN and linear head on the last token.

    The logits (B, C) predict the next token, which is the label (B,).

    Args:
        vocab: number of different tokens.
        length: T, tokens per sample.
        d: width of a token, a multiple of `heads`.
        L: number of blocks (0 = the shallow control).
        heads: attention heads.
        hidden: width of a block's MLP (default 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C (default `vocab`).

    Source: docs/protocol.md §6; Radford et al., 2019.
    """

    arch = "decoder"

    def __init__(
        self,
        vocab: int = 64,
        length: int = 32,
        d: int = 128,
        L: int = 4,
        heads: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = True,
        num_classes: int | None = None,
    ) -> None:
        if hidden is None:
            hidden = 2 * d
        if num_classes is None:
            num_classes = vocab
        args = checked_args(Decoder, locals())
        if d % heads:
            raise UsageError(f"decoder cannot cut d={d} into heads={heads}", hint="choose divisors")
        super().__init__(args, (length,), [(length, d)] * (L + 1))
        self.embed = TokenEmbedding(vocab, length, d)
        self.blocks = nn.ModuleList(
            TransformerBlock(d, heads, hidden, causal=True) for _ in range(L)
        )
        self.out_ln = terminal_norm(d, terminal_ln)
        self.head = nn.Linear(d, num_classes)

    def read(self, h: Tensor) -> Tensor:
        """The last token."""
        return h[:, -1]

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, int]:
        """Arguments from the embedding and the first block."""
        vocab, d = shapes["embed.token.weight"]
        return {
            "vocab": vocab,
            "length": shapes["embed.pos"][1],
            "d": d,
            **cls.block_args(shapes, d),
        }
