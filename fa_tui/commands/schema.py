"""`fa-tui schema`: JSON Schema of the files written."""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.formats.schema import SCHEMAS, schema_of
from fa_core.option_values import unknown_name
from fa_tui.commands import output
from fa_tui.settings import Settings

_NAME = typer.Argument(
    metavar="[NAME]", help="Which kind of file; default: lists them.", show_default=False
)


def schema_command(name: Annotated[str | None, _NAME] = None) -> None:
    """Print the JSON Schema of a file kind.

    Without a name, the kinds there are.

    Examples:

        fa-tui schema

        fa-tui schema report > report.schema.json

        fa-tui schema settings
    """
    schemas = {**SCHEMAS, "settings": Settings}
    if name is None:
        print("\n".join(schemas))
    elif name in schemas:
        output.print_json(schema_of(schemas[name]))
    else:
        raise unknown_name("schema", name, schemas)
