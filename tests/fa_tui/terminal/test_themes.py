"""Themes a person can read."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from fa_tui.terminal.themes import DARK, LIGHT


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""

    def luminance(text: str) -> float:
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in (channel / 255 for channel in Color.parse(text).rgb)
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def as_deuteranope(text: str) -> tuple[float, float]:
    """What is left of a colour without green cones: brightness and blue-yellow (Viénot 1999, linear RGB)."""
    red, green, blue = ((channel / 255) ** 2.2 for channel in Color.parse(text).rgb)
    return 0.29275 * red + 0.70725 * green, -0.02234 * red + 0.02234 * green + blue


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("role", ["success", "error", "warning", "accent", "foreground"])
def test_every_colour_of_text_reads_on_the_background(theme: Theme, role: str) -> None:
    assert theme.background is not None
    assert contrast(getattr(theme, role), theme.background) >= 4.5


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_passing_and_firing_differ_without_green_cones(theme: Theme) -> None:
    assert theme.success is not None and theme.error is not None
    passing, firing = as_deuteranope(theme.success), as_deuteranope(theme.error)
    assert max(abs(one - other) for one, other in zip(passing, firing, strict=True)) > 0.15
