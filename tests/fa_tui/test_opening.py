"""What `fa-tui open` hands to the explorer."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fa_core.audit.devices import Execution
from fa_core.formats import Scan, scan
from fa_tui.cli import main
from fa_tui.terminal import abilities
from tests.fa_core.rows import row_of
from tests.fa_tui.printing import complaint


@pytest.fixture
def handed(monkeypatch):
    """Everything the explorer was made with, instead of starting it."""
    received = {}

    class Recorder:
        return_code = opens_next = None
        jobs = SimpleNamespace(close=lambda: None)

        def __init__(self, session, **rest):
            received.update(rest, session=session)

        def run(self):
            return 0

        add_problems = None
        paths = (Path("runs"),)

        def call_later(self, _, problems):
            received["problems"] = problems

    monkeypatch.setattr(abilities, "on_a_terminal", lambda: True)
    monkeypatch.setattr("fa_core.formats.scan", lambda paths, **_: Scan())
    monkeypatch.setattr("fa_tui.app.ExplorerApp", Recorder)
    return received


def test_data_and_network_for_bare_checkpoints_reach_the_workers(handed):
    assert (
        main(["nets", "--data", "digits", "--model", "my.nets:build", "--taps", "embed,blocks.*"])
        == 0
    )
    asked = handed["setup"].options
    assert (asked.data, asked.model, asked.taps) == (
        "digits",
        "my.nets:build",
        ["embed", "blocks.*"],
    )


def test_without_options_the_manifests_decide(handed, published_table):
    assert main([str(published_table)]) == 0
    assert handed["setup"] is None
    assert handed["paths"] == [published_table]


def test_a_threshold_that_was_given_wins_and_the_others_come_from_the_settings(handed):
    assert main(["runs", "--g-norm-floor", "1e-9"]) == 0
    assert handed["session"].thresholds.g_norm_floor == 1e-9
    assert handed["session"].thresholds.h_norm_explosion_ratio == 50.0


def test_what_has_gone_when_traces_are_wanted_is_a_problem(handed, monkeypatch):
    found = Scan([row_of("bp", "runs")])
    monkeypatch.setattr("fa_core.formats.scan", lambda paths, **_: found)
    assert main(["runs"]) == 0
    monkeypatch.setattr("fa_core.formats.scan", scan)
    assert not handed["session"].traces
    assert "no such file" in handed["problems"][0].message


def test_where_to_measure_reaches_the_explorer(handed):
    pytest.importorskip("ray")
    assert main(["open", "runs", "--engine", "ray", "--address", "head:6379", "--jobs", "2"]) == 0
    assert handed["setup"].execution == Execution(engine="ray", address="head:6379", jobs=2)


def test_a_place_that_cannot_be_meant_is_refused_before_the_explorer_opens(handed, capsys):
    assert (
        complaint(capsys, "open", "runs", "--address", "auto")
        == "fa-tui: --address is of a Ray cluster; add --engine ray\n"
    )
    assert not handed
