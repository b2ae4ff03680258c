"""The process that loads the data of a SPEC, whose code runs only if ``typed`` follows, and prints
the hash of the test part."""

from __future__ import annotations

import sys

from fa_core.zoo.data.load import load_test_data

if __name__ == "__main__":
    spec, *typed = sys.argv[1:]
    print(load_test_data(spec, allow_code=bool(typed)).hash)
