"""`fa-tui doctor`: what this machine can do, what is missing, and the command that fixes it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Annotated, NamedTuple

import typer

from fa_core import plugins as brought
from fa_core.engine.devices import PROBE, ask_torch, list_devices, seen_by_nvml, why_no_cuda
from fa_core.errors import install_command
from fa_tui import options
from fa_tui.commands import output

OK, NOTE, MISSING = "ok", "note", "missing"


class Finding(NamedTuple):
    """One thing looked at.

    Attributes:
        name: what was looked at.
        state: ``MISSING`` makes the command exit with 3; a ``NOTE`` costs a feature, nothing else.
        found: what it is.
        fix: the command or setting that helps, where something does.
    """

    name: str
    state: str
    found: str
    fix: str = ""


def looked_at(name: str, found: str, fine: object, fix: str = "") -> Finding:
    """A finding that is fine, or costs a feature and has a fix."""
    if fine:
        return Finding(name, OK, found)
    return Finding(name, NOTE, found, fix)


OPTIONAL = {
    "scikit-learn": "the data set `--data digits`",
    "pyarrow": "Parquet reports",
    "ray": "`--engine ray`, measuring on a cluster",
    "timm": "`--model timm:NAME`",
    "torchvision": "`--model torchvision:NAME`",
    "transformers": "`--model hf:FOLDER`",
    "textual-serve": "`fa-tui serve`, the explorer in a browser",
}
REQUIRED = (
    "textual",
    "rich",
    "numpy",
    "typer",
    "msgspec",
    "safetensors",
    "watchfiles",
    "platformdirs",
    "tomlkit",
)


def doctor_command(
    format: Annotated[options.Form, typer.Option(help="How to print.")] = "table",
) -> None:
    """Say what this machine can do, and what is missing.

    Versions, devices, terminal, and the command that fixes it.

    Examples:

        fa-tui doctor

        fa-tui doctor --format json
    """
    found = [
        (area.__name__, one)
        for area in (python, packages, plugins, devices, terminal)
        for one in area()
    ]
    texts = []
    for area, ones in groupby(found, key=itemgetter(0)):
        texts.append("\n".join([area, *_lines(ones)]))
    output.print_result(
        format, [{"area": area, **one._asdict()} for area, one in found], ["\n\n".join(texts)]
    )
    raise typer.Exit(3 if any(one.state == MISSING for _, one in found) else 0)


def _lines(found: Iterable[tuple[str, Finding]]) -> Iterator[str]:
    for _, finding in found:
        yield f"  {_MARKS[finding.state]} {finding.name:<14} {finding.found}"
        if finding.fix:
            yield f"    {'':<14} → {finding.fix}"


_MARKS: Mapping[str, str] = {OK: "✓", NOTE: "·", MISSING: "✗"}


def python() -> Iterator[Finding]:
    """The interpreter and this program."""
    from fa_core import __version__ as own

    yield Finding("python", OK, f"{platform.python_version()} ({sys.executable})")
    yield Finding("system", OK, platform.platform())
    yield Finding("fa-tui", OK, own if _version("fa-audit") else f"{own} (running from source)")


def packages() -> Iterator[Finding]:
    """Required packages and optional extras."""
    for name in REQUIRED:
        version = _version(name)
        if version is None:
            yield Finding(name, MISSING, "not installed", f"pip install {name}")
        else:
            yield Finding(name, OK, version)
    for name, use in OPTIONAL.items():
        version = _version(name)
        found = version or f"not installed: no {use}"
        yield looked_at(name, found, version, install_command(name))


def plugins() -> Iterator[Finding]:
    """What other packages bring, and whether it imports."""
    for group in brought.GROUPS:
        for name, point in brought.plugins(group).items():
            _, why = brought.tried(point)
            yield looked_at(name, why or f"{group}: {point.value}", not why)


def devices() -> Iterator[Finding]:
    """torch and what it can compute on, asked in a process of its own."""
    if importlib.util.find_spec("torch") is None:
        yield Finding(
            "torch", MISSING, "not installed: nothing can be measured", "pip install torch"
        )
        return
    torch = ask_torch(PROBE)
    if torch.error:
        yield Finding("torch", MISSING, torch.error, "reinstall torch")
        return
    yield Finding("torch", OK, torch.version)
    for device in list_devices():
        yield Finding("device", OK, f"{device.name}: {device.label}")
    why = why_no_cuda()
    yield looked_at("gpu", why or f"torch sees {len(torch.gpus)}", not why)
    yield Finding("nvml", OK, ", ".join(seen_by_nvml()) or "sees none")


def terminal() -> Iterator[Finding]:
    """What the terminal says of itself."""
    from fa_tui.terminal.abilities import detect

    term = os.environ.get("TERM", "")
    needs = "the explorer needs a terminal; `fa-tui show` does not"
    yield looked_at("TERM", term or "not set", term not in ("", "dumb"), needs)
    colours = detect(os.environ).colours
    if os.environ.get("NO_COLOR"):
        yield Finding("colours", OK, "none (NO_COLOR is set)")
    else:
        yield Finding("colours", OK, str(colours or "none"))
    encoding = (sys.stdout.encoding or "ascii").lower()
    yield looked_at("characters", encoding, "utf" in encoding, "export LC_ALL=C.UTF-8")
    columns, lines = shutil.get_terminal_size()
    yield looked_at(
        "size", f"{columns}x{lines}", columns >= 80 and lines >= 24, "the explorer wants 80x24"
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
