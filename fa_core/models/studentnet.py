"""StudentNet: a residual MLP without any LayerNorm, the counter-example to the collapse."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.models.residual_mlp import ResidualMLP


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

    Source: PROTOCOL §6 (d=128, L=4, on synthetic data), §11 ("no LN").
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
