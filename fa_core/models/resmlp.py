"""ResMLP: pre-LayerNorm residual MLP, the network whose stream explodes under direct feedback."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.models.residual_mlp import ResidualMLP


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

    Source: PROTOCOL §6 (d=256, L=4; d=512; depths 2–12). Initialised as PyTorch does.
    """

    arch = "resmlp"
    block = PreNormBlock

    def __init__(
        self,
        input_dim: int = 3072,
        d: int = 256,
        L: int = 4,
        hidden: int | None = None,
        terminal_ln: bool = True,
        num_classes: int = 10,
    ) -> None:
        super().__init__(input_dim, d, L, hidden, terminal_ln, num_classes)
