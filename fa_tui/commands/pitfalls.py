"""`fa-tui pitfalls`: the seven demonstrations, and a search for two of them in source code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from fa_tui import options
from fa_tui.commands import output

if TYPE_CHECKING:
    from fa_core.pitfalls.demonstrations import Demonstration


_NAMES = typer.Argument(metavar="[NAME]…", help="Which, by name or number; default: all seven.", show_default=False)
_SCAN = typer.Option("--scan", metavar="PATH", help="Search Python files for `.norm(-1)` and clamped cosines instead.")
_RUN = typer.Option("--run", metavar="FOLDER", help="Run folder with saved feedback for 4 to 7; default: a sample run.")


def pitfalls_command(
    names: Annotated[list[str] | None, _NAMES] = None,
    scan: Annotated[list[Path] | None, _SCAN] = None,
    run: Annotated[Path | None, _RUN] = None,
    format: options.FormOption = "table",
) -> None:
    """Compute seven pitfalls: the wrong and the right value.

    With --scan nothing is run: Python files are parsed and suspicious calls named (exit code 1 if there are any).

    Examples:

        fa-tui pitfalls

        fa-tui pitfalls norm-axis 2

        fa-tui pitfalls --scan src/
    """
    if scan:
        raise typer.Exit(_scan(scan, format))
    from fa_core.pitfalls.demonstrations import PITFALLS, demonstrate, find_run

    shown = demonstrate(names or PITFALLS, run or find_run([options.sample_runs()]))
    text = "\n\n".join("\n".join(explained(one)) for one in shown)
    output.print_result(format, lambda: [one.to_dict() for one in shown], [text])


def explained(one: Demonstration) -> Iterator[str]:
    """A demonstration as text."""
    yield f"{one.number}. {one.name}: {one.texts['title']}"
    yield f"   on {one.ran_on}, {', '.join(f'{name} {version}' for name, version in one.versions.items())}"
    yield from (f"   wrong  {what} = {_value(value)}" for what, value in one.wrong.items())
    yield from (f"   right  {what} = {_value(value)}" for what, value in one.right.items())
    yield f"   why    {one.texts['why']}"
    yield f"   write  {one.texts['instead']}"


def _value(value: Any) -> str:
    if value is None:
        return "N/A"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return str(value)


def _scan(paths: Sequence[Path], form: options.Form) -> int:
    from fa_core.pitfalls.source_scan import scan_source

    findings, problems = scan_source(paths)
    for problem in problems:
        print(f"fa-tui: {problem.message}", file=sys.stderr)
    output.print_result(form, lambda: msgspec.to_builtins(findings), map(str, findings))
    return 1 if findings else 3 if problems else 0
