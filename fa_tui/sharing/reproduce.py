"""Command lines that show what the explorer shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fa_core.report import DiagnosticThresholds
from fa_tui.shell.options import FrozenBaseline


def command_line(
    paths: Sequence[Path],
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline | None,
    command: str = "show",
    options: Sequence[str] = (),
    usual: DiagnosticThresholds | None = None,
) -> str:
    """A command with what is not a default, quoted for a shell.

    Args:
        paths: what is open.
        thresholds: where the sliders stand.
        baseline: what fills in frozen-baseline accuracies.
        command: its name.
        options: further ones.
        usual: what the command takes without an option, where that is not the protocol's.

    >>> command_line([Path("my runs")], DiagnosticThresholds(h_norm_explosion_ratio=12.0), FrozenBaseline(0.349))
    "fa-tui show 'my runs' --h-norm-explosion-ratio 12 --frozen-baseline 0.349"
    """
    words = ["fa-tui", command, *map(_path, paths), *options]
    protocol = DiagnosticThresholds()
    for name, value in msgspec.structs.asdict(thresholds).items():
        if not value == getattr(protocol, name) == getattr(usual or protocol, name):
            words += [f"--{name.replace('_', '-')}", _number(value)]
    given = baseline_text(baseline)
    return shlex.join([*words, "--frozen-baseline", given] if given else words)


def baseline_text(baseline: FrozenBaseline | None) -> str:
    """A baseline as `--frozen-baseline` takes it, ``""`` for none.

    >>> baseline_text(FrozenBaseline(0.349, {"ep": 0.31}))
    '0.349,ep=0.31'
    """
    if baseline is None:
        return ""
    everyone = [] if baseline.default is None else [repr(baseline.default)]
    return ",".join([*everyone, *(f"{method}={acc!r}" for method, acc in baseline.by_method.items())])


def _path(path: Path) -> str:
    """A path that cannot be taken for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def _number(value: float) -> str:
    """A number with every digit it needs."""
    return repr(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)
