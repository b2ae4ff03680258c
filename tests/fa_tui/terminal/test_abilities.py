"""What the environment says about the terminal."""

import pytest

from fa_tui.terminal.abilities import TRUE_COLOUR, detect


@pytest.mark.parametrize(
    ("environ", "unicode"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8@euro"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "POSIX"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
        ({"LC_CTYPE": "en_US.ISO-8859-1"}, False),
        ({}, True),
        ({"LC_ALL": "C", "FA_TUI_GLYPHS": "unicode"}, True),
        ({"LANG": "C.UTF-8", "FA_TUI_GLYPHS": "ascii"}, False),
    ],
)
def test_the_locale_chooses_the_glyphs_unless_told_otherwise(environ, unicode):
    terminal = detect({"TERM": "xterm-256color", **environ})
    assert terminal.unicode is unicode
    assert terminal.glyphs.unicode is unicode


def test_a_console_without_block_elements_gets_ascii():
    assert not detect({"TERM": "linux", "LANG": "C.UTF-8"}).unicode


@pytest.mark.parametrize(
    ("environ", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE_COLOUR),
        ({"TERM": "screen-256color"}, 256),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "vt100"}, 16),
        ({"TERM": "dumb"}, 0),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": ""}, TRUE_COLOUR),
    ],
)
def test_colours_follow_the_environment_and_no_color_wins(environ, colours):
    terminal = detect(environ)
    assert terminal.colours == colours
    assert (terminal.ansi_color is True) == (colours <= 16)
    assert terminal.theme == ("fa-ansi" if colours <= 16 else "fa-dark")
