"""Reports decoded for their numbers alone, in four fifths of the time of `DiagnosticReport`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from fa_core.report import DiagnosticReport, DiagnosticThresholds

Lean: TypeAlias = Any
"""The attributes of `DiagnosticReport`, and `kept_verdict`: the verdict a file kept beside the report's own."""


def lean_type(seen: Callable[[Lean], object] | None = None) -> type[msgspec.Struct]:
    """A struct that refuses what `DiagnosticReport` refuses, but for thresholds that are NaN.

    All its empty lists and dicts are one ``()``.

    Args:
        seen: called with every one that is decoded.
    """
    numbers = [(field.name, field.type, 0.0) for field in msgspec.structs.fields(DiagnosticThresholds)]
    thresholds = msgspec.defstruct("LeanThresholds", numbers, gc=False)
    fields: list[tuple[str, Any, Any]] = [
        ("kept_verdict", str | None, msgspec.field(default=None, name="recorded_verdict"))
    ]
    for field in msgspec.structs.fields(DiagnosticReport):
        kind = thresholds if field.type is DiagnosticThresholds else field.type
        default = () if field.default is msgspec.NODEFAULT else field.default
        fields.append((field.name, kind, msgspec.field(default=default, name=field.encode_name)))
    namespace = {} if seen is None else {"__post_init__": seen}
    return msgspec.defstruct("LeanReport", fields, gc=False, namespace=namespace)


def lean_decoder() -> Callable[[bytes], dict[str, Lean] | None]:
    """A decoder of objects of reports that loses none: other decoders drop the first of two with one key.

    The decoder raises ValueError for a key that stands twice, and returns None for what it refuses.
    """
    seen: list[Lean] = []
    decoder = msgspec.json.Decoder(dict[str, lean_type(seen.append)])  # type: ignore[misc]  # a type of its own

    def decode(data: bytes) -> dict[str, Lean] | None:
        try:
            reports: dict[str, Lean] = decoder.decode(data)
            if len(reports) < len(seen):
                raise ValueError("a key stands twice")
            return reports
        except msgspec.DecodeError:
            return None
        finally:
            seen.clear()

    return decode


def recorded_verdicts(reports: Iterable[Lean]) -> list[str | None]:
    """The verdict texts found in the file; what it kept beside the report's own goes before that."""
    return [report.recorded_verdict if report.kept_verdict is None else report.kept_verdict for report in reports]
