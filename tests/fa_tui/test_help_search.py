"""Help is searched as one types; the palette searches the keys of all pages and runs one."""

import importlib
import pkgutil
from collections import Counter, defaultdict

from textual.binding import Binding

import fa_tui
from fa_tui.key_list import every_key, help_lines
from fa_tui.screens.help import HelpScreen, found_lines
from tests.fa_tui.looks import on_page, on_screen, running, shows

from .looks import screen_text
from .waiting import until


async def test_page_one_says_what_this_is_and_names_the_parts_of_a_cell(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("question_mark")
        await on_screen(pilot, HelpScreen)
        text = screen_text(app)
        assert "What this is" in text
        assert "(b) fires" in text and "needs walk-back" in text
        assert "The matrix" in text and "1–20 of " in text
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.explorer)


async def test_what_is_typed_is_searched_in_all_of_the_help_and_every_key(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("question_mark", *"begin JOBS")
        await shows(pilot, "begin a failed or ended job again (jobs)")
        assert "What this is" not in screen_text(app)
        await pilot.press("q")
        await shows(pilot, "no match for begin JOBSq")
        await pilot.press(*["backspace"] * 11, *"plateau")
        await shows(pilot, "the range of a threshold")
        await pilot.press(*["backspace"] * 7, "end")
        await until(pilot, lambda: app.screen.pane.is_vertical_scroll_end)
        assert "# Keys" not in screen_text(app)
        await pilot.press("home")
        await shows(pilot, "What this is")


async def test_words_of_the_key_line_and_of_tables_are_found(app):
    async with running(app, (80, 24)):
        lines = [*help_lines(app, app.screen, everywhere=True)]
    for word in ("export", "figure", "light", "nudge", "rho"):
        assert [*found_lines(lines, word)], word


async def test_enter_on_a_key_of_another_page_opens_that(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("A", "ctrl+p", *"begin a failed")
        await shows(pilot, "begin a failed or ended job again")
        await pilot.press("enter")
        await on_page(pilot, "Jobs")


async def test_the_palette_finds_what_is_typed_in_one_piece_names_first(app):
    async with running(app, (80, 24)) as pilot:
        await pilot.press("ctrl+p", *"undo")
        await shows(pilot, "Redo (")
        text = screen_text(app)
        assert text.index("Undo (u") < text.index("Redo (")
        await pilot.press("ctrl+u", *"export")
        await until(pilot, lambda: "Undo" not in screen_text(app))
        assert "Next (" not in screen_text(app)


async def test_every_key_is_listed_once(app):
    async with running(app, (80, 24)):
        lines = [*every_key(app, app.screen)]
        counts = Counter((line.key, line.does) for line in lines)
        assert max(counts.values()) == 1
        assert {"compare", "timeline", "jobs"} <= {line.where for line in lines}


def letters_by_place():
    """Letter → class that binds it → what it does there; of a letter beside an arrow, the arrow."""
    found = defaultdict(dict)
    for module in pkgutil.walk_packages(fa_tui.__path__, "fa_tui."):
        if module.name.startswith(("fa_tui.sample", "fa_tui.__main__", "fa_tui.commands")):
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            for binding in getattr(kind, "__dict__", {}).get("BINDINGS", ()):
                if isinstance(binding, Binding):
                    first, *others = binding.key.split(",")
                    sense = first if others and len(first) > 1 else binding.description
                    for key in filter(str.isalpha, binding.key.split(",")):
                        if len(key) == 1:
                            found[key][kind.__name__] = sense
    return found


def test_a_letter_has_one_sense_on_all_pages():
    table = letters_by_place()
    for letter, places in sorted(table.items()):
        print(letter, *(f"{place}: {sense}" for place, sense in places.items()), sep="  ")
    # where a question is asked they answer it, as everywhere
    answers = {place: table[place].pop("SureScreen") for place in "yn"}
    assert answers == {"y": "Yes", "n": "No"}
    assert {"j", "k", "g", "G"} == {
        letter for letter, places in table.items() if {"LineTable", "ChoiceList"} <= places.keys()
    }
    assert {
        letter: set(places.values())
        for letter, places in table.items()
        if len(set(places.values())) > 1
    } == {}
