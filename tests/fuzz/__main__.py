"""Go on where the tests end: cases of every kind, one after another, for some minutes.

    python -m tests.fuzz [--minutes 10] [--first 1000000]

A case that raises anything but one of the project's errors is printed with its number:
``KINDS[kind](folder, number)`` does it again.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.readers import KINDS


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=1_000_000)
    given = parser.parse_args()
    end, number, faults = time.monotonic() + 60 * given.minutes, given.first, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            kind = [*KINDS][number % len(KINDS)]
            try:
                KINDS[kind](Path(folder), number)
            except Exception as error:
                faults += 1
                print(f"case {number}: {kind}: {error!r}"[:300], flush=True)
            number += 1
    print(f"{number - given.first} cases, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
