"""What `fa-tui doctor` finds."""

from importlib import metadata

import pytest

from fa_core.audit.devices import TorchAnswer
from fa_tui.app import ExplorerApp
from fa_tui.commands import doctor
from fa_tui.session import Session
from tests.fa_tui.printing import printed_json


def test_every_area_is_there(capsys):
    findings = {finding["name"]: finding for finding in printed_json(capsys, "doctor")}
    assert {
        "python",
        "fa-tui",
        "textual",
        "ray",
        "torch",
        "device",
        "TERM",
        "size",
    } <= findings.keys()
    assert all(finding["found"] for finding in findings.values())


def test_a_torch_that_does_not_import_and_a_missing_gpu_say_why(monkeypatch):
    answer = TorchAnswer(error="does not import: libcudart.so.13 not found")
    monkeypatch.setattr(doctor, "ask_torch", lambda: answer)
    (finding,) = doctor.devices()
    assert finding.state == "missing"
    assert "libcudart.so.13" in finding.found and "pip install torch" in finding.found
    monkeypatch.setattr(doctor, "ask_torch", lambda: TorchAnswer("2.13"))
    monkeypatch.setattr(doctor, "why_no_cuda", lambda: "no GPU: x")
    assert {one.name: one.found for one in doctor.devices()}["gpu"] == "no GPU: x"


def test_a_missing_extra_names_what_it_costs_and_the_line_that_gets_it(monkeypatch):
    def version(name):
        if name == "ray":
            raise metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    found = {finding.name: finding for finding in doctor.packages()}
    assert found["ray"].state == "note" and found["textual"].state == "ok"
    assert "--engine ray" in found["ray"].found and "pip install 'ray>=2.49'" in found["ray"].found


@pytest.mark.parametrize(("no_color", "said"), [("", "16"), ("1", "none")])
async def test_the_explorer_has_the_colours_that_are_said(monkeypatch, no_color, said):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert next(finding.found for finding in doctor.terminal() if finding.name == "colours") == said
    assert ExplorerApp(Session([])).no_color is bool(no_color)
