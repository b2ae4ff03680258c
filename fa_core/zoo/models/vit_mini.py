"""ViT-Mini: a small pre-LayerNorm vision transformer with its head on the cls token."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.zoo.models.base import (
    Shapes,
    StreamNet,
    checked_args,
    common_args,
    normal_,
    terminal_norm,
)


class PatchEmbedding(nn.Module):
    """Images (B, c, s, s) → the cls and patch tokens with positions (B, 1 + (s/p)², d)."""

    def __init__(self, channels: int, patch: int, tokens: int, d: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(channels, d, patch, stride=patch)
        self.cls = nn.Parameter(normal_(torch.empty(1, 1, d), 0.02))
        self.pos = nn.Parameter(normal_(torch.empty(1, tokens, d), 0.02))

    def forward(self, x: Tensor) -> Tensor:
        patches: Tensor = self.patch(x)
        tokens = patches.flatten(2).transpose(1, 2)
        return torch.cat([self.cls.expand(len(x), -1, -1), tokens], dim=1) + self.pos


class Attention(nn.Module):
    """Softmax self-attention, (B, T, d) → (B, T, d).

    The projection to queries, keys and values is one tensor (3, heads, d/heads, d), so that a
    checkpoint shows the number of heads.

    Args:
        d: width of a token.
        heads: number of heads.
    """

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        like = nn.Linear(d, 3 * d)
        shape = (3, heads, d // heads)
        self.qkv_weight = nn.Parameter(like.weight.detach().reshape(*shape, d))
        self.qkv_bias = nn.Parameter(like.bias.detach().reshape(shape))
        self.proj = nn.Linear(d, d)

    def forward(self, tokens: Tensor) -> Tensor:
        d = tokens.shape[-1]
        _, heads, size, _ = self.qkv_weight.shape
        weight = self.qkv_weight.reshape(3 * d, d)
        bias = self.qkv_bias.reshape(3 * d)
        qkv = F.linear(tokens, weight, bias)
        by_head = qkv.reshape(*tokens.shape[:2], 3, heads, size)
        q, k, v = by_head.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / size**0.5
        values = scores.softmax(-1) @ v
        mixed: Tensor = self.proj(values.transpose(1, 2).flatten(2))
        return mixed


class TransformerBlock(nn.Module):
    """f(h) = A + M(h + A), with A = attention(LN(h)) and M(u) = W2·GELU(W1·LN(u))."""

    def __init__(self, d: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(d)
        self.attention = Attention(d, heads)
        self.ln2 = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, hidden)
        self.fc2 = nn.Linear(hidden, d)

    def forward(self, h: Tensor) -> Tensor:
        attended: Tensor = self.attention(self.ln1(h))
        normed = self.ln2(h + attended)
        mixed: Tensor = self.fc2(F.gelu(self.fc1(normed)))
        return attended + mixed


class ViTMini(StreamNet):
    """Patches and a cls token; L transformer blocks; terminal LN and linear head on the cls token.

    Args:
        image: side of the square image, a multiple of `patch`.
        channels: of the image.
        patch: side of a patch.
        d: width of a token, a multiple of `heads`.
        L: number of blocks (0 = the shallow control).
        heads: attention heads.
        hidden: width of a block's MLP (default 2d).
        terminal_ln: whether the head reads LN(h_L).
        num_classes: C.

    Source: docs/protocol.md §6 (d=128, L=4); Dosovitskiy et al., ICLR 2021.
    """

    arch = "vit_mini"

    def __init__(
        self,
        image: int = 32,
        channels: int = 3,
        patch: int = 4,
        d: int = 128,
        L: int = 4,
        heads: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = True,
        num_classes: int = 10,
    ) -> None:
        if hidden is None:
            hidden = 2 * d
        args = checked_args(ViTMini, locals())
        if image % patch or d % heads:
            raise UsageError(
                f"vit_mini cannot cut image={image} into patch={patch}, d={d} into heads={heads}",
                hint="choose divisors",
            )
        tokens = 1 + (image // patch) ** 2
        super().__init__(args, (channels, image, image), [(tokens, d)] * (L + 1))
        self.embed = PatchEmbedding(channels, patch, tokens, d)
        self.blocks = nn.ModuleList(TransformerBlock(d, heads, hidden) for _ in range(L))
        self.out_ln = terminal_norm(d, terminal_ln)
        self.head = nn.Linear(d, num_classes)

    @property
    def credit_sizes(self) -> list[int]:
        """d at every layer: all tokens of a sample share its feedback vector."""
        return [shape[-1] for shape in self.state_shapes]

    def place(self, l: int, vector: Tensor) -> Tensor:
        """The vector (B, d) at every token, (B, T, d)."""
        return vector[:, None, :].expand(-1, self.state_shapes[l][0], -1)

    def read(self, h: Tensor) -> Tensor:
        """The cls token."""
        return h[:, 0]

    @classmethod
    def infer_args(cls, shapes: Shapes) -> dict[str, int]:
        """Arguments from the patch convolution, the positions and the first block."""
        d, channels, patch, _ = shapes["embed.patch.weight"]
        common = common_args(shapes)
        heads = 1
        hidden = 2 * d
        if common["L"]:
            heads = shapes["blocks.0.attention.qkv_weight"][1]
            hidden = shapes["blocks.0.fc1.weight"][0]
        return {
            "image": patch * isqrt(shapes["embed.pos"][1] - 1),
            "channels": channels,
            "patch": patch,
            "d": d,
            "heads": heads,
            "hidden": hidden,
            **common,
        }
