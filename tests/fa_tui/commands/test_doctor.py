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


@pytest.mark.parametrize(
    ("nvml", "gpus", "why", "state", "said"),
    [
        (
            ["NVIDIA H200"],
            ["NVIDIA H200"],
            "",
            doctor.OK,
            "NVML sees NVIDIA H200; torch sees NVIDIA H200",
        ),
        ([], ["MI300X"], "", doctor.NOTE, "NVML sees none; torch sees MI300X"),
        (
            ["H200"],
            [],
            "",
            doctor.NOTE,
            "one is listed, but torch cannot use it: NVML sees H200; torch sees none",
        ),
        (["H200"], [], "no GPU: x", doctor.NOTE, "no GPU: x; NVML sees H200; torch sees none"),
        ([], [], "no GPU: x", doctor.NOTE, "no GPU: x"),
    ],
)
def test_what_nvml_and_torch_see_is_said(monkeypatch, nvml, gpus, why, state, said):
    answer = TorchAnswer("2.13", [(name, 1 << 30) for name in gpus])
    monkeypatch.setattr(doctor, "ask_torch", lambda probe: answer)
    monkeypatch.setattr(doctor, "list_devices", list)
    monkeypatch.setattr(doctor, "seen_by_nvml", lambda: nvml)
    monkeypatch.setattr(doctor, "why_no_cuda", lambda: why)
    found = {finding.name: finding for finding in doctor.devices()}
    assert (found["gpu"].state, found["gpu"].found) == (state, said)


def test_an_extra_that_does_not_import_is_not_fine(monkeypatch, tmp_path):
    (tmp_path / "torchvision.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "REQUIRED", ())
    monkeypatch.setattr(doctor, "OPTIONAL", {"torchvision": "networks"})
    monkeypatch.setattr(doctor, "_version", lambda name: "0.1")
    (found,) = doctor.packages()
    assert (found.state, found.fix) == (
        doctor.NOTE,
        "pip install --force-reinstall 'torchvision>=0.21'",
    )
    assert (
        found.found
        == "0.1 does not import (RuntimeError: operator torchvision::nms does not exist): no networks"
    )


@pytest.mark.parametrize(
    ("why", "broken"), [("torchvision::nms", "torchvision>=0.21"), ("x", "transformers>=4.46")]
)
def test_a_library_that_imports_its_parts_late_is_not_fine_either(
    monkeypatch, tmp_path, why, broken
):
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()
    (tmp_path / "transformers" / "modeling_utils.py").write_text(f"raise RuntimeError({why!r})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "REQUIRED", ())
    monkeypatch.setattr(doctor, "OPTIONAL", {"transformers": "networks"})
    monkeypatch.setattr(doctor, "_version", lambda name: "0.1")
    (found,) = doctor.packages()
    assert (found.state, found.fix) == (doctor.NOTE, f"pip install --force-reinstall {broken!r}")


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
