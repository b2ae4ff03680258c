"""`fa-tui open`: the explorer, or the verdict table where there is no terminal."""

from __future__ import annotations

import typer

from fa_core.report import DiagnosticThresholds
from fa_tui.commands.audit import DataOption, DeviceOption, ModelOption, TapsOption
from fa_tui.opening import open_explorer
from fa_tui.shell import options
from fa_tui.shell.judging import judging


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("open")(judging(open_command))


def open_command(
    context: typer.Context,
    paths: options.PathsArgument = None,
    device: DeviceOption = "auto",
    data: DataOption = None,
    model: ModelOption = None,
    taps: TapsOption = None,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
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
