"""What every command that judges runs takes: the four thresholds and a frozen baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from fa_core.errors import UsageError
from fa_core.report import DiagnosticThresholds
from fa_tui.shell.bundles import Bundle, unbundled
from fa_tui.shell.options import FrozenBaselineOption, given_frozen_baseline

DEFAULTS = DiagnosticThresholds()

OPTIONS: dict[str, Any] = {
    "g_norm_floor": Annotated[
        float, typer.Option("--g-norm-floor", help="(b) fires below this ‖g_L‖.", metavar="NORM")
    ],
    "h_norm_explosion_ratio": Annotated[
        float, typer.Option("--h-norm-explosion-ratio", help="(a) fires above this growth per block.", metavar="RATIO")
    ],
    "stability_drift_ceiling": Annotated[
        float, typer.Option("--stability-drift-ceiling", help="(c) fires above this mean cosine.", metavar="COSINE")
    ],
    "frozen_acc_margin_pp": Annotated[
        float,
        typer.Option("--frozen-acc-margin-pp", help="(d) fires below this margin, percentage points.", metavar="PP"),
    ],
}
"""The threshold options by the name of the threshold."""


def judging(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the threshold options, and ``--frozen-baseline`` where it wants one.

    The command declares ``thresholds: DiagnosticThresholds`` and perhaps ``baseline: FrozenBaseline``.

    Raises:
        UsageError: (the command) a threshold that is NaN, a baseline that is no fraction.
    """
    thresholds = {name: (annotation, getattr(DEFAULTS, name)) for name, annotation in OPTIONS.items()}
    baseline = {"frozen_baseline": (FrozenBaselineOption, None)}
    return unbundled(
        command,
        {
            "thresholds": Bundle(thresholds, thresholds_in),
            "baseline": Bundle(baseline, lambda values: given_frozen_baseline(values["frozen_baseline"])),
        },
    )


def thresholds_in(values: Mapping[str, Any]) -> DiagnosticThresholds:
    """The thresholds among a command's values.

    Raises:
        UsageError: one of them is NaN.
    """
    try:
        return DiagnosticThresholds(**{name: values[name] for name in OPTIONS})
    except ValueError as error:
        raise UsageError(str(error)) from error
