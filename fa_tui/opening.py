"""Start the explorer; where there is no terminal, print the verdict table.

No Typer here: `fa-tui PATH…` without options comes straight to it, and starts 9 ms sooner.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fa_core.report import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.engine.jobs import MeasureOptions
    from fa_tui.shell.options import FrozenBaseline


def open_explorer(
    paths: Sequence[Path],
    *,
    given: Mapping[str, float] | None = None,
    baseline: FrozenBaseline | None = None,
    device: str = "auto",
    measuring: Mapping[str, Any] | None = None,
) -> int:
    """Open the explorer on paths (the sample runs for none) and stay until the person leaves.

    Args:
        paths: audit files, checkpoints, run folders, or folders of them.
        given: thresholds by name that the person gave; the others come from the settings file.
        baseline: accuracies to assume where none was recorded.
        device: where to measure.
        measuring: the data SPEC, the network and the taps for checkpoints that name none (`MeasureOptions`).

    Returns:
        The exit code.
    """
    if not on_a_terminal():
        from fa_tui.commands.show import print_table
        from fa_tui.shell.options import FrozenBaseline

        thresholds = msgspec.structs.replace(DiagnosticThresholds(), **(given or {}))
        return print_table(paths, thresholds, baseline or FrozenBaseline(), "table")
    # a collection amid the explorer's imports costs more than their garbage; it is on again after the first paint
    gc.disable()
    from fa_tui.app import run_explorer
    from fa_tui.config.settings import load_settings
    from fa_tui.samples import sample_runs

    loaded = load_settings()
    return run_explorer(
        list(paths) or [sample_runs()],
        thresholds=msgspec.structs.replace(loaded.settings.thresholds, **(given or {})),
        frozen_baseline=baseline,
        device=device,
        options=_options(measuring),
        settings=loaded,
    )


def _options(measuring: Mapping[str, Any] | None) -> MeasureOptions | None:
    if not measuring or not any(measuring.values()):
        return None
    from fa_core.engine.jobs import MeasureOptions

    return MeasureOptions(**measuring)


def on_a_terminal() -> bool:
    """Whether the explorer can run: Textual reads stdin and paints on stderr; results go to stdout.

    Under `fa-tui serve` the terminal is a browser at the other end of a pipe.
    """
    if os.environ.get("TEXTUAL_DRIVER", "").endswith("WebDriver"):
        return True
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "") != "dumb" and all(stream is not None and stream.isatty() for stream in streams)
