"""The commands of `fa-tui`, each a function ``NAME_command`` in a module of its own or with its like. Imports none."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

COMMANDS = (
    "open",
    "show",
    "audit",
    "check",
    "seeds",
    "sweep",
    "utility",
    "timeline",
    "report",
    "train",
    "verify",
    "pitfalls",
    "serve",
    "schema",
    "doctor",
)

_MODULES = {"show": "verdicts", "check": "verdicts", "seeds": "analyses", "sweep": "analyses", "utility": "analyses"}
"""Where a command is that has no module of its name."""

INTRO = """Audit networks trained without backprop: four diagnostics, one verdict.

`fa-tui PATH…` opens the explorer; without a path it opens the sample runs.
Results go to stdout, progress and messages to stderr. Add --debug to any command for a traceback.
"""


def build(names: Sequence[str]) -> typer.Typer:
    """The command-line application with the named commands."""
    import typer

    from fa_tui.options import expanded

    app = typer.Typer(
        add_completion=False, no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False, help=INTRO
    )
    app.callback()(_intro)
    for name in names:
        module = importlib.import_module(f"fa_tui.commands.{_MODULES.get(name, name)}")
        app.command(name)(expanded(getattr(module, f"{name}_command")))
    return app


@functools.cache
def command(name: str) -> Any:
    """One command, as click holds it."""
    import typer

    group: Any = typer.main.get_command(build((name,)))
    return group.commands[name]


def _intro() -> None:
    pass


_intro.__doc__ = INTRO
