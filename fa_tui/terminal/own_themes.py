"""Themes from a person's settings, each built on the explorer's dark or light one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from textual.theme import Theme

from fa_tui.config.settings import ThemeColours
from fa_tui.terminal.themes import DARK, LIGHT

_COLOURS = tuple(name for name in ThemeColours.__struct_fields__ if name != "dark")


def own_themes(themes: Mapping[str, ThemeColours]) -> Iterator[Theme]:
    """The themes of `settings.toml`, ready to register."""
    for name, colours in themes.items():
        base = DARK if colours.dark else LIGHT
        given = {part: value for part in _COLOURS if (value := getattr(colours, part)) is not None}
        # cursor, keys and scrollbars are drawn in the base's colours: they follow those that were replaced
        instead = {getattr(base, part): value for part, value in given.items()}
        variables = {key: instead.get(value, value) for key, value in base.variables.items()}
        yield dataclasses.replace(base, name=name, variables=variables, **given)
