"""`m` on checkpoints that no manifest describes asks for data and network, and keeps the answer."""

import pytest

from fa_core.formats import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.app import ExplorerApp
from fa_tui.screens.questions import EntryScreen
from fa_tui.session import Session
from fa_tui.settings import MeasureAnswer, remembered_answer
from tests.fa_tui.looks import on_screen, running, shows
from tests.json_files import put_json

from .looks import screen_text
from .waiting import until


@pytest.fixture
def folder(tmp_path):
    for seed in (1, 2):
        (tmp_path / f"dfa_s{seed}.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    return tmp_path


def explorer(folder):
    return ExplorerApp(Session(scan([folder]).rows), title="runs")


async def test_it_is_asked_once_and_kept_for_the_folder(folder, monkeypatch):
    app = explorer(folder)
    started = []

    def start(rows, answers):
        started.append(([index for index, _ in rows], answers[0]))
        return []

    monkeypatch.setattr(app.jobs.measuring, "start", start)
    async with running(app, (80, 24)) as pilot:
        await pilot.press("asterisk", "m")
        await on_screen(pilot, EntryScreen)
        assert "data of 2 checkpoints" in screen_text(app)
        assert "cifar10:DIR" in screen_text(app)
        await pilot.press("enter")
        assert isinstance(app.screen, EntryScreen), "nothing is typed yet"
        await pilot.press(*"synthetc")
        assert "did you mean synthetic?" in screen_text(app)
        await pilot.press("backspace", "i", "c")
        await pilot.press("enter")
        await shows(pilot, "timm:NAME")
        await pilot.press(*"resmlp", "enter")
        await until(pilot, lambda: bool(started))
        answer = MeasureAnswer("synthetic", "resmlp")
        assert started == [([0, 1], answer)]
        assert remembered_answer(folder) == answer
        await pilot.press("asterisk", "m")
        await until(pilot, lambda: len(started) == 2)


@pytest.mark.parametrize(
    ("model", "is_asked"), [("net:Mine", True), (None, False)], ids=["code", "its weights"]
)
def test_code_that_an_audit_names_is_asked_for(folder, model, is_asked):
    report = DiagnosticReport(
        residual_norms=[1.0, 2.0],
        provenance={"settings": {"model": model, "data": "digits"}, "checkpoint": "dfa_s1"},
    )
    put_json(folder / "one.json", {"reports": {"dfa": report.to_dict()}})
    app = ExplorerApp(Session(scan([folder / "one.json"]).rows), title="runs")
    assert app.jobs.unknown([0]) == [0] * is_asked


async def test_the_next_explorer_offers_what_was_typed(folder):
    from fa_tui.settings import remember_answer

    remember_answer(folder, MeasureAnswer("digits", ""))
    app = explorer(folder)
    async with running(app, (80, 24)) as pilot:
        await pilot.press("m")
        await on_screen(pilot, EntryScreen)
        assert app.screen.entry.value == "digits"
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, EntryScreen))
        assert app.jobs.listed() == []
