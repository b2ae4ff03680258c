"""Themes for every kind of colour vision; their colours are in `themes.json`.

Passing is blue, firing is vermilion, both from Okabe & Ito's palette ("Color Universal Design",
2008); a glyph always says the same as the colour. `$success` passes, `$error` fires, `$warning`
just flipped: yellow on dark, purple on light, where no readable yellow differs from vermilion
without green cones. On a terminal's own colours the cursor is turned round: so it is seen on every
background, and without colours.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual.app import App
from textual.theme import Theme

from fa_core.decode import Json
from fa_core.facts.method_style import METHOD_STYLES

# not TOML: its parser takes longer to import than all else that the first paint reads
_FILE = msgspec.json.decode(Path(__file__).with_name("themes.json").read_bytes())


def _theme(
    name: str, *, colours: Json, variables: dict[str, str], methods: dict[str, str]
) -> Theme:
    """A theme; methods have the colours of the figures where it has none of its own for them."""
    own = {}
    for method, style in METHOD_STYLES.items():
        own[f"method-{style.colour[1:]}"] = methods.get(method, style.colour)
    return Theme(name=name, variables=variables | own, **colours)


THEMES: tuple[Theme, ...] = tuple(_theme(name, **table) for name, table in _FILE["themes"].items())
"""The first one is the default."""
DARK, LIGHT, ANSI = THEMES

TONES: dict[str, str] = _FILE["tones"] | {
    f"method-{style.colour[1:]}": f"{{method-{style.colour[1:]}}}"
    for style in METHOD_STYLES.values()
}
"""The kinds of text, each as a Textual style over the variables of the theme."""


def begin_with(app: App[int], name: str) -> None:
    """Register the themes and set one before the start: an assignment would have every stylesheet
    parsed again."""
    for theme in THEMES:
        app.register_theme(theme)
    app.set_reactive(App.theme, name)
    dark = app.current_theme.dark
    app.set_class(dark, "-dark-mode")
    app.set_class(not dark, "-light-mode")
    app.add_class(f"-theme-{name}")
    app.stylesheet.set_variables(app.get_css_variables())
