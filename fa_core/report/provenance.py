"""Names and types of the fields of ``provenance`` and ``credit`` that the program reads."""

from __future__ import annotations

from typing import Annotated, TypedDict

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

LOSS = "loss"
"""Name of the loss whose gradients were measured; absent: `CE`."""

CE = "ce"
"""Cross entropy, the protocol's loss."""


class _Null(TypedDict, total=False):
    gamma: list[float | None]
    deep_gamma_mean: float | None
    deep_gamma_std: float | None
    rank: float | None


class Credit(TypedDict, total=False):
    """The ``credit`` fields the program reads, with their types."""

    gamma: list[float | None]
    rho: list[float | None]
    nudge: list[float | None]
    zeros: list[float | None]
    gamma_L: float | None
    free_layers: list[int]
    null: _Null


class Provenance(TypedDict, total=False):
    """The ``provenance`` fields the program reads, with their types."""

    batch_sizes: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]], msgspec.Meta(min_length=2)]
    checkpoint: object
    classes: object
    fan_in: Annotated[float, msgspec.Meta(gt=0)]
    custom_backward: list[str]
    other_frozen_baselines: dict[str, float]
    settings: Json
    hashes: Json
    loss: str
    versions: Json


def has_gamma(credit: Json | None) -> bool:
    """Whether Γ was measured in some layer.

    >>> has_gamma({"gamma": [None, 0.5]}), has_gamma({"gamma": [None]}), has_gamma(None)
    (True, False, False)
    """
    layers = (credit or {}).get("gamma") or ()
    return any(value is not None for value in layers)
