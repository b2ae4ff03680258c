"""Themes that keep the verdict colours apart for every kind of colour vision.

Passing is blue, firing is vermilion, both from Okabe & Ito's palette ("Color Universal Design", 2008);
a glyph always says the same as the colour. `$success` passes, `$error` fires, `$warning` just flipped:
yellow on dark, purple on light, where no readable yellow stands off from vermilion without green cones.
"""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="fa-dark",
    dark=True,
    primary="#56b4e9",
    secondary="#8fb8d8",
    success="#56b4e9",
    error="#ff8a4c",
    warning="#f0c542",
    accent="#7ad0b0",
    foreground="#dfe3e8",
    background="#11151a",
    surface="#171c22",
    panel="#1f262e",
    variables={
        "block-cursor-foreground": "#11151a",
        "block-cursor-background": "#f0c542",
        "block-cursor-text-style": "bold",
        "footer-key-foreground": "#f0c542",
        "footer-background": "#171c22",
        "scrollbar": "#66727f",
        "scrollbar-hover": "#8a97a5",
        "scrollbar-active": "#7ad0b0",
        "scrollbar-background": "#171c22",
        "scrollbar-background-hover": "#171c22",
        "scrollbar-background-active": "#171c22",
        "scrollbar-corner-color": "#171c22",
        "border": "#7ad0b0",
        "border-blurred": "#3a444f",
    },
)

LIGHT = Theme(
    name="fa-light",
    dark=False,
    primary="#005a9c",
    secondary="#386484",
    success="#005a9c",
    error="#b23c00",
    warning="#751461",
    accent="#00664b",
    foreground="#1c2126",
    background="#fbfaf7",
    surface="#f3f1ec",
    panel="#e8e5dd",
    variables={
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#005a9c",
        "block-cursor-text-style": "bold",
        "footer-key-foreground": "#8a3a00",
        "footer-background": "#e8e5dd",
        "text-disabled": "auto 46%",
        "scrollbar": "#857f71",
        "scrollbar-hover": "#6d675a",
        "scrollbar-active": "#00664b",
        "scrollbar-background": "#f3f1ec",
        "scrollbar-background-hover": "#f3f1ec",
        "scrollbar-background-active": "#f3f1ec",
        "scrollbar-corner-color": "#f3f1ec",
        "border": "#00664b",
        "border-blurred": "#b9b4a8",
    },
)

ANSI = Theme(
    name="fa-ansi",
    dark=True,
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_cyan",
    success="ansi_cyan",
    error="ansi_bright_red",
    warning="ansi_yellow",
    accent="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        # turned round it is seen on every background, and without colours
        "block-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-text-style": "bold reverse",
        "border": "ansi_green",
        "border-blurred": "ansi_bright_black",
        "input-cursor-background": "ansi_black",
        "input-cursor-foreground": "ansi_bright_white",
        "input-selection-background": "ansi_bright_blue",
        "input-selection-foreground": "ansi_black",
        "screen-selection-background": "ansi_bright_blue",
        "screen-selection-foreground": "ansi_black",
        "footer-key-foreground": "ansi_yellow",
        "footer-background": "ansi_default",
    },
)

THEMES: tuple[Theme, ...] = (DARK, LIGHT, ANSI)
"""The first one is the default."""
