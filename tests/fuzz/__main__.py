"""Fuzz for some minutes, and print how many cases of each kind there were.

    python -m tests.fuzz [--minutes 10] [--first 1000000] [--kinds json,toml]
    python -m tests.fuzz.monkey [--events 20000] [--seeds 1,2,3]

A case that raises anything but one of the project's errors is printed with its number, as is one that takes more
than two seconds of a processor or 200 MB: ``KINDS[kind](folder, number)`` does it again.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.readers import KINDS

SLOW, LARGE = 2.0, 200 << 10
SHARES = {
    "json": 40,
    "run folders": 8,
    "checkpoints": 12,
    "measured runs": 1,
    "toml": 12,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first", type=int, default=1_000_000)
    parser.add_argument("--kinds", default=",".join(KINDS))
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds.split(",") for _ in range(SHARES[kind])]
    end, number = time.monotonic() + 60 * given.minutes, given.first
    done: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for kind in set(kinds):
            # what is imported for the first file of a kind is no part of a case
            KINDS[kind](Path(folder), 0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        while time.monotonic() < end:
            kind = kinds[number % len(kinds)]
            begun = time.process_time()
            try:
                KINDS[kind](Path(folder), number)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                what = f"{kind}: {type(error).__name__} at {place.filename}:{place.lineno}"
                faults[what] += 1
                if faults[what] == 1:
                    print(f"case {number}: {what}: {str(error)[:200]}", flush=True)
            took = time.process_time() - begun
            slowest = max(slowest, took)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            if took > SLOW or grown > LARGE:
                print(f"case {number}: {kind}: {took:.2f} s, {grown >> 10} MB", flush=True)
                before += grown if grown > LARGE else 0
            done[kind] += 1
            number += 1
    print(
        f"{dict(done)}, {sum(faults.values())} faults, slowest {slowest:.2f} s, cases {given.first} to {number - 1}"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
