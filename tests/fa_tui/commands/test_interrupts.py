"""Signals end the program: Ctrl-C while it starts, a lost terminal while the explorer computes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

ROOT = Path(__file__).parents[3]
PROGRAM = """
import builtins, os, signal, sys
sys.argv = ["fa-tui", "show", "--format", "json"]
from fa_tui.__main__ import main
real, wanted, times = builtins.__import__, {wanted!r}, {times}

def strike(name, *rest):
    found = real(name, *rest)
    if name == wanted:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
    return found

builtins.__import__ = strike
sys.exit(main())
"""

HELD_UP = """
import asyncio, os, signal, time
from threading import Timer
from fa_tui.app import ExplorerApp
from fa_tui.session import Session

async def hold():
    async with ExplorerApp(Session([]), title="runs").run_test():
        Timer(0.1, os.kill, [os.getpid(), signal.SIGHUP]).start()
        time.sleep(100)

asyncio.run(hold())
"""


def test_a_lost_terminal_ends_the_explorer_while_it_computes():
    done = subprocess.run([sys.executable, "-c", HELD_UP], cwd=ROOT, check=False)
    assert done.returncode == 128 + signal.SIGHUP


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize("wanted", ["fa_tui.cli", "fa_tui.options", "fa_core.formats"])
def test_ctrl_c_while_the_program_starts_is_one_line(wanted, times):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wanted=wanted, times=times)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fa-tui: interrupted\n")
