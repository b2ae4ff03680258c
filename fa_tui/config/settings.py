"""What a person prefers, in `settings.toml` of the config folder. It changes the explorer, never a command's result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from fa_core.errors import FaError
from fa_core.report import DiagnosticThresholds
from fa_core.rows import Problem
from fa_tui.config.places import config_folder

FILE = "settings.toml"

Colour = Annotated[
    str,
    msgspec.Meta(pattern="^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$", description="as #rgb or #rrggbb", examples=["#56b4e9"]),
]
Quantity = Literal["letters", "growth", "g_L", "stability", "margin", "acc", "h_L", "frozen", "gamma"]


class ThemeColours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A theme of one's own; a colour that is not given is that of fa-dark, or of fa-light where `dark` is false.

    Attributes:
        dark: whether the background is darker than the text.
        primary: headings of panes.
        secondary: sources in the matrix.
        success: what passes.
        error: what fires.
        warning: what just flipped, and the cursor.
        accent: keys, bars, marks.
        foreground: text.
        background: behind everything.
        surface: behind panes.
        panel: behind the title and the keys.
    """

    dark: bool = True
    primary: Colour | None = None
    secondary: Colour | None = None
    success: Colour | None = None
    error: Colour | None = None
    warning: Colour | None = None
    accent: Colour | None = None
    foreground: Colour | None = None
    background: Colour | None = None
    surface: Colour | None = None
    panel: Colour | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The explorer's settings (`settings.toml`); all of them may be left out.

    Attributes:
        theme: fa-dark, fa-light, fa-ansi, or the name of one under `themes`; "" lets the terminal decide.
        glyphs: auto asks the locale. FA_TUI_GLYPHS in the environment goes before it.
        device: where to measure: auto, cpu, cuda, cuda:1, mps.
        show: what the matrix shows at first: letters, or a number.
        live: follow folders by events of the system (auto: by polling on network disks), by polling, or not at all.
        poll_seconds: how often to look where polling is needed.
        thresholds: where the sliders start.
        themes: themes of one's own, by name.
    """

    theme: Annotated[str, msgspec.Meta(examples=["fa-light"])] = ""
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"
    device: str = "auto"
    show: Quantity = "letters"
    live: Literal["auto", "polling", "off"] = "auto"
    poll_seconds: Annotated[float, msgspec.Meta(ge=0.1, le=3600)] = 2.0
    thresholds: DiagnosticThresholds = DiagnosticThresholds()
    themes: dict[str, ThemeColours] = {}


class Loaded(NamedTuple):
    """The settings, and what is wrong with their file."""

    settings: Settings
    problems: Sequence[Problem] = ()


NOTHING_SET = Loaded(Settings())
"""The defaults."""


def settings_file() -> Path:
    """Where the settings are."""
    return config_folder() / FILE


def remember_theme(name: str, path: Path | None = None) -> Path:
    """Keep a theme for the next time: its line in the settings file, and nothing else there, is written anew.

    Args:
        name: of the theme.
        path: the file (default: `settings_file()`).

    Returns:
        The file.

    Raises:
        FaError: it cannot be read or written.
    """
    from fa_core.atomic import write_bytes
    from fa_tui.config.toml_file import line_of, quoted, text_of

    path = path or settings_file()
    lines = text_of(path).splitlines()
    place = line_of("\n".join(lines), ["theme"])
    line = f"theme = {quoted(name)}"
    if place is None:
        # before the tables: below one it would belong to it
        lines.insert(0, line)
    else:
        lines[place - 1] = line
    write_bytes(path, ("\n".join(lines) + "\n").encode())
    return path


def load_settings(path: Path | None = None) -> Loaded:
    """The settings of a file, defaults where it says nothing or something wrong. Never raises.

    Args:
        path: the file (default: `settings_file()`).
    """
    path = path or settings_file()
    if not path.exists():
        return NOTHING_SET
    from fa_tui.config.toml_file import Fitting, load

    try:
        data, text = load(path)
    except FaError as error:
        return Loaded(Settings(), [Problem(str(path), str(error))])
    fitting = Fitting(path, text)
    settings = fitting.struct(Settings, data)
    if settings.theme:
        from fa_tui.terminal.themes import THEMES

        known = [*(theme.name for theme in THEMES), *settings.themes]
        if settings.theme not in known:
            fitting.tell(["theme"], f"no theme {settings.theme!r}", f"there are {', '.join(known)}")
            settings = msgspec.structs.replace(settings, theme="")
    return Loaded(settings, fitting.problems)
