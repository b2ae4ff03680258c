"""`fa-tui settings`: list, get and set what the settings file holds."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from fa_core.option_values import unknown_name
from fa_tui.commands import output


def settings_command(
    action: Annotated[Literal["list", "get", "set"], typer.Argument(help="What to do.")] = "list",
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Which, such as thresholds.g_norm_floor.")
    ] = "",
    value: Annotated[str, typer.Argument(metavar="[VALUE]", help="For `set`.")] = "",
) -> None:
    """List, get or set the explorer's settings.

    Comments in the settings file stay as they are; a value that does not fit is refused.

    Examples:

        fa-tui settings

        fa-tui settings get theme

        fa-tui settings set thresholds.h_norm_explosion_ratio 12
    """
    from fa_tui.settings import load_settings, named_values, remember, settings_file, written

    if action == "set":
        print(output.link(remember(name, value)))
        return
    loaded = load_settings()
    for problem in loaded.problems:
        print(f"fa-tui: {problem.message}", file=sys.stderr)
    values = named_values(loaded.settings)
    if action == "list":
        print(
            f"# {settings_file()}",
            *(f"{key} = {written(one)}" for key, one in values.items()),
            sep="\n",
        )
    elif name in values:
        print(written(values[name]).strip('"'))
    else:
        raise unknown_name("setting", name, values)
