"""Themes that keep the verdict colours apart for every kind of colour vision.

Passing is blue, firing is vermilion, both from Okabe & Ito's palette ("Color Universal Design", 2008);
a glyph always says the same as the colour. `$success` passes, `$error` fires, `$warning` just flipped:
yellow on dark, purple on light, where no readable yellow differs from vermilion without green cones.
"""

from __future__ import annotations

from textual.app import App
from textual.theme import Theme

from fa_core.method_style import METHOD_STYLES

_COLOURS: dict[str, tuple[str, str]] = {
    "primary": ("#56b4e9", "#005a9c"),
    "secondary": ("#8fb8d8", "#386484"),
    "success": ("#56b4e9", "#005a9c"),
    "error": ("#ff8a4c", "#b23c00"),
    "warning": ("#f0c542", "#751461"),
    "accent": ("#7ad0b0", "#00664b"),
    "foreground": ("#dfe3e8", "#1c2126"),
    "background": ("#11151a", "#fbfaf7"),
    "surface": ("#171c22", "#f3f1ec"),
    "panel": ("#1f262e", "#e8e5dd"),
}
"""On dark and on light."""

_VARIABLES: dict[str, tuple[str, str]] = {
    "block-cursor-foreground": ("#11151a", "#ffffff"),
    "block-cursor-background": ("#f0c542", "#005a9c"),
    "block-cursor-text-style": ("bold", "bold"),
    "footer-key-foreground": ("#f0c542", "#8a3a00"),
    "footer-background": ("#171c22", "#e8e5dd"),
    "text-disabled": ("auto 38%", "auto 46%"),
    "scrollbar": ("#66727f", "#857f71"),
    "scrollbar-hover": ("#8a97a5", "#6d675a"),
    "scrollbar-active": ("#7ad0b0", "#00664b"),
    **dict.fromkeys(
        (
            "scrollbar-background",
            "scrollbar-background-hover",
            "scrollbar-background-active",
            "scrollbar-corner-color",
        ),
        _COLOURS["surface"],
    ),
    "border": ("#7ad0b0", "#00664b"),
    "border-blurred": ("#3a444f", "#b9b4a8"),
    # as in the figures; their black would not be seen on dark
    **{f"method-{colour[1:]}": (colour, colour) for colour, _ in METHOD_STYLES.values()},
    "method-000000": (_COLOURS["foreground"][0], "#000000"),
}

_ANSI_METHODS = (
    "default",
    "cyan",
    "bright_red",
    "blue",
    "green",
    "magenta",
    "white",
    "yellow",
    "yellow",
    "bright_magenta",
    *("bright_blue", "bright_green", "bright_cyan", "yellow", "bright_blue", "magenta"),
    *("red", "bright_red", "bright_magenta", "red", "magenta", "cyan", "bright_yellow", "green"),
)
"""The nearest of a terminal's own colours, in the order of `METHOD_STYLES`."""


def _theme(name: str, column: int) -> Theme:
    colours, variables = ({key: pair[column] for key, pair in table.items()} for table in (_COLOURS, _VARIABLES))
    return Theme(name=name, dark=column == 0, variables=variables, **colours)  # type: ignore[arg-type]


DARK, LIGHT = _theme("fa-dark", 0), _theme("fa-light", 1)

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
        **{
            f"method-{style.colour[1:]}": f"ansi_{name}"
            for style, name in zip(METHOD_STYLES.values(), _ANSI_METHODS, strict=True)
        },
    },
)

THEMES: tuple[Theme, ...] = (DARK, LIGHT, ANSI)
"""The first one is the default."""


def begin_with(app: App[int], name: str) -> None:
    """Register the themes and set one before the start: an assignment would have every stylesheet parsed again."""
    for theme in THEMES:
        app.register_theme(theme)
    app.set_reactive(App.theme, name)
    dark = app.current_theme.dark
    app.set_class(dark, "-dark-mode")
    app.set_class(not dark, "-light-mode")
    app.add_class(f"-theme-{name}")
    app.stylesheet.set_variables(app.get_css_variables())
