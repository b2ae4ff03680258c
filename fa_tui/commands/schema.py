"""`fa-tui schema`: JSON Schema of the files written; `completion`: files for shells and `man`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from fa_tui.commands import output

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
    from fa_core.formats.schema import SCHEMAS, schema_of
    from fa_core.option_values import unknown_name
    from fa_tui.settings import Settings

    schemas = {**SCHEMAS, "settings": Settings}
    if name is None:
        print("\n".join(schemas))
    elif name in schemas:
        output.print_json(schema_of(schemas[name]))
    else:
        raise unknown_name("schema", name, schemas)


_SHELL = typer.Argument(metavar="SHELL", help="bash, zsh or fish; or man.")


def completion_command(shell: Annotated[Literal["bash", "zsh", "fish", "man"], _SHELL]) -> None:
    """Print the completion script of a shell, or the manual page.

    Examples:

        source <(fa-tui completion bash)   # in ~/.bashrc

        fa-tui completion zsh > ~/.zfunc/_fa-tui

        fa-tui completion fish > ~/.config/fish/completions/fa-tui.fish

        fa-tui completion man > ~/.local/share/man/man1/fa-tui.1
    """
    # written by docs/shells.py, so that no command is imported
    text = (Path(__file__).parents[1] / "shells" / f"fa-tui.{shell}").read_bytes()
    sys.stdout.flush()
    sys.stdout.buffer.write(text)
