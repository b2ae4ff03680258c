"""The program `fa-tui`, and `python -m fa_tui`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType


def leave(number: int, frame: FrameType | None) -> None:
    """Exit with one line on Ctrl-C during imports and at the end, without a traceback."""
    os.write(2, b"fa-tui: interrupted\n")
    os._exit(130)


def main() -> int:
    """Run the command line; returns its exit code: 3 where the current folder is gone."""
    # collections during imports cost more than they free; enabled again after the first paint or
    # parsing
    gc.disable()
    try:
        here = os.getcwd()  # noqa: PTH109 (pathlib takes a millisecond to import)
    except OSError:
        os.write(2, b"fa-tui: the current folder is gone; change to one that is there\n")
        return 3
    if sys.path[0] in ("", here):
        # a numpy.py in the current folder must not run; a checkout finds its own packages
        sys.path.pop(0)
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
    from fa_tui.cli import main as run  # after what is set above

    code = run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
