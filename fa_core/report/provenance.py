"""Nested parts of a report: the fields of ``provenance`` and ``credit`` that the program reads, and
measurements beside the diagnostics."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeAlias, TypedDict

import msgspec

from fa_core.files.decode import Json

BASELINE_FROM = "frozen_baseline_from"
"""Source of a baseline that was not in the run's manifest."""

BASELINE_RULE = "frozen_baseline_rule"
"""The rule that trained the frozen net, if not the run's own."""

OTHER_BASELINES = "other_frozen_baselines"
"""Accuracies of frozen nets trained by other rules: rule → fraction."""

TRAINED_ON = "trained_on"
"""Hash of the training data; a run may be measured on other data."""

GIVEN = "given"
"""Value of `BASELINE_FROM` for a baseline given by the user."""

CUSTOM_BACKWARD = "custom_backward"
"""Names of modules and functions with their own backward pass."""

GRADIENT_BY = "gradient_by"
"""Computation of the gradient of such a network; absent: by its own backward pass."""

BATCH_SIZES = "batch_sizes"
"""B of every eval batch; absent: all have ``batch_size``."""

MOST_BATCHES = 2**14
"""Maximum K of batches that differ in size."""

LOSS = "loss"
"""Name of the loss whose gradients were measured; absent: `CE`."""

CE = "ce"
"""Cross entropy, the protocol's loss."""

_HASH = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")


def fact_text(value: object) -> str:
    """A recorded fact to be read: hashes abbreviated, and in the singular."""
    return _HASH.sub(r"\1…", str(value)).replace(", 1 threads", ", 1 thread")


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
"""A count of at least one."""

MOST_LAYERS = 10_000
"""Maximum L, that of the deepest published network."""

Norms: TypeAlias = Annotated[list[float], msgspec.Meta(max_length=MOST_LAYERS)]
"""One norm per layer."""

Series: TypeAlias = Annotated[list[float | None], msgspec.Meta(max_length=MOST_LAYERS)]
"""One number per layer, block or draw; None = undefined."""


class _Null(TypedDict, total=False):
    gamma: Series
    deep_gamma_mean: float | None
    deep_gamma_std: float | None
    rank: float | None


class Credit(TypedDict, total=False):
    """The ``credit`` fields the program reads, with their types."""

    gamma: Series
    rho: Series
    nudge: Series
    zeros: Series
    gamma_L: float | None
    free_layers: list[int]
    null: _Null
    missing: Json


class Provenance(TypedDict, total=False):
    """The ``provenance`` fields the program reads, with their types."""

    arch_args: Json
    batch_sizes: Annotated[list[Count], msgspec.Meta(min_length=2, max_length=MOST_BATCHES)]
    checkpoint: str | None
    classes: Count
    fan_in: Annotated[float, msgspec.Meta(gt=0)]
    custom_backward: list[str]
    epochs_done: int
    method_args: Json
    other_frozen_baselines: dict[str, float]
    recipe: Json
    settings: Json
    hashes: dict[str, str]
    files: list[list[int]]
    loss: str
    versions: Json


Interval: TypeAlias = tuple[float, float]
"""Low and high end."""

Intervals: TypeAlias = dict[str, Interval]
"""Name of a number → its interval."""

EXACT_ABOVE = 1 - 5e-7
"""Cosine with float64 that prints as 1.000000."""


class ReferencePrecision(msgspec.Struct, frozen=True, kw_only=True):
    """How the gradients that were measured compare with float64 ones, per layer l = 0..L.

    Attributes:
        cosine: mean over samples of cos(g_l as measured, g_l in float64); None where no sample has
            both.
        worst: the smallest of them.
        norm_ratio: median ‖g_l‖ as measured over the one in float64; None where the latter is 0.
        lost: samples whose gradient is 0 as measured and not in float64.
        samples: B.
        dtype: the arithmetic that is judged.

    Source: docs/protocol.md, *Is the reference valid?*
    """

    cosine: Series
    worst: Series
    norm_ratio: Series
    lost: list[int]
    samples: int
    dtype: str = "float32"

    @property
    def lowest(self) -> float | None:
        """The smallest cosine of any sample at any layer, NaN before others; None without one."""
        known = [cosine for cosine in self.worst if cosine is not None]
        return min(known, key=lambda value: (not math.isnan(value), value), default=None)

    @property
    def is_exact(self) -> bool:
        """Whether every gradient has its direction, to six digits, and none is lost."""
        lowest = self.lowest
        return lowest is not None and lowest >= EXACT_ABOVE and not any(self.lost)


class MeanError(msgspec.Struct, frozen=True, kw_only=True):
    """The mean error ē_T = mean prediction − label frequencies over all batches, and its part of
    (c).

    Attributes:
        cosine: the part of (c)'s mean cosine that it makes; (c) − cosine is of the other errors.
        norm: ‖ē_T‖.
        label: the class whose mean prediction is farthest from its frequency.
        excess: by how much, a difference of probabilities; negative: predicted too rarely.

    Source: docs/protocol.md, *What (c) measures*.
    """

    cosine: float
    norm: float
    label: int
    excess: float


class DepthAblation(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracies of one network with parts of it taken out; fractions in [0, 1].

    Attributes:
        accuracy: of the whole network.
        accuracy_without: per block l = 0..L-1, with the block replaced by the identity on the
            stream, h_{l+1} = h_l; None where that cannot be: the block changes the state's shape,
            or what is left without its branch is not h_l, as in r·h + f(h).
        samples: how many samples, or tokens, the accuracies are over.

    Source: docs/protocol.md, *Depth without retraining*.
    """

    accuracy: float
    accuracy_without: Series
    samples: int = 0

    @property
    def most_used(self) -> int | None:
        """The block without which accuracy falls most; None without a block to take out."""
        known = [acc for acc in self.accuracy_without if acc is not None]
        if not known:
            return None
        return self.accuracy_without.index(min(known))
