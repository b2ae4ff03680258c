"""The four thresholds of the diagnostics, frozen like every report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec

from fa_core.report.numbers import as_float, brief

Frozen = TypeVar("Frozen", bound=type[Any])


def refuse_changes(cls: Frozen) -> Frozen:
    """Class decorator: the error of setting or deleting an attribute points to `with_thresholds`.

    Each subclass needs the decorator, since msgspec overrides these methods in every frozen class.
    """
    cls.__setattr__ = _refuse
    cls.__delattr__ = _refuse  # type: ignore[assignment]  # one refusal for both
    return cls


def _refuse(instance: object, name: str, value: object = None) -> NoReturn:
    hint = (
        "report.with_thresholds(DiagnosticThresholds(...)) gives a report that is judged by others"
    )
    raise AttributeError(f"{name} cannot be changed, reports and thresholds are immutable; {hint}")


NEVER_NEGATIVE: Mapping[str, str] = {
    "g_norm_floor": "a gradient norm",
    "h_norm_explosion_ratio": "growth per block",
}
"""Threshold that must not be negative → name of its number, which never is."""

_FromZero = Annotated[float, msgspec.Meta(ge=0.0)]
"""Type of these thresholds for decoders, which report the location."""


@refuse_changes
class DiagnosticThresholds(msgspec.Struct, frozen=True):
    """The four thresholds. Comparisons are strict: a value equal to its threshold does not fire.

    Numbers of any type are taken; they become floats.

    Attributes:
        g_norm_floor: (b) fires below this ‖g_L‖ (batch-averaged CE, so it carries 1/B).
        h_norm_explosion_ratio: (a) fires above this growth per block (a ratio).
        stability_drift_ceiling: (c) fires above this mean pairwise cosine (in [-1, 1]).
        frozen_acc_margin_pp: (d) fires below this margin over the frozen baseline (percentage
            points).

    Raises:
        ValueError: if a threshold is NaN, or negative where that makes no sense (`NEVER_NEGATIVE`).
        UsageError: if a threshold is no number.

    >>> DiagnosticThresholds(1e-8, 12.0).h_norm_explosion_ratio
    12.0
    """

    g_norm_floor: _FromZero = 1e-7
    h_norm_explosion_ratio: _FromZero = 50.0
    stability_drift_ceiling: float = 0.30
    frozen_acc_margin_pp: float = 2.0

    def __post_init__(self) -> None:
        # runs for each report of a file: faster than over `numbers`
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is float and value > 0:
                continue
            # equal thresholds are written alike: -0.0 equals 0.0
            value = as_float(value, f"threshold {name}") or 0.0
            msgspec.structs.force_setattr(self, name, value)
            if math.isnan(value):
                raise ValueError(f"threshold {name} is NaN: give a number")
            if value < 0 and name in NEVER_NEGATIVE:
                why = f"{NEVER_NEGATIVE[name]} is never negative"
                raise ValueError(f"threshold {name} is {brief(value)}: {why}")

    def numbers(self) -> dict[str, float]:
        """The thresholds by name."""
        return msgspec.structs.asdict(self)


PROTOCOL = DiagnosticThresholds()
"""The protocol's thresholds (docs/protocol.md §3)."""
