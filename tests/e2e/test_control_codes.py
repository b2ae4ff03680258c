"""Strings out of a file never steer the terminal."""

import json

import pytest

from fa_core.report.diagnostic_report import DiagnosticReport

TITLE = "\x1b]0;stolen\x07"


@pytest.fixture
def hostile(tmp_path):
    """An audit whose every string would rename the window."""
    report = DiagnosticReport(
        method_name=f"DFA{TITLE}",
        notes=f"note{TITLE}",
        residual_norms=[1.0, 2.0],
        bp_grad_norms=[1.0, 1.0],
        seed=1,
    ).to_dict()
    report |= {
        "verdict": f"odd{TITLE}",
        "axes": {"arch": f"net{TITLE}"},
        "unmeasured": {"c": f"why{TITLE}"},
    }
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"reports": {f"dfa{TITLE}_s1": report}}))
    return path


def test_the_explorer_paints_them_without_their_control_codes(hostile, open_explorer):
    terminal = open_explorer(hostile)
    terminal.wait_for("note", limit=60)
    for key in ("t", "escape", "C", "escape", "A"):
        terminal.press(key)
    assert b"stolen" in terminal.sent
    assert b"\x1b]0;stolen" not in terminal.sent
