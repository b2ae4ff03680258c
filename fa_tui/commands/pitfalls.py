"""`fa-tui pitfalls`: the seven demonstrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from fa_tui import options
from fa_tui.commands import output
from fa_tui.samples import sample_runs

if TYPE_CHECKING:
    from fa_core.pitfalls import Demonstration


def pitfalls_command(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="[NAME]…",
            help="Which, by name or number; default: all seven.",
        ),
    ] = None,
    format: options.FormOption = "table",
) -> None:
    """Compute seven pitfalls: the wrong and the right value.

    Examples:

        fa-tui pitfalls

        fa-tui pitfalls norm-axis 2
    """
    from fa_core.pitfalls import PITFALLS, SAMPLE, demonstrate  # imports torch

    shown = demonstrate(names or PITFALLS, sample_runs() / SAMPLE)
    lines: list[str] = []
    for one in shown:
        lines += [*explained(one), ""]
    output.print_result(format, [one.to_dict() for one in shown], lines[:-1])


def explained(one: Demonstration) -> Iterator[str]:
    """A demonstration as text."""
    yield f"{one.number}. {one.name}: {one.texts['title']}"
    versions = ", ".join(f"{name} {version}" for name, version in one.versions.items())
    yield f"   on {one.ran_on}, {versions}"
    for side, values in (("wrong", one.wrong), ("right", one.right)):
        for what, value in values.items():
            yield f"   {side}  {what} = {_value(value)}"
    yield f"   why    {one.texts['why']}"
    yield f"   write  {one.texts['instead']}"


def _value(value: object) -> str:
    if value is None:
        return "N/A"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value)
