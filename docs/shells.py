"""Write what shells complete and what `man fa-tui` shows: ``python docs/shells.py``.

All of it follows from the commands; `tests/fa_tui/test_shells.py` compares.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fa_core import __version__
from fa_core.formats.schema import SCHEMAS
from fa_core.option_values import ARCHS
from fa_core.pitfalls import PITFALLS
from fa_core.reporting.figures import FIGURES
from fa_core.training.experiments import experiments
from fa_core.training.plan import METHODS
from fa_tui import options, typer_app
from fa_tui.cli import COMMANDS
from fa_tui.settings import Settings, named_values

FOLDER = Path(options.__file__).parent / "shells"

NAMES = {
    "pitfalls names": PITFALLS,
    "replicate name": [one.name for one in experiments()],
    "report --figure": [*FIGURES, "timeline", "gamma"],
    "schema name": [*SCHEMAS, "settings"],
    "settings name": named_values(Settings()),
    "train --arch": ARCHS,
    "train --method": METHODS,
}
"""What an argument or option is one of, where its type does not say so."""


class Option(NamedTuple):
    """An option: its names, what it takes (``""`` for a flag), its help on one line and the values it is one of."""

    names: tuple[str, ...]
    takes: str
    help: str
    values: tuple[str, ...]


class Command(NamedTuple):
    """A command: its name, arguments, help, options, and the values of each argument, the last of which may repeat."""

    name: str
    arguments: str
    help: str
    options: tuple[Option, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def brief(self) -> str:
        """The first sentence."""
        return self.help.partition("\n")[0].rstrip(".")


def commands() -> Iterator[Command]:
    """Every command of `fa-tui`."""
    group: Any = typer.main.get_command(typer_app.build(COMMANDS))
    for name in COMMANDS:
        command = group.commands[name]
        values: list[tuple[str, ...]] = []
        words, found = [], [Option(("--help",), "", "Show the help.", ())]
        for one in command.params:
            if one.param_type_name == "argument":
                metavar = one.metavar or one.human_readable_name
                words.append(metavar if one.required or metavar.startswith("[") else f"[{metavar}]")
                values.append(values_of(one, f"{name} {one.name}"))
            else:
                takes = "" if one.is_flag else one.metavar or one.type.name.upper()
                text = " ".join((one.help or "").split())
                known = values_of(one, f"{name} {one.opts[0]}")
                found.append(Option((*one.opts, *one.secondary_opts), takes, text, known))
        yield Command(
            name, " ".join(words), inspect.cleandoc(command.help or ""), tuple(found), tuple(values)
        )


def values_of(parameter: Any, name: str) -> tuple[str, ...]:
    """The values that a parameter is one of; `name` is its command's and its own."""
    return tuple(map(str, getattr(parameter.type, "choices", NAMES.get(name, ()))))


def bash(known: list[Command]) -> Iterator[str]:
    """The script for bash: names of commands and options, values where they are few, else files."""
    yield from ("# bash completion of fa-tui; written by docs/shells.py", "_fa_tui() {")
    yield '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"'
    yield '    local command="${COMP_WORDS[1]}" words=""'
    yield "    # `--format=json` is three words, and `fa-tui PATH` is `fa-tui open PATH`"
    yield '    if [[ $cur == = ]]; then cur=""; elif [[ $prev == = ]]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi'
    yield f'    case " {" ".join(COMMANDS)} " in *" $command "*) ;; *) command=open ;; esac'
    yield "    if [[ $COMP_CWORD -eq 1 && $cur != -* ]]; then"
    yield f'        words="{" ".join(COMMANDS)}"'
    yield "    else"
    yield '        case "$command $prev" in'
    for one in known:
        for option in one.options:
            if option.takes:
                names = " | ".join(f'"{one.name} {name}"' for name in option.names)
                values = f'words="{" ".join(option.values)}"' if option.values else ":"
                yield f"            {names}) {values} ;;"
    yield "            *)"
    yield '                case "$command" in'
    for one in known:
        names = " ".join(name for option in one.options for name in option.names)
        known_at = [
            f'{place}) words="{" ".join(values)}" ;;'
            for place, values in enumerate(one.values[:-1], 2)
        ]
        known_at += [f'*) words="{" ".join(values)}" ;;' for values in one.values[-1:]]
        given = f"case $COMP_CWORD in {' '.join(known_at)} esac" if any(one.values) else ":"
        yield f'                    {one.name}) if [[ $cur == -* ]]; then words="{names}"; else {given}; fi ;;'
    yield from ("                esac ;;", "        esac", "    fi")
    yield '    COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield from ("}", "complete -o bashdefault -o default -F _fa_tui fa-tui")


def zsh(known: list[Command]) -> Iterator[str]:
    """The script for zsh."""

    def quoted(text: str) -> str:
        return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "’")

    def among(values: tuple[str, ...]) -> str:
        return f"({' '.join(values)})" if values else "_files"

    yield from (
        "#compdef fa-tui",
        "# zsh completion of fa-tui; written by docs/shells.py",
        "_fa-tui() {",
    )
    yield from ("    local -a known", "    known=(")
    yield from (f"        '{one.name}:{quoted(one.brief)}'" for one in known)
    yield from (
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command known",
        "        _files",
    )
    yield from (
        "        return",
        "    fi",
        "    shift words",
        "    (( CURRENT-- ))",
        '    case "$words[1]" in',
    )
    for one in sorted(known, key=lambda one: one.name == "open"):
        yield f"        {'*)  # `fa-tui PATH` is `fa-tui open PATH`' if one.name == 'open' else f'{one.name})'}"
        yield "            _arguments \\"
        for option in one.options:
            what = f":{quoted(option.takes)}:{among(option.values)}" if option.takes else ""
            for name in option.names:
                yield f"                '*{name}{'=' if what else ''}[{quoted(brief(option))}]{what}' \\"
        arguments = one.values or ((),)
        for place, values in enumerate(arguments, 1):
            at, end = ("*", " ;;") if place == len(arguments) else (place, " \\")
            yield f"                '{at}:argument:{among(values)}'{end}"
    yield from ("    esac", "}")
    yield 'if [[ "$funcstack[1]" == "_fa-tui" ]]; then _fa-tui "$@"; else compdef _fa-tui fa-tui; fi'


def fish(known: list[Command]) -> Iterator[str]:
    """The script for fish."""

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    others = " ".join(one.name for one in known if one.name != "open")
    yield "# fish completion of fa-tui; written by docs/shells.py"
    yield f"function __fa_tui_opens; not __fish_seen_subcommand_from {others}; end  # `fa-tui PATH` opens it, too"
    for one in known:
        yield f"complete -c fa-tui -n __fish_use_subcommand -a {one.name} -d {quoted(one.brief)}"
    for one in known:
        seen = "__fa_tui_opens" if one.name == "open" else f"__fish_seen_subcommand_from {one.name}"
        start = f"complete -c fa-tui -n '{seen}'"
        for place, values in enumerate(one.values):
            before = " ".join(one.values[0]) if len(one.values) > 1 else ""
            where = (
                f"; and {'not ' * (not place)}__fish_seen_subcommand_from {before}"
                if before
                else ""
            )
            if values:
                yield f"complete -c fa-tui -n '{seen}{where}' -f -a {quoted(' '.join(values))}"
        for option in one.options:
            names = " ".join(f"-l {name.removeprefix('--')}" for name in option.names)
            takes = (
                f" -x -a {quoted(' '.join(option.values))}"
                if option.values
                else " -r"
                if option.takes
                else ""
            )
            yield f"{start} {names}{takes} -d {quoted(brief(option))}"


def brief(option: Option) -> str:
    """The first sentence of an option's help, at most 72 characters."""
    text = re.split(r"(?<!e\.g)[.;] |\.$", option.help)[0]
    return text if len(text) <= 72 else text[:71].rsplit(" ", 1)[0] + "…"


CODES = (
    ("0", "Done; of check: every run is trustworthy, and none undecided."),
    ("1", "check: some run needs walk-back; verify: a run differs or its record lacks something."),
    ("2", "Usage: an option or argument that cannot be meant."),
    ("3", "An input cannot be read, or a run could not be measured or saved."),
    (
        "4",
        "check: no run needs walk-back, but some run is undecided; verify: a recorded value was not compared.",
    ),
    ("130, 143, 129", "Interrupted, SIGTERM, SIGHUP; finished runs are kept."),
)


def man(known: list[Command]) -> Iterator[str]:
    """The manual page."""

    def quoted(text: str) -> str:
        text = text.replace("\\", "\\e").replace("-", "\\-")
        return f"\\&{text}" if text[:1] in (".", "'") else text

    def paragraphs(text: str) -> Iterator[str]:
        for part in text.split("\n\n"):
            lines = [line.strip() for line in part.splitlines()]
            if lines[0].startswith("fa-tui"):
                yield from (".PP", ".EX", *map(quoted, lines), ".EE")
            else:
                yield from (".PP", *map(quoted, lines))

    yield f'.TH FA\\-TUI 1 "" "fa\\-tui {__version__}" "User Commands"'
    yield from (
        ".SH NAME",
        "fa\\-tui \\- audit networks trained without backprop: four diagnostics, one verdict",
    )
    yield from (
        ".SH SYNOPSIS",
        ".B fa\\-tui",
        "[\\fICOMMAND\\fR] [\\fIOPTIONS\\fR] \\fIPATH\\fR...",
        ".SH DESCRIPTION",
    )
    yield from paragraphs(inspect.cleandoc(typer_app.INTRO))
    yield ".SH COMMANDS"
    for one in known:
        yield f'.SS "fa\\-tui {one.name} {quoted(one.arguments)}"'
        yield from paragraphs(one.help)
        for option in one.options:
            takes = (
                f" \\fI{quoted('|'.join(option.values) or option.takes)}\\fR"
                if option.takes
                else ""
            )
            names = ", ".join(f"\\fB{quoted(name)}\\fR" for name in option.names)
            yield from (".TP", names + takes, quoted(option.help) or "\\&")
    yield ".SH EXIT STATUS"
    for code, what in CODES:
        yield from (".TP", f".B {code}", quoted(what))


def files() -> dict[Path, str]:
    """Every file with its text."""
    known = list(commands())
    writers: tuple[typing.Callable[[list[Command]], Iterator[str]], ...] = (bash, zsh, fish, man)
    return {
        FOLDER / f"fa-tui.{write.__name__}": "\n".join(write(known)) + "\n" for write in writers
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
