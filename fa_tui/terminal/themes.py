"""Themes for every kind of colour vision; their colours are in `themes.json`.

Passing is blue, firing is vermilion, both from Okabe & Ito's palette ("Color Universal Design",
2008); a glyph always repeats the colour's meaning. `$success` passes, `$error` fires, `$warning`
just flipped: yellow on dark, purple on light, where yellow is either unreadable or, without green
cones, like vermilion.

With the terminal's own 16 colours nothing tells whether its background is light or dark. So only
colours that can be read on both are used: its default, bright red, bright blue and magenta, never
yellow, green, cyan or white. The cursor is reversed, so that it is visible on every background, and
without colours.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from textual.app import App
from textual.theme import Theme

# not TOML, whose parser is slow to import, before the first paint
_FILE = msgspec.json.decode(Path(__file__).with_name("themes.json").read_bytes())


THEMES = tuple(Theme(name=name, **colours) for name, colours in _FILE["themes"].items())
"""All themes; the first one is the default."""
DARK, LIGHT, ANSI = THEMES

TONES: dict[str, str] = _FILE["tones"]
"""Kind of text → Textual style with the theme's variables."""


def begin_with(app: App[int], name: str) -> None:
    """Register the themes and set one before the start: an assignment would parse all stylesheets
    again."""
    for theme in THEMES:
        app.register_theme(theme)
    app.set_reactive(App.theme, name)
    dark = app.current_theme.dark
    app.set_class(dark, "-dark-mode")
    app.set_class(not dark, "-light-mode")
    app.add_class(f"-theme-{name}")
    app.stylesheet.set_variables(app.get_css_variables())
