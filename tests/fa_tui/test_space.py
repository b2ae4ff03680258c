"""The task gets the space, at every size and after every resize, and the selected run stays in sight."""

import random

import pytest

from fa_core.formats import scan
from fa_core.report.verdict_text import flips_of
from fa_tui.session import Session
from tests.fa_tui.looks import app_on, running, screen_text, settled
from tests.fa_tui.scenes import epochs, many, with_intervals
from tests.fa_tui.waiting import until

SIZES = [(60, 15), (80, 24), (120, 40), (200, 60)]
PAGES = [
    ("", with_intervals),
    ("t", many),
    ("Cv", with_intervals),
    ("T", epochs),
    ("A2", many),
]


async def _at_start(pilot, keys):
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


async def _at_rest(pilot):
    """What is on screen once nothing moves any more."""
    seen = [""]
    while len(seen) < 9 or {*seen[-8:]} != {seen[-1]}:
        await pilot.pause(0.01)
        seen.append(screen_text(pilot.app))
    return seen[-1]


@pytest.mark.parametrize(("keys", "session"), PAGES, ids=[keys for keys, _ in PAGES])
async def test_a_resized_page_shows_what_a_fresh_start_shows(keys, session):
    fresh = {}
    for size in SIZES:
        app = app_on(session())
        async with running(app, size) as pilot:
            await _at_start(pilot, keys)
            fresh[size] = await _at_rest(pilot)
    app = app_on(session())
    walk = [*SIZES[1:], *reversed(SIZES), SIZES[2], SIZES[0], SIZES[3]]
    async with running(app, SIZES[0]) as pilot:
        await _at_start(pilot, keys)
        for size in walk:
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: screen_text(app) == fresh[size])


KEYS = ["up", "down", "left", "right", "pageup", "pagedown", "home", "end", "space", "v", "s", "S"]
STEPS = ["bracketright", "bracketleft", "braceright", "F", "u", "z", "f"]


@pytest.mark.parametrize("page", ["", "t"], ids=["matrix", "table"])
async def test_the_selected_run_is_in_sight_after_every_key(page):
    pick = random.Random(46)
    app = app_on(many())
    async with running(app, (80, 24)) as pilot:
        await _at_start(pilot, page)
        view = app.explorer.page.view
        for turn in range(40):
            pressed = [pick.choice([*KEYS, *STEPS])]
            if turn % 10 == 9:
                pressed = ["slash", *"seed<5 -flag:", pick.choice("abd"), "enter"]
            elif turn % 5 == 2:
                size = pick.choice(SIZES)
                await pilot.resize_terminal(*size)
                await until(pilot, lambda size=size: app.screen.size == size)
            elif pressed[0] in STEPS[:3]:
                pressed = [pick.choice("abcd"), *pressed, "escape"]
            await pilot.press(*pressed)
            await settled(pilot)
            lines = view.visible_lines()
            assert view.row is None or not lines or view.line in lines, (turn, pressed)
            room = view.view.width - view.frozen_width
            if room > 20 and view.row is not None:
                assert view.column in view._whole_columns(room), (turn, pressed)


async def test_the_key_of_the_card_flips_the_run_and_undo_takes_it_back(sample_runs):
    session = Session(scan([sample_runs]).rows)
    limits, app = session.thresholds, app_on(session)
    kinds = {session.judgement(place): place for place in range(len(session))}
    async with running(app, (80, 24)) as pilot:
        await _at_start(pilot, "")
        for kind, place in kinds.items():
            app.explorer.page.go_to(place)
            await pilot.press("F")
            await settled(pilot)
            assert (app.session.judgement(place) != kind) == bool(
                flips_of(session.rows[place].report)
            )
            await pilot.press(*"u" * (app.session.thresholds != limits))
            assert app.session.thresholds == limits
    assert {"trustworthy", "walk-back", "undecided", "control"} <= {*kinds}
