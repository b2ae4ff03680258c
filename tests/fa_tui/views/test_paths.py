"""Paths in title and status lines, and lists, fitted to a width."""

from pathlib import Path

import pytest

from fa_tui.views.text import short_paths, wrapped

LONG = "/data/experiments/2025/autumn/ablations/dfa_s42"


def test_a_path_below_the_current_folder_is_shown_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short_paths([tmp_path / "runs" / "dfa_s42"]) == "runs/dfa_s42"


def test_a_path_below_home_begins_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert short_paths([tmp_path / "runs"]) == "~/runs"


@pytest.mark.parametrize("width", range(4, 60))
def test_a_long_path_keeps_its_end_and_never_exceeds_the_width(width):
    shown = short_paths([LONG], width)
    assert len(shown) <= width
    assert shown == LONG or LONG.endswith(shown.removeprefix("…"))


def test_paths_that_do_not_fit_are_counted():
    paths = [Path("first.json"), Path("second.json"), Path("third.json")]
    assert short_paths(paths, 60) == "first.json, second.json, third.json"
    assert short_paths(paths, 34) == "first.json, second.json and 1 more"
    assert short_paths(paths, 33) == "first.json and 2 more"


def test_the_current_folder_may_be_gone(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()
    assert short_paths(["/data/runs"]) == "/data/runs"


@pytest.mark.parametrize("width", [20, 30, 76])
def test_what_goes_on_stands_under_the_second_column_and_nothing_is_lost(width):
    line = "  ↑ ↓      move from one line to the next one, and around the end"
    pieces = wrapped(line, width)
    assert all(len(piece) <= width for piece in pieces)
    assert " ".join(piece.strip() for piece in pieces).split() == line.split()
    assert {len(piece) - len(piece.lstrip()) for piece in pieces[1:]} <= {11 if width > 21 else 4}
