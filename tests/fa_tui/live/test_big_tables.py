"""A table that changes while it is open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fa_core.formats import scan
from fa_tui.live import Follower
from fa_tui.session import Session, merged

REPORT = {"method_name": "BP", "residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}


def write(path: Path, **norms: float) -> None:
    reports = {
        f"bp_s{seed}": {**REPORT, "residual_norms": [1.0, norms.get(f"s{seed}", 2.0)]}
        for seed in range(4)
    }
    path.write_text(json.dumps({"reports": reports}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "table.json"
    write(path)
    return path


def test_only_the_rows_that_changed_are_news(path: Path) -> None:
    scan([path])
    session = Session(scan([path]).rows)
    follower = Follower([str(path)])
    write(path, s2=900.0)
    follower.note(str(path))
    session, news = merged(session, follower.take())
    assert (news.added, news.changed, news.gone) == ([], [2], [])
    assert session.rows[2].report.h_L == 900.0
    assert session.flags[2] == 1


def test_rows_are_shown_as_they_were_when_their_file_is_gone(path: Path) -> None:
    session = Session(scan([path]).rows)
    follower = Follower([str(path)])
    path.unlink()
    follower.note(str(path))
    session, news = merged(session, follower.take())
    assert news.gone == [0, 1, 2, 3]
    assert session.rows[3].report.h_L == 2.0
