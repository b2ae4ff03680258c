"""A measuring function for workers under test that cannot be had for the device ``cuda:9``."""

from __future__ import annotations

import sys

from faults import measure as measure

if "cuda:9" in sys.argv:
    raise RuntimeError("there is no such card")
