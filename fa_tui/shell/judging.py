"""What every command that judges runs takes: the four thresholds and a frozen baseline."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from fa_core.errors import UsageError
from fa_core.report import DiagnosticThresholds
from fa_tui.shell.options import FrozenBaselineOption, parse_frozen_baseline

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
    """Give a command the threshold options, after those of its own, and ``--frozen-baseline`` where it wants one.

    The command declares ``thresholds: DiagnosticThresholds`` and perhaps ``baseline: FrozenBaseline``. Typer reads
    a signature, so the wrapper has one: the command's, with the options in the place of these two.

    Raises:
        UsageError: (the wrapper) a threshold that is NaN, a baseline that is no fraction.
    """
    hints = get_type_hints(command, include_extras=True)
    wanted = inspect.signature(command).parameters
    parameters = [
        parameter.replace(annotation=hints[name])
        for name, parameter in wanted.items()
        if name not in ("thresholds", "baseline")
    ]
    parameters += [_option(name, getattr(DEFAULTS, name), kind) for name, kind in OPTIONS.items()]
    if "baseline" in wanted:
        parameters.append(_option("frozen_baseline", None, FrozenBaselineOption))

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        given: dict[str, Any] = {"thresholds": thresholds_in(values)}
        if "baseline" in wanted:
            given["baseline"] = parse_frozen_baseline(values.pop("frozen_baseline"))
        command(**{name: value for name, value in values.items() if name not in OPTIONS}, **given)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


def thresholds_in(values: Mapping[str, Any]) -> DiagnosticThresholds:
    """The thresholds among a command's values.

    Raises:
        UsageError: one of them is NaN.
    """
    try:
        return DiagnosticThresholds(**{name: values[name] for name in OPTIONS})
    except ValueError as error:
        raise UsageError(str(error)) from error


def _option(name: str, default: object, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
