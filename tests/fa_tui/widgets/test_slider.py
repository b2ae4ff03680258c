"""The threshold slider under a person's hands."""

import pytest
from msgspec.structs import replace

from fa_core.report.diagnostics import DIAGNOSTICS
from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.scale import drawable
from fa_tui.widgets.slider import ThresholdSlider, widths
from tests.fa_tui import looks
from tests.fa_tui.waiting import until

GROWTH = replace(DIAGNOSTICS["a"], span=(0.1, 1e5))
TICKS = [0.96, 2.87, 10.96, 694.46, 2043.0, 24126.0]


class Stage(looks.Stage):
    """One slider, its messages kept."""

    BINDINGS = [("e", "spoil", "Export"), ("q", "spoil", "Quit")]

    def __init__(self, *, glyphs=UNICODE, ticks=TICKS):
        self.slider = ThresholdSlider(GROWTH, 50.0)
        super().__init__(self.slider)
        self.slider._glyphs = glyphs
        self.ticks = ticks
        self.moves = []
        self.spoiled = False
        self.said = ""

    def on_mount(self):
        self.slider.set_runs(self.ticks, sorted(drawable(self.ticks, log=False)))
        self.slider.focus()

    def on_threshold_slider_changed(self, message):
        self.moves.append(message.value)

    def on_threshold_slider_refused(self, message):
        self.said = message.why

    def action_spoil(self):
        self.spoiled = True

    def lines(self):
        return [self.slider.render_line(y).text for y in range(self.slider.size.height)]


async def press_each(pilot, app, *keys):
    """Press keys that move the slider, each once the one before has moved it."""
    for key in keys:
        count = len(app.moves)
        await pilot.press(key)
        await until(pilot, lambda count=count: len(app.moves) > count)


@pytest.mark.parametrize(
    ("keys", "moves"),
    [
        ("right l left h", [56.0, 63.0, 56.0, 50.0]),
        ("shift+right L shift+left H", [100.0, 200.0, 100.0, 50.0]),
        ("] ] [ [", [695.0, 2050.0, 2040.0, 694.0]),
    ],
    ids=["preferred numbers", "strides", "verdict flips"],
)
async def test_keys_step_stride_and_jump_there_and_back(keys, moves):
    app = Stage()
    async with app.run_test() as pilot:
        await press_each(pilot, app, *keys.split())
    assert app.moves == moves


async def test_beyond_the_last_flip_it_says_so():
    app = Stage(ticks=[2.0])
    async with app.run_test(size=(120, 5)) as pilot:
        await pilot.press("]")
        assert "no run flips above this value" in app.said


async def test_a_typed_number_is_taken_on_enter_and_app_keys_do_not_spoil_it():
    app = Stage()
    async with app.run_test() as pilot:
        await pilot.press(*"1e-7q")
        assert app.moves == []
        assert "1e-7" in app.lines()[0] and app.said == "“q” is in no number"
        await press_each(pilot, app, "enter")
    assert app.moves == [1e-7]
    assert not app.spoiled


async def test_a_key_that_moves_the_slider_sets_what_was_typed_first():
    app = Stage(ticks=[10.96, 694.5])
    async with app.run_test(size=(120, 5)) as pilot:
        await pilot.press("2")
        await press_each(pilot, app, "right_square_bracket")
        await pilot.press("1", "e", "left")
        assert "“1e” is not a number" in app.said
    assert app.moves[-1] == 11.0


async def test_curly_brackets_go_to_the_next_value_at_which_a_verdict_hangs_on_the_slider():
    app = Stage(ticks=[10.96, 694.5, 2000.0])
    async with app.run_test(size=(120, 5)) as pilot:
        app.slider.deciding = lambda: [2000.0]
        await press_each(pilot, app, "right_curly_bracket")
        await pilot.press("right_curly_bracket")
        assert "no verdict changes above this value" in app.said
    assert app.moves == [2010.0]


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("1e--7", "“1e--7” is not a number: try 50"),
        ("1,5", "“1,5” is not a number"),
        ("5 - 7", "“5 - 7” is not a number"),
        ("1e400", "“1e400” is not a number"),
        ("-5", "-5 is negative"),
        (".", "“.” is not a number"),
    ],
)
async def test_a_bad_number_says_so_and_changes_nothing(typed, complaint):
    app = Stage()
    async with app.run_test(size=(120, 5)) as pilot:
        await pilot.press(
            *("space" if key == " " else "comma" if key == "," else key for key in typed), "enter"
        )
        assert complaint in app.said
        assert app.slider.value == 50.0
    assert app.moves == []


async def test_escape_and_backspace_take_an_entry_back():
    app = Stage()
    async with app.run_test() as pilot:
        await pilot.press("7", "escape", "8", "backspace", "enter")
        await press_each(pilot, app, "right")
    assert app.moves == [56.0]


async def test_a_burst_of_keys_is_one_change_and_loses_none():
    app = Stage()
    async with app.run_test() as pilot:
        for _ in range(20):
            app.slider.action_step(1)
        await until(pilot, lambda: bool(app.moves))
        await press_each(pilot, app, "home")
    assert app.moves == [500.0, 50.0]


async def test_a_click_sets_the_value_under_the_pointer_and_a_drag_follows():
    app = Stage()
    async with app.run_test(size=(120, 5)) as pilot:
        label, cells, _ = widths(120)
        await pilot.mouse_down(app.slider, offset=(label, 0))
        await until(pilot, lambda: app.moves == [0.1])
        await pilot.hover(app.slider, offset=(label + cells - 1, 0))
        await until(pilot, lambda: app.moves == [0.1, 1e5])
        await pilot.mouse_up(app.slider, offset=(label + cells - 1, 0))
        await pilot.hover(app.slider, offset=(label + 3, 0))
        await press_each(pilot, app, "home")
    assert app.moves == [0.1, 1e5, 50.0]


async def test_a_value_beyond_the_track_is_kept_and_steps_come_back_to_its_end():
    app = Stage()
    async with app.run_test() as pilot:
        await pilot.press(*"1e9")
        await press_each(pilot, app, "enter")
        await pilot.press("right")
        await press_each(pilot, app, "left")
    assert app.moves == [1e9, 1e5]


async def test_firing_side_plateau_runs_and_default_are_told_apart_without_colour():
    app = Stage()
    async with app.run_test(size=(120, 5)) as pilot:
        await press_each(pilot, app, "right")
        await until(pilot, lambda: UNICODE.knob in app.lines()[1])
        rug, track = app.lines()
    label, cells, _ = widths(120)
    drawn = track[label : label + cells]
    knob = drawn.index(UNICODE.knob)
    assert drawn.index(UNICODE.default) < knob
    assert set(drawn[:knob]) == {UNICODE.passing, UNICODE.plateau, UNICODE.default}
    assert set(drawn[knob + 1 :]) == {UNICODE.plateau, UNICODE.firing}
    assert sum(character in UNICODE.bars for character in rug[label : label + cells]) == len(TICKS)
    assert "plateau 11…694" in track and "default 50×" in track
    assert "fires > 56×" in rug


async def test_runs_off_the_track_and_non_finite_runs_are_marked_at_its_ends():
    app = Stage(ticks=[0.0, 1.0, 1e7, float("nan")])
    async with app.run_test(size=(120, 5)):
        label, cells, _ = widths(120)
        rug = app.lines()[0][label : label + cells]
    assert rug[0] == UNICODE.off_left
    assert rug[-1] == UNICODE.nonfinite


async def test_in_one_row_the_runs_stand_on_the_track():
    app = Stage(glyphs=ASCII)
    async with app.run_test(size=(80, 5)) as pilot:
        app.slider.styles.height = 1
        await pilot.pause()
        (line,) = app.lines()
    assert line.isascii()
    assert line.count(ASCII.tick) == len(TICKS)
    assert ASCII.knob_home in line
    assert line.rstrip().endswith("> 50x")


async def test_a_narrow_slider_cuts_no_word_against_its_track():
    app = Stage()
    async with app.run_test(size=(80, 20)) as pilot:
        await until(pilot, lambda: "default 50×" in app.lines()[1])
        await pilot.resize_terminal(64, 20)
        await until(pilot, lambda: app.slider.size.width == 64)
        assert app.lines()[1].startswith("    ")
        assert not app.lines()[1].startswith("     ")
