"""Help: in every pane of every screen, in the words of that pane."""

import re
from pathlib import Path
from typing import get_type_hints

import msgspec.toml
import pytest

from fa_core.analysis.seeds import PARTS_AT
from fa_core.formats import scan
from fa_core.formats.rows import Problem
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_tui.key_list import help_lines
from fa_tui.options import ThresholdOptions
from fa_tui.pages.compare import ComparePage
from fa_tui.screens import help as help_screen
from fa_tui.screens.help import HelpScreen
from fa_tui.session import Session
from tests.fa_tui.looks import app_on, running, screen_text
from tests.fa_tui.waiting import until

SCREENS = {
    "matrix": (),
    "long view": ("t",),
    "compare": ("C",),
    "timeline": ("T",),
    "sweep": ("A",),
    "jobs": ("J",),
    "problems": ("P",),
    "presets": ("p",),
    "what if": ("w",),
}
"""Screen → the keys that open it."""


@pytest.fixture
def app(sample_runs):
    found = scan([sample_runs / "floor"])
    return app_on(
        Session(
            found.rows, traces=found.traces, problems=[Problem("x.pt", "x.pt: not a checkpoint")]
        )
    )


async def go(pilot, app, *keys):
    for key in keys:
        before, focused = app.screen, app.focused
        await pilot.press(key)
        await until(pilot, lambda b=before, f=focused: app.screen is not b or app.focused is not f)
    await pilot.pause()


@pytest.mark.parametrize("name", SCREENS)
async def test_every_pane_explains_itself_before_its_keys(app, name):
    async with running(app) as pilot:
        await go(pilot, app, *SCREENS[name])
        screen = app.screen
        panes = list(screen.focus_chain)
        assert panes
        for pane in panes:
            pane.focus()
            await pilot.pause()
            title, *rest = help_lines(app, screen)
            assert title.startswith("# "), (name, pane)
            assert not title.startswith("# Keys"), (name, pane, "only lists keys")
            assert "# Keys that work here" in rest
            assert any(
                line.startswith("  ") for line in rest[rest.index("# Keys that work here") :]
            ), (name, pane)


@pytest.mark.parametrize("name", [name for name in SCREENS if name != "what if"])
async def test_the_question_mark_opens_it(app, name):
    async with running(app, (80, 24)) as pilot:
        await go(pilot, app, *SCREENS[name], "question_mark")
        assert isinstance(app.screen, HelpScreen)
        assert "esc Close" in screen_text(app), "the keys stay on screen however long the help is"


async def test_where_a_question_mark_can_be_typed_f1_opens_it(app):
    async with running(app, (80, 24)) as pilot:
        await go(pilot, app, "w", "f1")
        assert isinstance(app.screen, HelpScreen)


@pytest.mark.parametrize("letter", DIAGNOSTICS)
def test_what_is_published_of_a_number_is_where_its_threshold_is_chosen(letter):
    diagnostic = DIAGNOSTICS[letter]
    hints = get_type_hints(ThresholdOptions, include_extras=True)
    (option,) = hints[diagnostic.threshold].__metadata__
    docs = Path(__file__).parents[2] / "docs"
    pages = [docs / "protocol.md", *docs.glob("protocol/*.md")]
    protocol = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    sliders = msgspec.toml.decode(Path(help_screen.__file__).with_name("help.toml").read_bytes())[
        "SlidersPanel"
    ]
    for text in (option.help, sliders, protocol):
        assert diagnostic.calibration in " ".join(text.split())


def test_the_texts_are_of_classes_that_exist_and_quote_their_limits():
    texts = msgspec.toml.decode((Path(help_screen.__file__).with_name("help.toml")).read_bytes())
    source = "\n".join(
        path.read_text() for path in Path(help_screen.__file__).parents[1].rglob("*.py")
    )
    assert all(
        re.search(rf"^class {name}\b", source, re.MULTILINE) for name in texts.keys() - {"Words"}
    )
    compare = " ".join(ComparePage.HELP.split())
    assert f"more than ×{PARTS_AT:g} stands out" in compare
