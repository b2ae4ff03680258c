"""The process that loads a data set and prints the hash of its test part."""

from __future__ import annotations

import sys

from fa_core.zoo.data.load import load_test_data


def main() -> None:
    """Of a SPEC; its code runs only if `typed` follows."""
    spec, *typed = sys.argv[1:]
    print(load_test_data(spec, allow_code=bool(typed)).hash)


if __name__ == "__main__":
    main()
