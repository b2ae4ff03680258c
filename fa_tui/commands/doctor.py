"""`fa-tui doctor`: versions, devices, terminal, what is missing and the line that gets it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from typer import Exit

from fa_core import __version__
from fa_core.audit.devices import ask_torch, list_devices, why_no_cuda
from fa_core.errors import install_command
from fa_tui import options
from fa_tui.commands import output
from fa_tui.settings import settings_file
from fa_tui.terminal.abilities import detect

OPTIONAL = {
    "scikit-learn": "the data set `--data digits`",
    "ray": "`--engine ray`, measuring on a cluster",
    "timm": "`--model timm:NAME`",
    "torchvision": "`--model torchvision:NAME`",
    "transformers": "`--model hf:FOLDER`",
}


class Finding(NamedTuple):
    """A version, device or ability.

    Attributes:
        name: what was looked for.
        found: its version or value; if missing, the lost feature and the line that installs it.
        state: ``missing`` makes the command exit with 3; a ``note`` costs a feature.
    """

    name: str
    found: str
    state: str = "ok"


def doctor_command(format: options.FormOption = "table") -> None:
    """Say what this machine can do, and what is missing.

    Versions, devices, terminal, and the command that fixes it.

    Examples:

        fa-tui doctor

        fa-tui doctor --format json
    """
    findings = [*packages(), *devices(), *terminal()]
    lines = [f"{one.state:<8} {one.name:<14} {one.found}" for one in findings]
    output.print_result(format, [one._asdict() for one in findings], lines)
    raise Exit(3 if any(one.state == "missing" for one in findings) else 0)


def packages() -> Iterator[Finding]:
    """Python, this program, and packages of which it needs some for a feature only."""
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding("fa-tui", __version__)
    for name in ("textual", "rich", "numpy", "msgspec", "safetensors"):
        yield Finding(name, metadata.version(name))
    for name, use in OPTIONAL.items():
        try:
            yield Finding(name, metadata.version(name))
        except metadata.PackageNotFoundError:  # noqa: PERF203 (six names)
            yield Finding(name, f"not installed: no {use}; {install_command(name)}", "note")


def devices() -> Iterator[Finding]:
    """PyTorch, asked in a process of its own, and what it can compute on."""
    torch = ask_torch()
    if torch.error:
        yield Finding("torch", f"{torch.error}; pip install torch", "missing")
        return
    yield Finding("torch", torch.version)
    for name, label in list_devices().items():
        yield Finding("device", f"{name}: {label}")
    yield Finding("gpu", why_no_cuda() or f"torch sees {len(torch.gpus)}")


def terminal() -> Iterator[Finding]:
    """Abilities of the terminal, and where the explorer's settings lie."""
    seen = detect()
    yield Finding("TERM", seen.term or "not set: the explorer needs a terminal, `fa-tui show` none")
    yield Finding("colours", str(seen.colours or "none"))
    yield Finding("characters", "Unicode" if seen.unicode else "ASCII; export LC_ALL=C.UTF-8")
    columns, lines = shutil.get_terminal_size()
    file = settings_file()
    yield Finding("settings", str(file) if file.exists() else f"defaults; there is no {file}")
    yield Finding("size", f"{columns}x{lines} (the explorer wants 80x24)")
