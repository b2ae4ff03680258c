"""The command line: `fa-tui PATH…` opens the explorer; everything else is a command of its own.

Only the command that was typed is imported, so that the explorer starts as fast as it can.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from fa_core.errors import FaError, UsageError
from fa_tui import opening
from fa_tui.commands import output

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
    "replicate",
    "verify",
    "pitfalls",
    "serve",
    "schema",
    "settings",
    "completion",
    "doctor",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fa-tui` and return its exit code: 0 fine, 1 some walk-back, 2 usage, 3 unreadable input."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = _take(args, "--debug")
    if debug:
        os.environ["FA_TUI_DEBUG"] = "1"
    wants_help = args[:1] in (["--help"], ["-h"])
    if wants_help:
        args = ["--help"]
    elif not args or args[0] not in (*COMMANDS, "--version"):
        args = ["open", *args]
    # its exit code is its answer, also where its output is not read
    answers_by_code = args[0] == "check"
    try:
        _interrupted_once()
        output.prepare(silent=answers_by_code)
        if args[0] == "--version":
            from fa_core import __version__

            print(f"fa-tui {__version__}")
            return _flush(0)
        if args[0] == "open":
            _catch_misspelling(args)
            # 9 ms sooner than through Typer
            if not any(arg.startswith("-") for arg in args) and opening.on_a_terminal():
                return _flush(opening.open_explorer([Path(arg) for arg in args[1:]]))
        return _flush(_dispatch(args, COMMANDS if wants_help else (args[0],)), answers_by_code)
    except FaError as error:
        return _complain(error, str(error), error.exit_code, debug)
    except BrokenPipeError:
        output.silence()
        return 0
    except KeyboardInterrupt as error:
        # a signal says which it was
        return _complain(error, str(error) or "interrupted", getattr(error, "exit_code", 130), debug)
    except Exception as error:
        # an error about a file has the file's name
        if isinstance(error, OSError) and error.errno in output.NO_ROOM and error.filename is None:
            output.silence()
            return _complain(error, f"cannot print the result ({error.strerror})", 3, debug)
        kind = type(error).__name__
        return _complain(error, f"internal error ({kind}: {error}); run again with --debug and report it", 70, debug)


def _interrupted_once() -> None:
    """Let the first Ctrl-C stop the program, and no further one disturb the keeping of what is finished."""
    before = signal.getsignal(signal.SIGINT)
    if getattr(before, "__name__", "") != "leave":
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)


def _dispatch(args: list[str], names: Sequence[str]) -> int:
    """Run the command that the arguments name.

    Raises:
        UsageError: options or arguments that it does not take.
    """
    import typer

    from fa_tui.options import build

    # off while the program starts, and a command may run for hours
    gc.enable()
    command = typer.main.get_command(build(names))
    try:
        # not app(): it turns a closed stdout into exit code 1 and a wrong option into four lines
        with command.make_context("fa-tui", args) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # a usage error of the click that Typer carries privately
        raise UsageError(error.format_message().rstrip("."), hint=f"see `fa-tui {args[0]} --help`") from error
    return 0


def _complain(error: BaseException, message: str, code: int, debug: bool) -> int:
    """One line on stderr, after the traceback where it was asked for."""
    if debug:
        traceback.print_exception(error)
    # a terminal that is gone hears nothing
    with contextlib.suppress(OSError):
        print(f"fa-tui: {message}", file=sys.stderr)
    return code


def _catch_misspelling(args: Sequence[str]) -> None:
    """`fa-tui shwo x.json` means a command, not a path.

    Raises:
        UsageError: the first word is no path but nearly a command.
    """
    word = args[1] if len(args) > 1 else ""
    if not word or word.startswith("-") or Path(word).exists():
        return
    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)
    if near:
        raise UsageError(f"no command or path {word!r}", hint=f"did you mean `fa-tui {near[0]}`?")


def _take(args: list[str], flag: str) -> bool:
    """Remove a flag from before ``--``; whether it was there."""
    end = args.index("--") if "--" in args else len(args)
    if flag not in args[:end]:
        return False
    args.remove(flag)
    return True


def _flush(code: int, keep_code: bool = False) -> int:
    """Print what is still waiting; a reader that went away (`| head -1`) has what it wanted, so say nothing."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        output.silence()
        return code if keep_code else 0
    return code
