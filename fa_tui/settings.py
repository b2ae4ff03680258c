"""The settings file, `settings.toml` of the config folder; it changes the explorer alone.

Also threshold sets saved by name, in `presets.toml` next to it. Where something does not fit, its
name is reported and the defaults are used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec
import platformdirs

from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.files.atomic import followed, write_bytes
from fa_core.files.decode import Json, read_toml
from fa_core.files.opening import exists, real_path
from fa_core.formats.rows import Problem
from fa_core.option_values import nearest
from fa_core.report.report_facts import DiagnosticThresholds

FILE = "settings.toml"
DEFAULTS = "defaults are used"
Theme = Literal["", "fa-dark", "fa-light", "fa-ansi"]
Quantity = Literal[
    "letters",
    "growth",
    "g_L",
    "drift",
    "margin",
    "acc",
    "h_L",
    "frozen",
    "gamma",
    "norms",
]


T = TypeVar("T", bound=msgspec.Struct)
K = TypeVar("K")


def config_folder() -> Path:
    """Folder of settings and presets."""
    return platformdirs.user_config_path("fa-tui")


def settings_file() -> Path:
    """Path of the settings file."""
    return config_folder() / FILE


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The explorer's settings (`settings.toml`); all of them may be left out.

    Attributes:
        theme: fa-dark, fa-light or fa-ansi; "" lets the terminal decide.
        glyphs: auto asks the locale. FA_TUI_GLYPHS in the environment goes before it.
        device: where to measure: auto, cpu, cuda, cuda:1, mps.
        show: what the matrix shows at first: letters, a number, or norms, bars of ‖h‖ and ‖g‖.
        live: follow the open folders (auto), or not (off; r looks again).
        columns: of logs that other tools wrote, as `--columns` takes them.
        thresholds: where the sliders start.
    """

    theme: Theme = ""
    glyphs: Literal["auto", "unicode", "ascii"] = "auto"
    device: str = "auto"
    show: Quantity = "letters"
    live: Literal["auto", "off"] = "auto"
    columns: str = ""
    thresholds: DiagnosticThresholds = DiagnosticThresholds()


class Loaded(NamedTuple):
    """The settings, and problems of their file."""

    settings: Settings
    problems: Sequence[Problem] = ()


def load_settings() -> Loaded:
    """What `settings_file()` says; the defaults and a problem if something in it is wrong."""
    path = settings_file()
    try:
        _, tables = _read(path)
        return Loaded(_converted(Settings, tables, path))
    except FaError as error:
        return Loaded(Settings(), [Problem(str(path), str(error))])


def keep_theme(theme: str) -> Path:
    """Save the theme by its name; nothing else in the settings file is changed.

    Returns:
        The file.

    Raises:
        FaError: it cannot be read or written.
    """
    path = settings_file()
    _rewrite(path, "theme", theme)
    return path


class MeasureAnswer(msgspec.Struct, frozen=True):
    """What the user typed for the checkpoints of a folder that no manifest describes.

    Attributes:
        data: data SPEC, as `--data` takes it.
        model: network SPEC, as `--model` takes it; ``""`` = found from the checkpoint.
    """

    data: str = ""
    model: str = ""


_ANSWERS = "measuring.toml"
"""What was typed for the checkpoints of a folder, a table per folder."""


def _kept(file: str, name: str, kind: type[K]) -> K:
    """What a file of the config folder keeps under a name; empty without one that can be read."""
    with suppress(FaError, KeyError, msgspec.ValidationError):
        _, tables = _read(config_folder() / file)
        return msgspec.convert(tables[name], kind)
    return kind()


def remembered_answer(folder: Path) -> MeasureAnswer:
    """What was typed for a folder the last time."""
    return _kept(_ANSWERS, str(real_path(folder)), MeasureAnswer)


def remember_answer(folder: Path, answer: MeasureAnswer) -> None:
    """Keep what was typed for a folder.

    Raises:
        FaError: it cannot be written.
    """
    _rewrite(config_folder() / _ANSWERS, str(real_path(folder)), msgspec.to_builtins(answer))


_OPENED, _RECENT, _MOST_RECENT = "opened.toml", "opened", 9


def recent_places() -> list[str]:
    """The files and folders that were open before and are still there, the last one first."""
    return [*filter(exists, _kept(_OPENED, _RECENT, list[str]))]


def remember_places(paths: Sequence[Path]) -> None:
    """Keep what was opened, if it can be written."""
    if paths:
        names = dict.fromkeys([*(str(real_path(path)) for path in paths), *recent_places()])
        with suppress(FaError):
            _rewrite(config_folder() / _OPENED, _RECENT, [*names][:_MOST_RECENT])


def _rewrite(path: Path, name: str, value: object) -> None:
    """Set a key of a TOML file, or remove it (None); everything else, comments included, is kept.

    Args:
        path: the file.
        name: the key.
        value: a TOML value.
    """
    import tomlkit  # after the first paint

    text, _ = _read(path)
    document = tomlkit.parse(text)
    if value is None:
        del document[name]
    else:
        document[name] = value
    try:
        content = tomlkit.dumps(document).encode()
    except UnicodeEncodeError as error:
        raise FaError("cannot keep a name that is no UTF-8", where=path) from error
    write_bytes(followed(path), content)  # configurations are often links to one folder


def _read(path: Path) -> tuple[str, Json]:
    """The text of a TOML file of the user, and its tables; a missing file is empty.

    Raises:
        UnreadableInput: not readable, or not TOML (with the line).
    """
    if not exists(path):
        return "", {}
    return read_toml(path, f'write name = value, and text in "quotes"; {DEFAULTS}')


def _converted(kind: type[T], table: object, path: Path, *keys: str) -> T:
    """A table of a file as a struct of fields with defaults.

    Args:
        kind: the struct.
        table: the table.
        path: the file.
        keys: lead to the table.

    Raises:
        UnreadableInput: an unknown name, or a value that does not fit.
    """
    if isinstance(table, Mapping):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        for name, value in table.items():
            if name not in fields:
                place = ".".join([*keys, name])
                what = f"{place}: unknown setting; {nearest(name, fields)}"
                raise UnreadableInput(what, where=path, hint=DEFAULTS)
            if fields[name] is DiagnosticThresholds:
                _converted(DiagnosticThresholds, value, path, *keys, name)
    try:
        return msgspec.convert(table, kind)
    except ValueError as error:
        what, _, inside = str(error).replace("`", "").partition(" - at $")
        place = ".".join(filter(None, [*keys, inside.strip(".")]))
        what = what.replace("Invalid enum value", "there is no").replace("Expected", "expected")
        raise UnreadableInput(f"{place}: {what}", where=path, hint=DEFAULTS) from error


PROTOCOL = "protocol"
"""The built-in preset: the default thresholds."""

_LONGEST_NAME = 40


def presets_file() -> Path:
    """Path of the presets. It is read before every change: another explorer may have changed it."""
    return config_folder() / "presets.toml"


def load_presets() -> tuple[dict[str, DiagnosticThresholds], Problem | None]:
    """Name → thresholds, `PROTOCOL` first; and why the file could not be read."""
    presets = {PROTOCOL: DiagnosticThresholds()}
    path = presets_file()
    try:
        _, tables = _read(path)
        for name, table in tables.items():
            if name != PROTOCOL:
                presets[name] = _converted(DiagnosticThresholds, table, path, name)
    except FaError as error:
        return presets, Problem(str(path), str(error))
    return presets, None


def save_preset(name: str, thresholds: DiagnosticThresholds) -> None:
    """Save thresholds under a name, replacing earlier ones.

    Raises:
        UsageError: an invalid name, or a file with errors.
        FaError: the file cannot be written.
    """
    if why := preset_problem(name):
        raise UsageError(why)
    _sound_presets()
    _rewrite(presets_file(), name.strip(), msgspec.structs.asdict(thresholds))


def remove_preset(name: str) -> None:
    """Remove a preset.

    Raises:
        UsageError: no such preset, or a file with errors.
        FaError: the file cannot be written.
    """
    if name == PROTOCOL or name not in _sound_presets():
        raise UsageError(f"no preset {name!r} to remove", where=presets_file())
    _rewrite(presets_file(), name, None)


def _sound_presets() -> dict[str, DiagnosticThresholds]:
    """The presets of a file without errors.

    Raises:
        UsageError: it has some.
    """
    presets, problem = load_presets()
    if problem:
        raise UsageError(problem.message, hint="correct the file first")
    return presets


def preset_problem(name: str) -> str:
    """Why a preset's name is invalid, or ``""``.

    >>> preset_problem("strict"), preset_problem("protocol")
    ('', "'protocol' is the protocol's own: choose another name")
    """
    name = name.strip()
    if not name:
        return "a preset needs a name"
    if name == PROTOCOL:
        return f"{name!r} is the protocol's own: choose another name"
    if len(name) > _LONGEST_NAME or not name.isprintable():
        return f"a name has at most {_LONGEST_NAME} characters, all of them printable"
    return ""
