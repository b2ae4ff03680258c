"""How a hidden state becomes one vector per sample."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fa_core.errors import TapError

AS_IS = "as is"
FLATTENED = "flattened"
CLS_TOKEN = "cls token"


def choose_flatten(hidden: Sequence[Tensor], g_L: Tensor) -> str:
    """How this network's states become vectors: ``"as is"``, ``"flattened"`` or ``"cls token"``.

    (B, d) is taken as is and (B, C, H, W) flattened. A token stream (B, T, d) stands for its first
    token where the head reads only that one, which shows in ∂CE/∂h_L: it is exactly zero at every
    other token. Else it is flattened; also where that gradient is zero everywhere, as nothing shows then.

    Args:
        hidden: h_0..h_L, each (B, ...).
        g_L: the gradient at h_L, shaped like it.

    Source: PROTOCOL §2.
    """
    return choose_flattens([h[None] for h in hidden], g_L[None])[0]


def choose_flattens(hidden: Sequence[Tensor], g_L: Tensor) -> list[str]:
    """`choose_flatten` for N networks of one shape.

    Args:
        hidden: h_0..h_L, each (N, B, ...).
        g_L: the gradients at h_L, (N, B, ...).

    Returns:
        N choices.
    """
    if all(h.dim() == 3 for h in hidden):
        return [AS_IS] * len(g_L)
    if not all(h.dim() == 4 and h.shape[2] > 1 for h in hidden):
        return [FLATTENED] * len(g_L)
    nothing_else = (g_L[:, :, 1:] == 0).flatten(1).all(dim=1)
    something = (g_L[:, :, 0] != 0).flatten(1).any(dim=1)
    return [CLS_TOKEN if only else FLATTENED for only in (nothing_else & something).tolist()]


def vectors(state: Tensor, flatten: str) -> Tensor:
    """`state` as one vector per sample.

    Args:
        state: (B, ...).
        flatten: from `choose_flatten`.

    Returns:
        (B, D), a view where possible.

    >>> import torch
    >>> vectors(torch.zeros(2, 5, 3), CLS_TOKEN).shape
    torch.Size([2, 3])
    """
    return (state[:, 0] if flatten == CLS_TOKEN else state).flatten(1)


def member_vectors(state: Tensor, flatten: str) -> Tensor:
    """`vectors` for N networks of one shape: (N, B, ...) → (N, B, D)."""
    return (state[:, :, 0] if flatten == CLS_TOKEN else state).flatten(2)


def check_states(hidden: Sequence[Tensor], names: Sequence[str], batch_size: int) -> None:
    """Refuse states whose first axis is not the batch.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() < 2 or h.shape[0] != batch_size:
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for a batch of {batch_size}",
                hint="a hidden state is (B, d), (B, T, d) or (B, C, H, W)",
            )


def into_state(steps: Tensor, state: Tensor, flatten: str) -> Tensor:
    """The state moved by steps given as vectors: the inverse of `vectors`, for M steps at once.

    Args:
        steps: (M, B, D).
        state: (B, ...).
        flatten: from `choose_flatten`.

    Returns:
        (M, B, ...).

    >>> import torch
    >>> into_state(torch.ones(4, 2, 3), torch.zeros(2, 5, 3), CLS_TOKEN).sum(dim=(1, 3))[0].tolist()
    [6.0, 0.0, 0.0, 0.0, 0.0]
    """
    if flatten != CLS_TOKEN:
        return state + steps.reshape(len(steps), *state.shape)
    moved = state.expand(len(steps), *state.shape).clone()
    moved[:, :, 0] += steps
    return moved
