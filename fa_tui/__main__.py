"""The program `fa-tui`, and `python -m fa_tui`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType


def leave(number: int, frame: FrameType | None) -> None:
    """Ctrl-C while there is nothing to keep, amid imports and at the end: one line, and no
    traceback from anywhere."""
    os.write(2, b"fa-tui: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line; its exit code."""
    # a collection amid imports costs more than their garbage; it is on again after the first paint
    # or parsing
    gc.disable()
    if sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 (pathlib takes a millisecond to import)
        # after what is installed: no file of the folder where it is started (numpy.py) is taken for
        # a library
        sys.path.append(sys.path.pop(0))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from fa_tui.cli import main as run

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
