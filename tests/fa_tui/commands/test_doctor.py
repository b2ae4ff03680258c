"""What `fa-tui doctor` finds."""

from __future__ import annotations

import importlib.util
import json

import pytest

from fa_core.engine.devices import TorchAnswer
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.commands import doctor
from fa_tui.session import Session


def test_every_finding_that_is_not_fine_names_what_helps_or_what_it_costs(capsys):
    assert main(["doctor", "--format", "json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {finding["area"] for finding in findings} == {
        "python",
        "packages",
        "devices",
        "terminal",
    }
    assert all(finding["found"] for finding in findings)
    assert all(finding["fix"] for finding in findings if finding["state"] == "missing")


def test_a_missing_torch_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (finding,) = doctor.devices()
    assert finding.state == doctor.MISSING
    assert finding.fix == "pip install torch"


def test_a_torch_that_breaks_on_import_is_reported_with_its_last_words(monkeypatch):
    monkeypatch.setattr(doctor, "PROBE", "raise ImportError('libcudart.so.13 not found')")
    (finding,) = doctor.devices()
    assert finding.state == doctor.MISSING
    assert "libcudart.so.13" in finding.found


def test_a_missing_extra_names_what_it_costs_and_the_line_that_gets_it(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "ray" else "1.0")
    found = {finding.name: finding for finding in doctor.packages()}
    assert (found["ray"].state, found["ray"].fix) == (doctor.NOTE, "pip install 'ray>=2.49'")
    assert "--engine ray" in found["ray"].found
    assert found["textual"].state == doctor.OK


def test_without_a_gpu_the_reason_and_what_nvml_sees_are_named(monkeypatch):
    monkeypatch.setattr(doctor, "ask_torch", lambda probe: TorchAnswer("2.13", []))
    monkeypatch.setattr(doctor, "list_devices", list)
    monkeypatch.setattr(doctor, "seen_by_nvml", lambda: ["H200"])
    monkeypatch.setattr(doctor, "why_no_cuda", lambda: "no GPU: x")
    found = {finding.name: finding for finding in doctor.devices()}
    assert (found["gpu"].state, found["gpu"].found) == (doctor.NOTE, "no GPU: x")
    assert found["nvml"].found == "H200"


def test_a_dumb_terminal_and_no_color_are_said(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    found = {finding.name: finding for finding in doctor.terminal()}
    assert found["TERM"].state == doctor.NOTE
    assert "NO_COLOR" in found["colours"].found


@pytest.mark.parametrize(("no_color", "said"), [("", "16"), ("1", "none (NO_COLOR is set)")])
async def test_the_explorer_has_the_colours_that_are_said(monkeypatch, no_color, said):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert next(finding.found for finding in doctor.terminal() if finding.name == "colours") == said
    assert ExplorerApp(Session([])).no_color is bool(no_color)
