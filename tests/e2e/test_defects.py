"""What a person sees when the explorer itself has a defect."""

import sys

import pytest

from tests.e2e.terminal import PseudoTerminal

BROKEN = """
import sys
from fa_tui import app
from fa_tui.cli import main

def broken(self, *args):
    raise RuntimeError("the matrix fell over")

app.ExplorerApp.action_help = broken
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_a_defect_leaves_one_line_and_its_traceback_only_where_asked(published_table, debug):
    arguments = [str(published_table), *(["--debug"] if debug else [])]
    terminal = PseudoTerminal([sys.executable, "-c", BROKEN, *arguments])
    try:
        terminal.wait_for("walk-back", limit=60)
        terminal.press("?")
        terminal.wait_for("the matrix fell over", limit=60)
        said = terminal.text()
        assert terminal.process.wait(60) == 70
    finally:
        terminal.close()
    assert ("Traceback" in said) is debug
    assert ("run again with --debug" in said) is not debug
