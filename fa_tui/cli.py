"""The command line: `fa-tui PATH…` opens the explorer; everything else is a command of its own.

Only the command that was typed is imported, so that the explorer starts as fast as it can.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import typer

from fa_core.errors import FaError

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
    "schema",
    "doctor",
)

INTRO = """Audit networks trained without backprop: four diagnostics, one verdict.

`fa-tui PATH…` opens the explorer; without a path it opens the sample runs.
Results go to stdout, progress and messages to stderr. Add --debug to any command for a traceback.
"""


def build(names: Sequence[str]) -> typer.Typer:
    """The command-line application with the named commands."""
    app = typer.Typer(
        add_completion=False, no_args_is_help=False, rich_markup_mode=None, pretty_exceptions_enable=False, help=INTRO
    )
    app.callback()(_intro)
    for name in names:
        importlib.import_module(f"fa_tui.commands.{name}").register(app)
    return app


def _intro() -> None:
    pass


_intro.__doc__ = INTRO


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fa-tui` and return its exit code: 0 fine, 1 some walk-back, 2 usage, 3 unreadable input."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = _take(args, "--debug")
    if args[:1] == ["--version"]:
        from fa_core import __version__

        print(f"fa-tui {__version__}")
        return 0
    wants_help = args[:1] in (["--help"], ["-h"])
    if wants_help:
        args = ["--help"]
    elif not args or args[0] not in COMMANDS:
        args = ["open", *args]
    try:
        app = build(COMMANDS if wants_help else (args[0],))
        app(args=args, prog_name="fa-tui", standalone_mode=True)
    except SystemExit as stop:
        return _flush(stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1)
    except FaError as error:
        if debug:
            raise
        print(f"fa-tui: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return _stdout_closed()
    except KeyboardInterrupt:
        print("fa-tui: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if debug:
            raise
        kind = type(error).__name__
        print(f"fa-tui: internal error ({kind}: {error}); run again with --debug and report it", file=sys.stderr)
        return 70
    return _flush(0)


def _take(args: list[str], flag: str) -> bool:
    """Remove a flag that may stand anywhere before ``--``; tell whether it was there."""
    end = args.index("--") if "--" in args else len(args)
    if flag not in args[:end]:
        return False
    args.remove(flag)
    return True


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _stdout_closed()
    return code


def _stdout_closed() -> int:
    """The reader went away (`| head -1`): it has what it wanted, so say nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
