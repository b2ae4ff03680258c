"""The program `fa-tui`, and `python -m fa_tui`."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line; its exit code."""
    # a collection amid imports costs more than their garbage; it is on again after the first paint or parsing
    gc.disable()
    from fa_tui.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
