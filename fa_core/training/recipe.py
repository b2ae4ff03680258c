"""How a run is trained: optimizer, schedule, batch, length. Plain values, no torch."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from fa_core.errors import UsageError
from fa_core.naming import unknown_name

OPTIMIZERS = ("adamw", "adam", "sgd")
SCHEDULES = ("cosine", "constant")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """The training recipe; the defaults are the published one but for its length.

    Attributes:
        epochs: passes over the training samples.
        lr: learning rate at the start.
        weight_decay: decoupled for AdamW.
        schedule: ``"cosine"`` (to 0 over all steps) or ``"constant"``.
        batch_size: samples per step; what is left over at the end of an epoch is dropped.
        lam: λ of the penalty λ·Σ_l mean ‖f_l(h_l)‖².
        optimizer: ``"adamw"``, ``"adam"`` or ``"sgd"``.

    Raises:
        UsageError: a value that cannot be meant.

    Source: PROTOCOL §5 (AdamW, 1e-3, 0.01, cosine, 128; 100 epochs, 30 with penalty).
    """

    epochs: int = 30
    lr: float = 1e-3
    weight_decay: float = 0.01
    schedule: Literal["cosine", "constant"] = "cosine"
    batch_size: int = 128
    lam: float = 0.0
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, OPTIMIZERS)
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", self.schedule, SCHEDULES)
        for name, value, lowest in (
            ("epochs", self.epochs, 0),
            ("batch_size", self.batch_size, 1),
            ("weight_decay", self.weight_decay, 0),
            ("lam", self.lam, 0),
        ):
            if not value >= lowest or math.isinf(value):
                raise UsageError(f"{name} is {value}", hint=f"give a number of at least {lowest}")
        if not self.lr > 0 or math.isinf(self.lr):
            raise UsageError(f"lr is {self.lr}", hint="give a number above 0")

    def lr_at(self, step: int, total: int) -> float:
        """Learning rate of step 0..total−1: lr·½(1 + cos(π·step/total)), or lr if constant.

        >>> Recipe(lr=0.1).lr_at(50, 100)
        0.05
        """
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1.0 + math.cos(math.pi * step / max(total, 1)))
