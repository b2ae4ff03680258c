"""`fa-tui open`: the explorer, or the verdict table where there is no terminal."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from fa_tui import options
from fa_tui.options import DEFAULTS


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("open")(open_command)


def open_command(
    context: typer.Context,
    paths: options.PathsArgument = None,
    g_norm_floor: options.GNormFloor = DEFAULTS.g_norm_floor,
    h_norm_explosion_ratio: options.ExplosionRatio = DEFAULTS.h_norm_explosion_ratio,
    stability_drift_ceiling: options.DriftCeiling = DEFAULTS.stability_drift_ceiling,
    frozen_acc_margin_pp: options.AccMargin = DEFAULTS.frozen_acc_margin_pp,
    frozen_baseline: options.FrozenBaselineOption = None,
    device: Annotated[str, typer.Option(help="Where to measure: auto, cpu, cuda, cuda:1, mps.")] = "auto",
) -> None:
    """Open the explorer on audit files, checkpoints and run folders (the sample runs if none are named).

    Without a terminal it prints what `fa-tui show` prints. Thresholds that are not given are those of the
    settings file (`fa-tui schema settings`), or the protocol's.

    Examples:

        fa-tui

        fa-tui runs/ audit_table.json

        fa-tui open runs/ --frozen-baseline 0.349
    """
    thresholds = options.thresholds_from(
        g_norm_floor, h_norm_explosion_ratio, stability_drift_ceiling, frozen_acc_margin_pp
    )
    baseline = options.parse_frozen_baseline(frozen_baseline)
    if not on_a_terminal():
        from fa_tui.commands.show import print_table

        raise typer.Exit(print_table(paths, thresholds, baseline, "table"))
    # a collection amid the explorer's imports costs more than their garbage; it is on again after the first paint
    gc.disable()
    from fa_tui.app import run_explorer
    from fa_tui.settings import load_settings

    loaded = load_settings()
    given = {
        name: getattr(thresholds, name)
        for name in thresholds.__struct_fields__
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    raise typer.Exit(
        run_explorer(
            _named(paths),
            thresholds=msgspec.structs.replace(loaded.settings.thresholds, **given),
            frozen_baseline=baseline if baseline != options.FrozenBaseline() else None,
            device=device,
            settings=loaded,
        )
    )


def on_a_terminal() -> bool:
    """Whether the explorer can run: Textual reads stdin and paints on stderr; results go to stdout."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return os.environ.get("TERM", "") != "dumb" and all(stream is not None and stream.isatty() for stream in streams)


def _named(paths: list[Path] | None) -> list[Path]:
    from fa_tui.samples import sample_runs

    return paths or [sample_runs()]
