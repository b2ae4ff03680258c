"""How every screen looks. `pytest --snapshot-update` after looking at what changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from fa_tui import settings
from tests.fa_tui.pictures import LOOKS, SIZES, Picture, compact, pictures_of
from tests.fa_tui.scenes import SCENES, opened_on


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the user of this machine saved and what lies in the current folder: in no picture."""
    monkeypatch.setattr(settings.platformdirs, "user_config_path", lambda name: tmp_path / "config")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture
def picture(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """Pictures that were looked at, one file for each."""
    return snapshot.use_extension(SVGImageExtension)


PICTURES = [(scene, picture) for scene in SCENES for picture in pictures_of(scene)]


@pytest.mark.parametrize(
    ("scene", "how"), PICTURES, ids=[f"{scene}-{how.look}-{how.size}" for scene, how in PICTURES]
)
async def test_looks(
    picture: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch, scene: str, how: Picture
) -> None:
    terminal = LOOKS[how.look]
    if not terminal.colours:
        monkeypatch.setenv("NO_COLOR", "1")
    app, leads_there = opened_on(SCENES[scene], terminal)
    app.theme = how.theme
    async with app.run_test(size=SIZES[how.size], notifications=True) as pilot:
        await leads_there(pilot)
        await pilot.pause()
        assert compact(app.export_screenshot()) == picture(name=how.theme)


async def test_too_small(picture: SnapshotAssertion) -> None:
    app, _ = opened_on(SCENES["matrix"], LOOKS["colour"])
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        assert compact(app.export_screenshot()) == picture
