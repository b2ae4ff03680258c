"""Where this program keeps what it remembers for a person.

A person's TOML file as typed values: what is wrong is told with its line and its fix, and only that is left out.

What a person prefers, in `settings.toml` of the config folder. It changes the explorer, never a command's result.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
import platformdirs
from msgspec.structs import FieldInfo

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import FaError, UnreadableInput
from fa_core.rows import Problem


def config_folder() -> Path:
    """Settings and presets: written by the person, or at their word."""
    return platformdirs.user_config_path("fa-tui")


def state_folder() -> Path:
    """What a running explorer leaves behind, such as text that no clipboard took."""
    return platformdirs.user_state_path("fa-tui")


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T", bound=msgspec.Struct)

_SYNTAX = re.compile(r"(?P<what>.*) \(at (?P<place>.*)\)")
_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\]]*)\]")


def load(path: Path) -> tuple[dict[str, Any], str]:
    """The tables of a TOML file, and its text. A file that is not there is empty.

    Raises:
        UnreadableInput: not readable, or no TOML (with the line).
    """
    text = text_of(path)
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX.fullmatch(str(error))
        what, place = (found["what"], found["place"].partition(",")[0]) if found else (str(error), "")
        hint = 'write name = value, and text in "quotes"; until then the whole file is left out'
        raise UnreadableInput(f"not TOML: {what}", where=f"{path}: {place}" if place else path, hint=hint) from error


def text_of(path: Path) -> str:
    """The text of a file, empty if it is not there.

    Raises:
        UnreadableInput: not readable.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UnreadableInput(f"cannot be read ({reason})", where=path, hint="it is left out") from error


class Fitting:
    """Fits tables to structs in which every field has a default.

    Args:
        path: the file, for messages.
        text: its text, to find lines in.

    Attributes:
        problems: what did not fit, in the order of the file.
    """

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text
        self.problems: list[Problem] = []

    def struct(self, kind: type[T], data: Mapping[str, Any], keys: Sequence[str] = ()) -> T:
        """A table as a struct; what does not fit keeps its default and is told.

        Args:
            kind: the struct.
            data: the table.
            keys: where the table is.
        """
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        kept: dict[str, Any] = {}
        for name, value in data.items():
            place = [*keys, name]
            if name in fields:
                fitted = self._value(fields[name], value, place)
                if fitted is not msgspec.UNSET:
                    kept[name] = fitted
            else:
                near = difflib.get_close_matches(name, fields, n=1)
                known = f"did you mean {near[0]}?" if near else f"known: {', '.join(fields)}"
                self.tell(place, "unknown setting, left out", known)
        try:
            return kind(**kept)
        except ValueError as error:
            self.tell(keys, str(error), "defaults are used")
            return kind()

    def _value(self, field: FieldInfo, value: Any, keys: Sequence[str]) -> Any:
        """A value of a field, or UNSET if it does not fit."""
        table = field.type
        entries = typing.get_args(table) if typing.get_origin(table) is dict else ()
        if _is_struct(table) and isinstance(value, Mapping):
            return self.struct(table, value, keys)
        if entries and _is_struct(entries[1]) and isinstance(value, Mapping):
            return {
                name: self.struct(entries[1], entry, [*keys, name])
                for name, entry in value.items()
                if self._is_table(entry, [*keys, name])
            }
        try:
            return msgspec.convert(value, field.type)
        except msgspec.ValidationError as error:
            self.tell(keys, _what(str(error), field), _fix(field))
            return msgspec.UNSET

    def _is_table(self, value: Any, keys: Sequence[str]) -> bool:
        if not isinstance(value, Mapping):
            self.tell(keys, "not a table", f"write [{'.'.join(keys)}] and what belongs to it below")
        return isinstance(value, Mapping)

    def tell(self, keys: Sequence[str], what: str, fix: str) -> None:
        """Note a problem with a key, in one line."""
        line = line_of(self._text, keys)
        where = f"{self._path}: line {line}" if line else str(self._path)
        self.problems.append(Problem(str(self._path), f"{where}: {'.'.join(keys)}: {what}; {fix}"))


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The line (from 1) on which a key is set, or the table that holds it begins.

    >>> line_of("live = 'off'\\n[thresholds]\\ng_norm_floor = 'x'", ["thresholds", "g_norm_floor"])
    3
    """
    wanted, table, holder = list(keys), list[str](), None
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = names = _split(header["name"])
        elif "=" in line:
            names = table + _split(line.partition("=")[0])
        else:
            continue
        if names == wanted:
            return number
        if names == wanted[: len(names)]:
            holder = number
    return holder


def quoted(text: str) -> str:
    """Text as a TOML string.

    >>> print(quoted('say "hi"'))
    "say \\"hi\\""
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _split(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _metas(kind: object) -> Iterator[msgspec.Meta]:
    """What is said of a type and of its parts."""
    for part in typing.get_args(kind):
        if isinstance(part, msgspec.Meta):
            yield part
        else:
            yield from _metas(part)


def _what(error: str, field: FieldInfo) -> str:
    """What does not fit, in words instead of a pattern where the setting has such."""
    described = next((meta.description for meta in _metas(field.type) if meta.description), "")
    if "regex" in error and described:
        return f"expected text {described}"
    return error.replace("`", "").replace("Expected", "expected").replace("Invalid enum value", "there is no")


def _fix(field: FieldInfo) -> str:
    """How the setting would be written."""
    if typing.get_origin(field.type) is typing.Literal:
        return f"write one of {', '.join(quoted(choice) for choice in typing.get_args(field.type))}"
    examples = [example for meta in _metas(field.type) for example in meta.examples or ()]
    shown = examples[0] if examples else field.default
    return f"write {field.name} = {quoted(shown) if isinstance(shown, str) else shown}, for example"


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
