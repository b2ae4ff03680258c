"""Conversion of hidden states to one vector per sample or per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fa_core.errors import TapError

AS_IS = "as is"
FLATTENED = "flattened"
CLS_TOKEN = "cls token"
LAST_TOKEN = "last token"
READ_TOKEN = "read token"
PER_TOKEN = "per token"


@dataclass(frozen=True)
class Flattening:
    """How states become one vector per sample.

    Attributes:
        way: ``"as is"``, ``"flattened"``, ``"cls token"``, ``"last token"``, ``"read token"`` or
            ``"per token"``.
        tokens: (B,), the token of every sample that the head reads; for ``"per token"`` (B, T)
            bool, the labels that are not ignored; None if the whole state is the vector.
    """

    way: str
    tokens: Tensor | None = None

    @classmethod
    def of(cls, hidden: Sequence[Tensor], g_L: Tensor) -> Flattening:
        """Flattening of one network's states.

        (B, d) is taken as is and (B, C, H, W) flattened. A token stream (B, T, d) is read at one
        token per sample if the head reads only that one: ∂CE/∂h_L is then exactly zero at every
        other token. ``"cls token"`` is the first of every sample, ``"last token"`` the last,
        ``"read token"`` any other (e.g. the last before padding). Otherwise, also if that gradient
        is zero everywhere, the stream is flattened.

        Args:
            hidden: h_0..h_L, each (B, ...).
            g_L: the gradient at h_L, shaped like it.

        Raises:
            TapError: one token is read, and the number of tokens changes between states.

        Source: docs/protocol.md §2.
        """
        way = choose_way(hidden, g_L)
        if way in (AS_IS, FLATTENED):
            return cls(way)
        return cls(way, read_tokens(g_L))

    def vectors(self, state: Tensor) -> Tensor:
        """`state`, (B, ...), as one vector per sample.

        Returns:
            (B, D); for ``"per token"`` (n, d), of the n labels not ignored.

        >>> Flattening(LAST_TOKEN, torch.tensor([4, 4])).vectors(torch.zeros(2, 5, 3)).shape
        torch.Size([2, 3])
        """
        if self.tokens is None:
            return state.flatten(1)
        if self.way == PER_TOKEN:
            return by_position(state)[self.tokens]
        places = self.tokens[:, None, None]
        return torch.take_along_dim(state, places, dim=1).squeeze(1)

    def moved(self, state: Tensor, steps: Tensor) -> Tensor:
        """The state plus each of M steps, which are given as vectors (see `vectors`).

        Args:
            state: (B, ...).
            steps: (M, B, D).

        Returns:
            (M, B, ...).

        >>> flattening = Flattening(READ_TOKEN, torch.tensor([0, 1]))
        >>> moved = flattening.moved(torch.zeros(2, 5, 3), torch.ones(4, 2, 3))
        >>> moved.sum(dim=(1, 3))[0].tolist()
        [3.0, 3.0, 0.0, 0.0, 0.0]
        """
        if self.tokens is None:
            return state + steps.reshape(len(steps), *state.shape)
        moved = state.expand(len(steps), *state.shape).clone()
        samples = torch.arange(len(state), device=state.device)
        moved[:, samples, self.tokens] += steps
        return moved


def choose_way(hidden: Sequence[Tensor], g_L: Tensor) -> str:
    """The way of a network's states (see `Flattening.of`).

    Args:
        hidden: h_0..h_L, each (B, ...).
        g_L: the gradient at h_L.

    Raises:
        TapError: as for `Flattening.of`.
    """
    if all(h.dim() == 2 for h in hidden):
        return AS_IS
    if any(h.dim() != 3 or h.shape[1] == 1 for h in hidden):
        return FLATTENED
    read = (g_L != 0).any(dim=-1).sum(dim=-1).amax()
    lowest, highest = read_tokens(g_L).aminmax()
    if read != 1:
        return FLATTENED
    _check_same_tokens(hidden)
    if highest == 0:
        return CLS_TOKEN
    if lowest == g_L.shape[1] - 1:
        return LAST_TOKEN
    return READ_TOKEN


def _check_same_tokens(hidden: Sequence[Tensor]) -> None:
    tokens = hidden[-1].shape[1]
    for l, h in enumerate(hidden):
        if h.shape[1] != tokens:
            raise TapError(
                f"h_{l} has {h.shape[1]} tokens, h_{len(hidden) - 1} has {tokens}, "
                "of which the head reads one",
                hint="tap states that hold the same tokens, or give a function that returns "
                "that token's states (B, d)",
            )


def read_tokens(g_L: Tensor) -> Tensor:
    """The first token of every sample with a nonzero gradient.

    For a sample without one (a loss of exactly 0): the lower median of the other samples' tokens.

    Args:
        g_L: (B, T, d).

    Returns:
        (B,) int64.

    >>> g = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]])
    >>> read_tokens(g[..., None]).tolist()
    [1, 1, 1]
    """
    nonzero = (g_L != 0).any(dim=-1)
    unknown = ~nonzero.any(dim=-1)
    tokens = nonzero.int().argmax(dim=-1)
    known = torch.where(unknown, torch.nan, tokens.float())
    median = known.nanmedian(dim=-1, keepdim=True).values
    return torch.where(unknown, median.nan_to_num().long(), tokens)


def check_states(hidden: Sequence[Tensor], names: Sequence[str], batch_size: int) -> None:
    """Refuse states whose first axis is not the batch.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() < 2 or h.shape[0] != batch_size:
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for a batch of {batch_size}",
                hint="a hidden state is (B, d), (B, T, d) or (B, C, H, W); where the batch is "
                "a later axis, give a function (model, x) -> (logits, states) that moves it to "
                "the front, "
                "e.g. h.transpose(0, 1)",
            )


def by_position(values: Tensor) -> Tensor:
    """Images as tokens: (B, d, H, W) as (B, H·W, d); any other shape as it is.

    >>> by_position(torch.zeros(2, 3, 4, 5)).shape, by_position(torch.zeros(2, 4, 3)).shape
    (torch.Size([2, 20, 3]), torch.Size([2, 4, 3]))
    """
    if values.dim() == 4:
        return values.flatten(2).transpose(1, 2)
    return values


def check_tokens(hidden: Sequence[Tensor], names: Sequence[str], label_mask: Tensor) -> None:
    """Refuse states without one vector per label.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() not in (3, 4) or by_position(h).shape[:2] != label_mask.shape:
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for labels {tuple(label_mask.shape)}",
                hint="labels (B, T) need states (B, T, d), labels (B, H, W) states (B, d, H, W): "
                "tap the blocks that give one vector per token or pixel",
            )
