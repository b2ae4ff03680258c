"""Themes a person can read, whatever cones they have."""

import itertools
import math

import pytest
from textual.color import Color

from fa_tui.terminal.themes import ANSI, DARK, LIGHT

GROUNDS = ("background", "surface", "panel")
VERDICTS = ("success", "error", "warning")
"""Passes, fires, just flipped."""

SIGHT = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no red cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
"""What is seen of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""

themes = pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)


def colours(theme):
    return theme.to_color_system().generate()


def linear(colour):
    parts = (channel / 255 for channel in colour.rgb)
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    """WCAG 2 contrast ratio."""
    weights = (0.2126, 0.7152, 0.0722)
    shades = [
        sum(w * part for w, part in zip(weights, linear(colour), strict=True))
        for colour in (one, other)
    ]
    return (max(shades) + 0.05) / (min(shades) + 0.05)


def on(ground, text):
    """A colour as it is seen on a ground; ``auto 60%`` is that much of black or white."""
    if text.startswith("auto"):
        return ground.blend(ground.get_contrast_text(1.0), float(text.split()[1].rstrip("%")) / 100)
    return ground + Color.parse(text)


def lab(text, sight):
    """CIE L*a*b* (D65) of what is seen of a colour."""
    rgb = linear(Color.parse(text))
    seen = [
        min(1.0, max(0.0, sum(a * b for a, b in zip(row, rgb, strict=True))))
        for row in SIGHT[sight]
    ]
    to_xyz = ((0.4339, 0.3762, 0.1898), (0.2126, 0.7152, 0.0722), (0.0178, 0.1095, 0.8727))
    shares = (sum(a * b for a, b in zip(row, seen, strict=True)) for row in to_xyz)
    x, y, z = (
        share ** (1 / 3) if share > 0.008856 else 7.787 * share + 16 / 116 for share in shares
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@themes
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize(
    "role", ["foreground", "accent", "secondary", "text-muted", "footer-key-foreground", *VERDICTS]
)
def test_every_colour_of_text_reads_on_every_ground(theme, role, ground):
    behind = Color.parse(colours(theme)[ground])
    assert contrast(on(behind, colours(theme)[role]), behind) >= 4.5


@themes
@pytest.mark.parametrize("state", ["", "-hover", "-active"])
def test_a_scrollbar_stands_off_from_its_track(theme, state):
    seen = colours(theme)
    assert (
        contrast(
            Color.parse(seen[f"scrollbar{state}"]),
            Color.parse(seen[f"scrollbar-background{state}"]),
        )
        >= 3
    )


@themes
def test_what_may_be_typed_and_what_is_under_the_cursor_can_be_read(theme):
    seen = colours(theme)
    for ground in GROUNDS:
        behind = Color.parse(seen[ground])
        assert contrast(on(behind, seen["text-disabled"]), behind) >= 3
    assert (
        contrast(
            Color.parse(seen["block-cursor-foreground"]),
            Color.parse(seen["block-cursor-background"]),
        )
        >= 4.5
    )


@themes
@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(("one", "other"), itertools.combinations([*VERDICTS, "foreground"], 2))
def test_verdicts_stay_apart_for_every_kind_of_colour_vision(theme, sight, one, other):
    assert math.dist(lab(colours(theme)[one], sight), lab(colours(theme)[other], sight)) > 12


PALETTES = {
    "VGA": {"bright_red": "#ff5555", "bright_blue": "#5555ff", "magenta": "#aa00aa"},
    "xterm": {"bright_red": "#ff0000", "bright_blue": "#5c5cff", "magenta": "#cd00cd"},
}
"""What two common terminals show for the colours of 16 that text may have."""


@pytest.mark.parametrize("palette", PALETTES)
@pytest.mark.parametrize("ground", ["#000000", "#ffffff"])
@pytest.mark.parametrize(
    "role",
    ["primary", "secondary", "accent", "border", "footer-key-foreground", "foreground", *VERDICTS],
)
def test_the_16_colours_of_text_read_on_a_light_and_on_a_dark_terminal(palette, ground, role):
    colour = colours(ANSI)[role].removeprefix("ansi_")
    if colour == "default":
        return
    shown = Color.parse(PALETTES[palette][colour])
    assert contrast(shown, Color.parse(ground)) >= 3.0


def test_no_curve_of_the_16_colours_is_lost_on_a_light_terminal():
    curves = {value for name, value in ANSI.variables.items() if name.startswith("curve-")}
    assert curves and not any("yellow" in value or "white" in value for value in curves)
    assert not any("cyan" in value or "green" in value for value in curves)


def test_verdicts_differ_in_the_16_colours():
    assert len({colours(ANSI)[role] for role in VERDICTS}) == 3
