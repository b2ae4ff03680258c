"""What `e` writes and `y` copies of a page: its runs, its table, its command line. No terminal."""

from __future__ import annotations

import glob
import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict, replace

from fa_core.errors import UsageError
from fa_core.files.atomic import write_bytes
from fa_core.files.opening import exists, is_folder, typed_path
from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.numbers import exact
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.views.filters import picking

if TYPE_CHECKING:
    from fa_core.reporting.blocks import Grid
    from fa_tui.app import ExplorerApp

DATA = (".csv", ".json")
"""Endings of files that are written at once."""

TABLES = (*DATA, ".md")
"""Endings of files of a page's own table, written at once."""

REPORTS = (".md", ".html", ".tex", ".svg", ".pdf", ".png")
"""Endings of files that `fa-tui report` writes as a job."""


_TMUX_SECONDS = 5


class Table(NamedTuple):
    """The table of a page.

    Attributes:
        grid: as it is shown.
        record: returns the JSON record with every digit, as its command prints it.
    """

    grid: Grid
    record: Callable[[], object]


class Shared(NamedTuple):
    """What a page gives.

    Attributes:
        value: under the cursor.
        command: prints what is shown; its words after ``fa-tui``.
        rows: the runs in scope.
        table: the page's own table, which CSV, JSON and Markdown hold instead of the runs.
    """

    value: str = ""
    command: Sequence[str] = ()
    rows: Sequence[AuditRow] = ()
    table: Table | None = None


def name_problem(text: str) -> str:
    """Why a file cannot be written by this name, or ``""``; none is ever written over."""
    path = typed_path(text)
    if path.suffix.lower() not in (*DATA, *REPORTS):
        return f"the name must end in {', '.join((*DATA, *REPORTS))}"
    try:
        if not is_folder(path.parent):
            return f"no folder {path.parent}"
        taken = in_the_way(path)
    except OSError as error:
        return f"{path} cannot be: {error.strerror}"
    if taken:
        return f"{taken} is there already: choose another name"
    return ""


def in_the_way(path: Path) -> Path | None:
    """A file that would be written over; a report in Markdown has figures ``NAME-*.svg`` beside
    it."""
    if path.is_symlink() or exists(path):  # to nothing, too
        return path
    figures = path.parent.glob(f"{glob.escape(path.stem)}-*.svg") if path.suffix == ".md" else ()
    return next(iter(sorted(figures)), None)


def free_name(path: Path) -> Path:
    """The path, numbered if it exists: ``fa-tui.csv``, ``fa-tui-2.csv``, ..."""
    number, free = 1, path
    with suppress(OSError):
        while in_the_way(free):
            number += 1
            free = path.with_stem(f"{path.stem}-{number}")
    return free


def write_data(path: Path, shared: Shared, thresholds: DiagnosticThresholds) -> str:
    """Write CSV, JSON or a table in Markdown of what is shown; returns what is to be said about it.

    An audit table holds recorded numbers only: an assumed baseline would count as recorded.

    Raises:
        UsageError: there are no runs.
        FaError: the file cannot be written; then none is there.
    """
    if shared.table is not None:
        write_bytes(path, _table_text(path, shared.table).encode())
        return ""
    if not shared.rows:
        raise UsageError("no runs to export: the filter leaves none")
    if path.suffix.lower() == ".csv":
        # they import NumPy: after the first paint
        from fa_core.formats.table import AuditTable
        from fa_core.reporting.records import to_csv

        write_bytes(path, to_csv(AuditTable.from_rows(shared.rows), thresholds).encode())
        return ""
    judged = []
    for row in shared.rows:
        report = row.report.with_thresholds(thresholds)
        judged.append(replace(row, report=report))
    write_audit_table(path, judged)
    if any(row.report.assumed_baseline_acc is not None for row in shared.rows):
        return ": without the assumed frozen baseline, as recorded"
    return ""


def _table_text(path: Path, table: Table) -> str:
    if path.suffix.lower() == ".json":
        return json.dumps(table.record(), indent=1, ensure_ascii=False) + "\n"
    if path.suffix.lower() == ".md":
        from fa_core.reporting.blocks import to_markdown  # after the first paint

        return to_markdown([table.grid])
    from fa_core.reporting.records import csv_text  # imports NumPy: after the first paint

    return csv_text([table.grid.headings, *table.grid.rows])


def command_for(
    app: ExplorerApp,
    command: str,
    *options: str,
    rows: Sequence[int] | None = None,
    paths: Sequence[Path] = (),
) -> list[str]:
    """The words of a command on what is shown, after ``fa-tui`` and without default options; none
    where no filter names the runs.

    Args:
        app: supplies paths, thresholds, baseline and filter.
        command: its name.
        options: of the command.
        rows: the runs (default: those in scope).
        paths: files and folders (default: those that are open).
    """
    session = app.session
    wanted = session.scope_text
    # a command knows no marks
    if rows is not None or "is:marked" in wanted:
        wanted = picking(session.rows, session.in_scope if rows is None else rows)
        if not wanted:
            return []
    # a path that begins with - would be an option
    names = [f"./{path}" if str(path).startswith("-") else f"{path}" for path in paths or app.paths]
    words = [command, *names, *options]
    if wanted:
        words += ["--filter", wanted]
    if session.log is not None:
        words += session.log.arguments
    usual = asdict(DiagnosticThresholds())
    for name, value in asdict(session.thresholds).items():
        if value != usual[name]:
            words += [f"--{name.replace('_', '-')}", exact(value)]
    if session.baseline:
        words += ["--frozen-baseline", baseline_text(session.baseline)]
    return words


def typed(words: Sequence[str]) -> str:
    """A command as it is typed in a shell."""
    return shlex.join(["fa-tui", *words])


def hand_to_tmux(text: str) -> None:
    """Copy by tmux, which swallows a program's own sequence; it passes the text on to its
    terminal."""
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode(),
            capture_output=True,
            timeout=_TMUX_SECONDS,
            check=False,
        )


def baseline_text(baseline: FrozenBaseline) -> str:
    """A baseline as the value of `--frozen-baseline`, ``""`` for none.

    >>> baseline_text(FrozenBaseline(0.349, {"ep": 0.31}))
    '0.349,ep=0.31'
    """
    texts = []
    if baseline.default is not None:
        texts.append(repr(baseline.default))
    for method, acc in baseline.by_method.items():
        texts.append(f"{method}={acc!r}")
    return ",".join(texts)
