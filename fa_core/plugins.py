"""Entry points of other packages: methods, networks, data sets, formats; imported on use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fa_core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METHODS, MODELS, DATA, FORMATS = (
    "fa_core.methods",
    "fa_core.models",
    "fa_core.data",
    "fa_core.formats",
)
"""The entry-point groups, described in docs/extend.md."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of the installed packages."""
    # 8 ms, which the explorer's start does not need
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def load_plugin(point: EntryPoint) -> Any:
    """Import an entry point. The name must come from the user, never from a file.

    Raises:
        UsageError: it does not import.
    """
    try:
        return point.load()
    except Exception as error:
        raise UsageError(
            f"does not import ({type(error).__name__}: {error})", where=place(point)
        ) from error


def tried(point: EntryPoint) -> tuple[Any, str]:
    """Import an entry point; the second value is the error, or ``""``."""
    try:
        return load_plugin(point), ""
    except UsageError as error:
        return None, str(error)


def place(point: EntryPoint) -> str:
    """An entry point's location, for messages."""
    return f"entry point {point.name} = {point.value}"
