"""Start of the explorer: read settings and paths, run the App, return the exit code."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fa_core import formats
from fa_core.errors import FaError, UsageError
from fa_core.formats import given_columns
from fa_core.formats.frozen_runs import at_hand
from fa_core.formats.rows import Problem
from fa_core.formats.scan import NOTHING_HERE
from fa_core.report.baseline import FrozenBaseline
from fa_tui import app as explorer
from fa_tui.samples import default_paths
from fa_tui.session import Session, UnreadTraces
from fa_tui.settings import load_settings, remember_places, settings_file
from fa_tui.terminal.abilities import detect
from fa_tui.views.filters import ViewState, understood
from fa_tui.views.words import FIRST_VIEW, SAMPLES

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_tui.jobs.measuring import Setup
    from fa_tui.options import Log


def open_explorer(
    paths: Sequence[Path],
    *,
    given: Mapping[str, float] = {},
    look: ViewState = ViewState(),  # noqa: B008 (immutable)
    baseline: FrozenBaseline = FrozenBaseline(),  # noqa: B008 (immutable)
    log: Log | None = None,
    setup: Setup | None = None,
) -> int:
    """Open the explorer on paths (the sample runs for none) and stay until the user leaves.

    Args:
        paths: audit files, checkpoints, run folders, or folders of them.
        given: thresholds by name; the others come from the settings file.
        look: initial view state.
        baseline: assumed frozen-baseline accuracies.
        log: what logs do not say; columns that are not given come from the settings file.
        setup: how to measure; the device ``auto`` is replaced by the settings' device.

    Returns:
        The exit code.

    Raises:
        UnreadableInput: the only path cannot be read.
        UsageError: a view state or baseline of methods without runs, or only one of ‖h_0‖ and
            blocks.
    """
    # as at the program's start; enabled again after the first paint
    gc.disable()
    # before the import of NumPy, whose unused thread pools take 55 ms to start
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    loaded = load_settings()
    if not paths and not look.filter:
        look = look._replace(filter=FIRST_VIEW)
    title = "" if paths else SAMPLES
    recent, paths = paths, list(paths) or default_paths()
    since = time.time()
    # traces of run folders are slow to read, and the first screen does not need them
    log, wrong = _with_columns(log, loaded.settings.columns)
    columns = {} if log is None else log.given
    found = formats.scan(paths, run_traces=False, columns=columns)

    def traces() -> Sequence[Trace]:
        try:
            again = formats.scan(app.paths, columns=columns)
        except FaError as error:  # what was there on opening may have gone since
            again = formats.Scan(problems=[Problem(str(paths[0]), str(error))])
        app.call_later(app.add_problems, _of_scan(again))
        return again.traces

    session = Session(
        found.rows,
        at_hand(found.rows),
        thresholds=msgspec.structs.replace(loaded.settings.thresholds, **given),
        baseline=baseline,
        log=log,
        problems=[*wrong, *_of_scan(found)],
        traces=UnreadTraces(traces) if found.rows else found.traces,
    )
    # what is given must be known before the explorer opens
    baseline.check(row.method for row in session.rows)
    look, terminal = understood(look, session), detect(glyphs=loaded.settings.glyphs)
    app = explorer.ExplorerApp(
        session,
        look=look,
        title=title,
        paths=paths,
        since=since,
        settings=loaded,
        terminal=terminal,
        setup=setup,
    )
    return _stay(app, recent)


def _of_scan(found: formats.Scan) -> list[Problem]:
    """The problems of a scan; an empty folder is none, as runs may come into it."""
    return [one for one in found.problems if f"{NOTHING_HERE};" not in one.message]


def _stay(app: explorer.ExplorerApp, recent: Sequence[Path]) -> int:
    """Run the explorer, and the next one where the user opens other paths; the exit code.

    Args:
        app: the explorer.
        recent: the paths that it was opened on.
    """
    try:
        code = app.run()
    finally:
        app.jobs.close()  # even if the connection is lost
    remember_places(recent)
    if app.opens_next is not None:
        from fa_tui.jobs.measuring import Setup  # after the first paint

        kept = msgspec.structs.asdict(app.session.thresholds)
        setup = app.setup and Setup(app.setup.execution)
        return open_explorer([app.opens_next], given=kept, setup=setup)
    if code is None:
        return app.return_code or 0
    return code


def _with_columns(log: Log | None, settled: str) -> tuple[Log | None, list[Problem]]:
    """What was given, with the settings' columns if it has none; and what is wrong with those."""
    if not settled or (log is not None and log.columns):
        return log, []
    # Typer: not before the explorer
    from fa_tui.options import Log, split_list

    path = str(settings_file())
    try:
        given_columns(split_list([settled]), "columns")
    except UsageError as error:
        return log, [Problem(path, f"{path}: {error}")]
    return replace(log or Log(), columns=[settled]), []
