"""Memory that was freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not say"
)

_FREED_BEHIND_A_LATER_ONE = """
import numpy as np
from fa_core.table import give_back

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) * 1024

for _ in range(2):  # from here on glibc takes arrays of this size from its heap
    np.ones(1 << 20)
{first}
arrays = [np.ones(1 << 17) for _ in range(40)]  # 1 MB each
before = resident()
kept = arrays[::10]
del arrays
{then}
print((before - resident()) / 2**20)
"""


def _given_back(**code: str) -> float:
    """Megabytes, of 36 that were freed and lie between others."""
    ran = subprocess.run(
        [sys.executable, "-c", _FREED_BEHIND_A_LATER_ONE.format(**code)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


def test_what_was_freed_between_other_things_is_given_back() -> None:
    assert _given_back(first="", then="give_back()") > 30


def test_from_then_on_arrays_go_by_themselves() -> None:
    assert _given_back(first="give_back()", then="") > 30


def test_what_only_refers_to_itself_is_freed_where_that_is_asked_for() -> None:
    ring = "arrays = []; loop = [np.ones(1 << 22)]; loop.append(loop); import gc; gc.disable()"
    code = _FREED_BEHIND_A_LATER_ONE.replace(
        "arrays = [np.ones(1 << 17) for _ in range(40)]  # 1 MB each", ring
    )
    code = code.replace("del arrays", "del arrays, loop")
    ran = {
        cycles: subprocess.run(
            [sys.executable, "-c", code.format(first="", then=f"give_back(cycles={cycles})")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for cycles in (False, True)
    }
    assert float(ran[False]) < 16 < float(ran[True])
