"""How every screen looks. `pytest --snapshot-update` after looking at what changed."""

import textwrap
from collections import defaultdict

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from fa_tui import settings
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.looks import strips_of
from tests.fa_tui.scenes import SCENES, opened_on

PICTURES = [(scene, COLOURFUL, (80, 24), "fa-dark") for scene in SCENES]
"""Every scene where it has the least room."""
for scene in ("matrix", "compare"):
    # they show every character, colour and width at which the layout changes
    PICTURES += [
        (scene, PLAIN, (80, 24), "fa-ansi"),
        (scene, COLOURFUL, (120, 40), "fa-light"),
        (scene, COLOURFUL, (200, 60), "fa-dark"),
    ]
PICTURES.append(("matrix", COLOURFUL, (20, 5), "fa-dark"))


class StyledText(SingleFileSnapshotExtension):
    """A text file for each picture."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"

    def serialize(self, data, **_):
        return str(data)


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch, places):
    """What the user of this machine saved and what lies in the current folder: in no picture."""
    monkeypatch.setattr(settings.platformdirs, "user_config_path", lambda name: places / "config")


def picture_of(app):
    """The lines on screen, then every style but the ground's, with its places: line:first-last
    cell."""
    places = defaultdict[str, list[str]](list)
    for number, strip in enumerate(strips_of(app), 1):
        yield strip.text.rstrip()
        at = 0
        for segment in strip.simplify():
            first, at = at, at + segment.cell_length
            if at > first:
                places[str(segment.style)].append(f"{number}:{first}-{at - 1}")
    ground = app.screen.rich_style
    for ignored in (ground, ground.background_style):
        places.pop(str(ignored), None)
    for style, where in sorted(places.items()):
        yield from textwrap.wrap(f"{style} | {' '.join(where)}", 100, subsequent_indent="    ")


@pytest.mark.parametrize(
    ("scene", "terminal", "size", "theme"),
    PICTURES,
    ids=[f"{scene}-{width}x{height}-{theme}" for scene, _, (width, height), theme in PICTURES],
)
async def test_looks(snapshot, monkeypatch, scene, terminal, size, theme):
    if terminal is PLAIN:
        monkeypatch.setenv("NO_COLOR", "1")
    app, leads_there = opened_on(SCENES[scene], terminal)
    app.theme = theme
    async with app.run_test(size=size) as pilot:
        if size > (20, 5):
            await leads_there(pilot)
        await pilot.pause()
        assert "\n".join(picture_of(app)) == snapshot(extension_class=StyledText)
