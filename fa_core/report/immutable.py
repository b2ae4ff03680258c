"""Frozen structs with a helpful error on assignment."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

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
