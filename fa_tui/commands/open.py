"""`fa-tui open`: the explorer, or the verdict table where there is no terminal."""

from __future__ import annotations

import typer

from fa_tui.commands.audit import DataOption, DeviceOption, ModelOption, TapsOption
from fa_tui.opening import open_explorer
from fa_tui.shell import options
from fa_tui.shell.options import DEFAULTS


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
    device: DeviceOption = "auto",
    data: DataOption = None,
    model: ModelOption = None,
    taps: TapsOption = None,
) -> None:
    """Open the explorer on audit files, checkpoints and run folders (the sample runs if none are named).

    Without a terminal it prints what `fa-tui show` prints. Thresholds that are not given are those of the
    settings file (`fa-tui schema settings`), or the protocol's.

    Examples:

        fa-tui

        fa-tui runs/ audit_table.json

        fa-tui open runs/ --frozen-baseline 0.349

        fa-tui nets/ --data cifar10:/data/cifar   # so that bare checkpoints can be measured from the explorer
    """
    thresholds = options.thresholds_from(
        g_norm_floor, h_norm_explosion_ratio, stability_drift_ceiling, frozen_acc_margin_pp
    )
    baseline = options.parse_frozen_baseline(frozen_baseline)
    given = {
        name: getattr(thresholds, name)
        for name in thresholds.__struct_fields__
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    raise typer.Exit(
        open_explorer(
            paths or [],
            given=given,
            baseline=baseline if baseline != options.FrozenBaseline() else None,
            device=device,
            measuring={"data": data, "model": model, "taps": options.split_list(taps)},
        )
    )
