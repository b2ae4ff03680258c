"""The command line: `fa-tui PATH…` opens the explorer, all else are commands.

Only the typed command is imported, so that the explorer starts fast.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import itertools
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType

from fa_core import __version__
from fa_core.errors import INTERNAL_ERROR, FaError, UsageError
from fa_core.files.opening import exists
from fa_tui.commands import output
from fa_tui.terminal import abilities

COMMANDS = (
    "open",
    "show",
    "audit",
    "check",
    "diff",
    "seeds",
    "sweep",
    "utility",
    "timeline",
    "report",
    "train",
    "verify",
    "pitfalls",
    "doctor",
)
COMPLETION = ("--install-completion", "--show-completion")
"""Typer's options for the user's shell."""

_COMPLETING = "_FA_TUI_COMPLETE"
"""Set by a shell that asks for the words that may follow."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fa-tui` and return its exit code: 0 fine, 1 some walk-back, 2 usage, 3 unreadable
    input."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = _take(args, "--debug")
    if debug:
        os.environ["FA_TUI_DEBUG"] = "1"
    output.strict_json = _take(args, "--strict-json")
    wants_help = args[:1] in (["--help"], ["-h"])
    if wants_help:
        args = ["--help"]
    elif not args or args[0] not in (*COMMANDS, *COMPLETION, "--version"):
        args = ["open", *args]
    # its exit code is the answer, even if its output is not read
    answers_by_code = args[0] in ("check", "diff", "verify")
    try:
        if _COMPLETING in os.environ:
            return _complete()
        _interrupted_once()
        output.prepare(silent=answers_by_code)
        if args[0] == "--version":
            print(f"fa-tui {__version__}")
            return _flush(0)
        if args[0] == "open":
            _catch_misspelling(args)
            # 9 ms faster than through Typer
            plain = not any(arg.startswith("-") or not arg for arg in args)
            if plain and abilities.on_a_terminal():
                from fa_tui.opening import open_explorer  # Textual: for the explorer only

                return _flush(open_explorer([*map(Path, args[1:])]))
        of_all = wants_help or args[0] in COMPLETION
        return _flush(_dispatch(args, COMMANDS if of_all else (args[0],)))
    except BrokenPipeError:
        output.silence()
        return int(answers_by_code)
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exception(error)
        message, code = _outcome(error)
        # the terminal may be gone
        with contextlib.suppress(OSError):
            output.complain(message)
        return code


def _interrupted_once() -> None:
    """Let the first Ctrl-C stop the program, and ignore further ones while finished work is
    saved."""
    before = signal.getsignal(signal.SIGINT)
    if getattr(before, "__name__", "") != "leave":
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)


def _complete() -> int:
    """Answer a shell's question for completions, as Typer does."""
    from fa_tui.typer_app import command_of  # Typer: not before the explorer

    # as Typer's scripts for bash, and for zsh and fish, call the typed words
    typed = os.environ.get("COMP_WORDS", "") + os.environ.get("_TYPER_COMPLETE_ARGS", "")
    named = [word for word in typed.split() if word in COMMANDS]
    with contextlib.suppress(KeyError, ValueError):  # a shell whose script is another one
        command_of(named[:1] or COMMANDS)(prog_name="fa-tui")
    return 0


def _dispatch(args: list[str], names: Sequence[str]) -> int:
    """Run the command in the arguments.

    Raises:
        UsageError: invalid options or arguments.
    """
    # Typer: not before the explorer
    import typer

    from fa_tui.typer_app import command_of

    # it is off during the start, and a command may run for hours
    gc.enable()
    command = command_of(names)
    if len(names) == 1:
        _check_lists(args, command.commands[args[0]].params)
    try:
        # app() would turn a closed stdout into exit code 1 and a wrong option into four lines
        with command.make_context("fa-tui", args) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # a usage error of Typer's own copy of click
        raise UsageError(
            error.format_message().rstrip("."), hint=f"see `fa-tui {args[0]} --help`"
        ) from error
    return 0


_FILE_LIKE = re.compile(r"\.[A-Za-z]\w*$")


def _check_lists(args: Sequence[str], parameters: Iterable[object]) -> None:
    """Refuse a list separated by blanks, whose second item would be taken for a path.

    Raises:
        UsageError: with the correct list in the hint.
    """
    from typer.core import TyperOption  # Typer: not before the explorer

    lists: set[str] = set()
    for one in parameters:
        if isinstance(one, TyperOption) and one.multiple:
            lists.update(one.opts)
    for place, arg in enumerate(args, start=1):
        further = [*itertools.takewhile(_is_item, args[place + 1 :])] if arg in lists else []
        if further:
            items = ",".join([args[place], *further])
            raise UsageError("lists take commas", hint=f"write {arg} {items}")


def _is_item(word: str) -> bool:
    """Whether a word after a list is a further item: neither an option nor a file."""
    is_path = os.sep in word or _FILE_LIKE.search(word) or exists(word)
    return bool(word) and not word.startswith("-") and not is_path


def _outcome(error: BaseException) -> tuple[str, int]:
    """What is said of an exception in one line, and its exit code: an error of the input, an
    interruption, a file error, or an internal error."""
    if isinstance(error, FaError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        # a signal has a message and exit code
        return str(error) or "interrupted", getattr(error, "exit_code", 130)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 3
    if isinstance(error, OSError) and error.errno in output.NO_ROOM:
        output.silence()
        return f"cannot print the result ({error.strerror})", 3
    if "can't start new thread" in str(error):
        return "no further thread may be started; see `ulimit -u`, and how much memory is free", 3
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"internal error ({what}); run again with --debug and report it", INTERNAL_ERROR


def _catch_misspelling(args: Sequence[str]) -> None:
    """Refuse a misspelled command, as in `fa-tui shwo x.json`.

    Raises:
        UsageError: the first word is not a path but close to a command.
    """
    word = "".join(args[1:2])
    if not word or word.startswith("-") or exists(word):
        return
    near = difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)
    if near:
        raise UsageError(f"no command or path {word!r}", hint=f"did you mean `fa-tui {near[0]}`?")


def _take(args: list[str], flag: str) -> bool:
    """Remove a flag before ``--``; returns whether it was there."""
    if flag not in itertools.takewhile("--".__ne__, args):
        return False
    args.remove(flag)
    return True


def _flush(code: int) -> int:
    """Flush stdout; a closed pipe (`| head -1`) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        output.silence()
    return code
