"""`fa-tui serve`: the explorer in a browser on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fa_core.errors import missing_package
from fa_core.files.children import python_command, python_environment
from fa_tui import options
from fa_tui.commands import inputs


def serve_command(
    paths: options.PathsArgument = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0: any free port.")
    ] = 0,
) -> None:
    """Serve the explorer to a browser on this machine.

    The address cannot be guessed. Only this machine can connect. Every tab is an explorer of its
    own, and ends with it. From another machine: ssh -L PORT:127.0.0.1:PORT THIS_MACHINE, then open
    the address there.

    Examples:

        fa-tui serve runs/

        fa-tui serve runs/ --port 8000
    """
    try:
        from fa_tui.serving import TokenServer
    except ImportError as error:
        raise missing_package("textual-serve", "serving") from error
    inputs.open_paths(paths)  # problems are reported here, not in every tab
    words = [str(Path(path).absolute()) for path in paths or ()]
    title = " ".join(["fa-tui", *(Path(path).name for path in paths or ())])
    server = TokenServer(python_command("fa_tui", "open", *words), port, title)
    # inherited by the explorers: the browser's terminal can show everything
    os.environ.update(python_environment())
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", FA_TUI_GLYPHS="unicode")
    for name in ("NO_COLOR", "TMUX", "STY"):
        os.environ.pop(name, None)
    server.serve(ready=lambda: _announce(server.address, server.port))


def _announce(address: str, port: int) -> None:
    print(address, flush=True)
    tunnel = f"ssh -L {port}:127.0.0.1:{port} HOST"
    hint = (
        f"open this address in a browser on this machine; over SSH first: {tunnel}; Ctrl-C ends it"
    )
    print(f"fa-tui: {hint}", file=sys.stderr)
