"""`fa-tui doctor`: what this machine can do, what is missing, and the command that fixes it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import locale
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    text = "\n\n".join(
        "\n".join([area, *_lines(ones)]) for area, ones in groupby(found, key=itemgetter(0))
    )
    output.print_result(
        format, lambda: [{"area": area, **one._asdict()} for area, one in found], [text]
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
    """Required packages and optional extras; that an extra imports is tried in a process of its
    own."""
    failed = _failed_imports([name for name in OPTIONAL if _version(name) is not None])
    for name in (*REQUIRED, *OPTIONAL):
        version, use = _version(name), OPTIONAL.get(name)
        if name in failed:
            if "torchvision" in failed[name]:
                broken = "torchvision"
            else:
                broken = name
            again = install_command(broken).replace("install", "install --force-reinstall", 1)
            yield Finding(
                name, NOTE, f"{version} does not import ({failed[name]}): no {use}", again
            )
        elif version is not None:
            yield Finding(name, OK, version)
        elif use is None:
            yield Finding(name, MISSING, "not installed", f"pip install {name}")
        else:
            yield Finding(name, NOTE, f"not installed: no {use}", install_command(name))


_MODULES = {
    "scikit-learn": "sklearn",
    "textual-serve": "textual_serve",
    # the package itself imports next to nothing
    "transformers": "transformers.modeling_utils",
}
_IMPORTS = """
import importlib, json, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print("\\0" + json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
"""
_PATIENCE = 120.0


def _failed_imports(names: Sequence[str]) -> dict[str, str]:
    """Packages that do not import, and why; one child tries them all, since torch may come with
    them."""
    modules = {_MODULES.get(name, name): name for name in names}
    command = [sys.executable, "-c", _IMPORTS, *modules]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return {}
    told = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("\0")]
    return {modules[module]: why.splitlines()[0] for module, why in told}


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
    listed = list_devices()
    for device in listed:
        if device.memory_total and device.name != "cpu":
            memory = f", {device.memory_total / 2**30:.0f} GiB"
        else:
            memory = ""
        yield Finding("device", OK, f"{device.name}: {device.label}{memory}")
    nvml, gpus = seen_by_nvml(), [name for name, _ in torch.gpus]
    sees = f"NVML sees {', '.join(nvml) or 'none'}; torch sees {', '.join(gpus) or 'none'}"
    if why := why_no_cuda():
        yield Finding("gpu", NOTE, f"{why}; {sees}" if nvml or gpus else why)
    elif not gpus:
        yield Finding(
            "gpu",
            NOTE,
            f"one is listed, but torch cannot use it: {sees}",
            "install a torch for this driver",
        )
    else:
        yield looked_at("gpu", sees, len(nvml) == len(gpus))


def terminal() -> Iterator[Finding]:
    """What the terminal says of itself."""
    from fa_tui.terminal.abilities import TRUE_COLOUR, detect

    term = os.environ.get("TERM", "")
    needs = "the explorer needs a terminal; `fa-tui show` does not"
    yield looked_at("TERM", term or "not set", term not in ("", "dumb"), needs)
    count = detect(os.environ).colours
    if count == TRUE_COLOUR:
        colours = "16 million"
    elif count:
        colours = str(count)
    else:
        colours = "none"
    yield Finding(
        "colours", OK, f"{colours} (NO_COLOR is set)" if os.environ.get("NO_COLOR") else colours
    )
    encoding = (getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)).lower()
    unicode = "utf" in encoding
    if unicode:
        characters = encoding
    else:
        characters = f"{encoding}: ASCII glyphs"
    yield looked_at("characters", characters, unicode, "export LC_ALL=C.UTF-8")
    columns, lines = shutil.get_terminal_size()
    yield looked_at(
        "size", f"{columns}x{lines}", columns >= 80 and lines >= 24, "the explorer wants 80x24"
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
