"""Frozen structs whose refusal says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

Frozen = TypeVar("Frozen", bound=type[Any])


def refuse_changes(cls: Frozen) -> Frozen:
    """Class decorator: setting or deleting an attribute names `with_thresholds`.

    msgspec's own refusal says neither why nor what to do. Each subclass needs the decorator, since
    msgspec gives every frozen class its own refusal.
    """
    cls.__setattr__ = _refuse
    cls.__delattr__ = _refuse  # type: ignore[assignment]  # one refusal for both
    return cls


def _refuse(instance: object, name: str, value: object = None) -> NoReturn:
    hint = (
        "report.with_thresholds(DiagnosticThresholds(...)) gives a report that is judged by others"
    )
    raise AttributeError(f"{name} cannot be changed, reports and thresholds are immutable; {hint}")
