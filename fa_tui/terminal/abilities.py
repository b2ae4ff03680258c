"""Terminal abilities, read from the environment before an App exists.

Textual drops ``NO_COLOR`` from the environment when an App is built and has no ASCII fallback, so
theme, colour mode and glyph set are chosen here and passed to the App.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import msgspec

from fa_tui.views.glyphs import ASCII, UNICODE, Glyphs

TRUE_COLOUR = 1 << 24
_PLAIN_TERMS = ("dumb", "linux", "vt")
"""Terminals whose fonts lack block elements or whose charset is not Unicode."""


class Terminal(msgspec.Struct, frozen=True):
    """Abilities of a terminal.

    Attributes:
        term: ``TERM``.
        unicode: whether box drawing, blocks and braille can be shown.
        colours: 0, 16, 256 or 2**24.
    """

    term: str
    unicode: bool
    colours: int

    @property
    def glyphs(self) -> Glyphs:
        """The glyph set."""
        if self.unicode:
            return UNICODE
        return ASCII

    @property
    def ansi_color(self) -> bool | None:
        """Value of ``App(ansi_color=...)``: True sends no RGB, None leaves it to the theme."""
        if self.colours <= 16:
            return True
        return None

    @property
    def theme(self) -> str:
        """The default theme."""
        if self.colours <= 16:
            return "fa-ansi"
        return "fa-dark"


def detect(environ: Mapping[str, str] = os.environ, glyphs: str = "auto") -> Terminal:
    """Detect the abilities from the environment.

    Args:
        environ: default: the process's environment.
        glyphs: ``unicode`` or ``ascii`` overrides the locale, FA_TUI_GLYPHS overrides both.

    >>> detect({"TERM": "xterm-256color", "LANG": "en_US.UTF-8", "COLORTERM": "truecolor"})
    Terminal(term='xterm-256color', unicode=True, colours=16777216)
    >>> detect({"TERM": "vt100", "LC_ALL": "C", "NO_COLOR": "1"})
    Terminal(term='vt100', unicode=False, colours=0)
    >>> detect({"TERM": "xterm", "LANG": "en_US.UTF-8"}, "ascii").unicode
    False
    """
    term = environ.get("TERM", "")
    is_unicode, colours = _unicode(environ, term, glyphs), _colours(environ, term)
    return Terminal(term=term, unicode=is_unicode, colours=colours)


def forget_empty_no_color() -> None:
    """Remove an empty ``NO_COLOR``, which means unset (no-color.org) but not for Textual."""
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]


def _unicode(env: Mapping[str, str], term: str, glyphs: str) -> bool:
    for chosen in (env.get("FA_TUI_GLYPHS", "").lower(), glyphs):
        if chosen in ("ascii", "unicode"):
            return chosen == "unicode"
    if term.startswith(_PLAIN_TERMS):
        return False
    # Python sets LC_CTYPE=C.UTF-8 under LANG=C (PEP 538): then LANG is the user's choice
    set_by_python = env.get("LC_CTYPE") == "C.UTF-8" and env.get("LANG")
    chosen_locales = ("LC_ALL", "LANG") if set_by_python else ("LC_ALL", "LC_CTYPE", "LANG")
    for name in chosen_locales:
        locale = env.get(name)
        if locale:
            return locale.lower().replace("-", "").partition("@")[0].endswith("utf8")
    return True


def _colours(env: Mapping[str, str], term: str) -> int:
    if env.get("NO_COLOR") or term in ("", "dumb"):
        return 0
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return TRUE_COLOUR
    if "256color" in term:
        return 256
    return 16


def on_a_terminal() -> bool:
    """Whether the explorer can run: Textual reads stdin and paints on stderr.

    Under `textual serve` the terminal is a browser behind a pipe.
    """
    if os.environ.get("TEXTUAL_DRIVER", "").endswith("WebDriver"):
        return True
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "") != "dumb" and all(
        stream is not None and stream.isatty() for stream in streams
    )
