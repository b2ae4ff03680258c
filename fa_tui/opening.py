"""Start the explorer; where there is no terminal, print the verdict table.

No Typer here: `fa-tui PATH…` without options comes straight to it, and starts 9 ms sooner.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fa_core.diagnostics import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_tui.jobs.setup import Setup
    from fa_tui.options import FrozenBaseline
    from fa_tui.session import Session
    from fa_tui.settings import Loaded
    from fa_tui.views.look import Look


def open_explorer(
    paths: Sequence[Path],
    *,
    given: Mapping[str, float] | None = None,
    look: Look | None = None,
    baseline: FrozenBaseline | None = None,
    setup: Setup | None = None,
) -> int:
    """Open the explorer on paths (the sample runs for none) and stay until the person leaves.

    Args:
        paths: audit files, checkpoints, run folders, or folders of them.
        given: thresholds by name that the person gave; the others come from the settings file.
        look: how it begins; without a terminal, which runs are printed and in which order.
        baseline: accuracies to assume where none was recorded.
        setup: how to measure.

    Returns:
        The exit code.
    """
    if not on_a_terminal():
        gc.enable()
        from fa_tui.commands.verdict_table import print_table
        from fa_tui.options import FrozenBaseline
        from fa_tui.views.look import Look

        thresholds = msgspec.structs.replace(DiagnosticThresholds(), **(given or {}))
        return print_table(paths, thresholds, baseline or FrozenBaseline(), "table", look=look or Look())
    # as at the program's start; it is on again after the first paint
    gc.disable()
    from fa_tui.options import sample_runs
    from fa_tui.settings import load_settings

    loaded = load_settings()
    return run_explorer(
        list(paths) or [sample_runs()],
        thresholds=msgspec.structs.replace(loaded.settings.thresholds, **(given or {})),
        look=look,
        frozen_baseline=baseline,
        setup=setup,
        settings=loaded,
    )


def run_explorer(
    paths: Sequence[Path],
    *,
    thresholds: DiagnosticThresholds | None = None,
    look: Look | None = None,
    frozen_baseline: FrozenBaseline | None = None,
    setup: Setup | None = None,
    settings: Loaded | None = None,
) -> int:
    """Open the explorer on paths and stay until the person leaves.

    Args:
        paths: audit files, checkpoints, run folders, or folders of them.
        thresholds: where the sliders start (default: where the settings say).
        look: how it begins.
        frozen_baseline: accuracies to assume where none was recorded.
        setup: how to measure; the device ``auto`` of this machine is what the settings say.
        settings: what the person prefers (default: their settings file).

    Returns:
        The exit code.

    Raises:
        UnreadableInput: the only path cannot be read.
        UsageError: a look, or a method with a baseline, that these runs do not have.
    """
    # set before NumPy is imported: its thread pools cost 55 ms at start and nothing here uses them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fa_core.formats import scan
    from fa_tui.app import ExplorerApp
    from fa_tui.jobs.setup import Setup
    from fa_tui.session import Session
    from fa_tui.settings import load_settings
    from fa_tui.terminal.abilities import detect, preferring
    from fa_tui.views.look import Look, understood

    settings = load_settings() if settings is None else settings
    since = time.time()
    # the traces of run folders take longer than all the rest and no first screen shows them
    found = scan(list(paths), run_traces=False)
    session = Session(
        found.rows,
        thresholds=thresholds or settings.settings.thresholds,
        baseline=frozen_baseline,
        problems=found.problems,
        traces=lambda: traces_of_paths(paths, session),
    )
    if frozen_baseline is not None:
        frozen_baseline.check(session.named("method", row) for row in range(len(session)))
    app = ExplorerApp(
        session,
        look=understood(look or Look(), session),
        paths=paths,
        since=since,
        settings=settings,
        terminal=preferring(detect(), settings.settings.glyphs),
        setup=setup or Setup(),
    )
    try:
        code = app.run()
    finally:
        app.close_jobs()
        for line in app.farewell:
            with contextlib.suppress(OSError):
                print(f"fa-tui: {line}", file=sys.stderr)
    return app.return_code or 0 if code is None else code


def traces_of_paths(paths: Sequence[Path], session: Session) -> list[Trace]:
    """The traces of the paths; lines of theirs that cannot be read are told beside what else could not."""
    from fa_core.formats import scan

    found = scan(list(paths))
    session.tell_problems(found.problems)
    return found.traces


def on_a_terminal() -> bool:
    """Whether the explorer can run: Textual reads stdin and paints on stderr; results go to stdout.

    Under `fa-tui serve` the terminal is a browser at the other end of a pipe.
    """
    if os.environ.get("TEXTUAL_DRIVER", "").endswith("WebDriver"):
        return True
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "") != "dumb" and all(stream is not None and stream.isatty() for stream in streams)
