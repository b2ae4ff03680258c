"""`fa-tui doctor`: what this machine can do, what is missing, and the command that fixes it."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.util
import json
import locale
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fa_core.errors import install_command


class State(str, enum.Enum):
    """How a finding is to be taken."""

    ok = "ok"
    note = "note"
    missing = "missing"


class Finding(msgspec.Struct, frozen=True):
    """One thing looked at.

    Attributes:
        area: ``python``, ``packages``, ``devices``, ``terminal`` or ``folders``.
        name: what was looked at.
        state: ``missing`` makes the command exit with 3; a ``note`` costs a feature, nothing else.
        found: what it is.
        fix: the command or setting that helps, where something does.
    """

    area: str
    name: str
    state: State
    found: str
    fix: str = ""


class DoctorFormat(str, enum.Enum):
    """How to print the findings."""

    table = "table"
    json = "json"


OPTIONAL = {
    "scikit-learn": "the data set `--data digits`",
    "pyarrow": "Parquet reports",
    "ray": "`--engine ray`, measuring on a cluster",
    "textual-serve": "`fa-tui serve`, the explorer in a browser",
}
REQUIRED = ("textual", "rich", "numpy", "typer", "msgspec", "safetensors", "watchfiles", "platformdirs")

PROBE = """
import json, torch
devices = ["cpu: %d threads" % torch.get_num_threads()]
for i in range(torch.cuda.device_count()):
    p = torch.cuda.get_device_properties(i)
    devices.append("cuda:%d: %s, %.0f GiB" % (i, p.name, p.total_memory / 2**30))
if getattr(torch.backends, "mps", None) and torch.backends.mps.is_available():
    devices.append("mps")
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "devices": devices}))
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor_command)


def doctor_command(
    format: Annotated[DoctorFormat, typer.Option("--format", help="How to print.")] = DoctorFormat.table,
) -> None:
    """Say what this machine can do: versions, devices, terminal, and how to get what is missing.

    Examples:

        fa-tui doctor

        fa-tui doctor --format json
    """
    findings = [*python(), *packages(), *devices(), *terminal(), *folders()]
    if format is DoctorFormat.json:
        json.dump([msgspec.to_builtins(finding) for finding in findings], sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        _print_table(findings)
    raise typer.Exit(3 if any(finding.state is State.missing for finding in findings) else 0)


def python() -> Iterator[Finding]:
    """The interpreter and this program."""
    from fa_core import __version__ as own

    yield Finding("python", "python", State.ok, f"{platform.python_version()} ({sys.executable})")
    yield Finding("python", "system", State.ok, platform.platform())
    yield Finding("python", "fa-tui", State.ok, own if _version("fa-audit") else f"{own} (running from source)")


def packages() -> Iterator[Finding]:
    """Required packages and optional extras, without importing them."""
    for name in REQUIRED:
        version = _version(name)
        if version is None:
            yield Finding("packages", name, State.missing, "not installed", f"pip install {name}")
        else:
            yield Finding("packages", name, State.ok, version)
    for name, use in OPTIONAL.items():
        version = _version(name)
        if version is None:
            yield Finding("packages", name, State.note, f"not installed: no {use}", install_command(name))
        else:
            yield Finding("packages", name, State.ok, version)


def devices() -> Iterator[Finding]:
    """torch and what it can compute on, asked in a process of its own."""
    if importlib.util.find_spec("torch") is None:
        yield Finding("devices", "torch", State.missing, "not installed: nothing can be measured", "pip install torch")
        return
    try:
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        yield Finding("devices", "torch", State.missing, "does not import within 120 s", "reinstall torch")
        return
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        yield Finding("devices", "torch", State.missing, f"does not import: {last}", "reinstall torch")
        return
    found: dict[str, Any] = json.loads(done.stdout)
    yield Finding("devices", "torch", State.ok, found["version"])
    for device in found["devices"]:
        yield Finding("devices", "device", State.ok, device)
    yield from _gpu(found)


def _gpu(found: dict[str, Any]) -> Iterator[Finding]:
    """Why torch sees no CUDA device, if it does not."""
    if any(device.startswith("cuda") for device in found["devices"]):
        return
    if shutil.which("nvidia-smi") and found["cuda"] is None:
        fix = "install the CUDA build of torch"
        yield Finding("devices", "gpu", State.note, "a driver is there, but this torch is a CPU build", fix)
    else:
        yield Finding("devices", "gpu", State.note, "none visible: measuring runs on the CPU")


def terminal() -> Iterator[Finding]:
    """What the terminal says of itself."""
    from fa_tui.terminal.abilities import TRUE_COLOUR, detect

    env = os.environ
    term = env.get("TERM", "")
    if term in ("", "dumb"):
        yield Finding(
            "terminal", "TERM", State.note, term or "not set", "the explorer needs a terminal; `fa-tui show` does not"
        )
    else:
        yield Finding("terminal", "TERM", State.ok, term)
    count = detect(env).colours
    colours = "16 million" if count == TRUE_COLOUR else str(count) if count else "none"
    yield Finding("terminal", "colours", State.ok, f"{colours} (NO_COLOR is set)" if env.get("NO_COLOR") else colours)
    encoding = (getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)).lower()
    if "utf" in encoding:
        yield Finding("terminal", "characters", State.ok, encoding)
    else:
        yield Finding("terminal", "characters", State.note, f"{encoding}: ASCII glyphs", "export LC_ALL=C.UTF-8")
    size = shutil.get_terminal_size()
    enough = size.columns >= 80 and size.lines >= 24
    fix = "" if enough else "the explorer wants 80x24"
    yield Finding("terminal", "size", State.ok if enough else State.note, f"{size.columns}x{size.lines}", fix)
    if env.get("TMUX"):
        fix = "tmux set -g set-clipboard on   # copying from the explorer over SSH"
        yield Finding("terminal", "tmux", State.note, "no synchronised painting under tmux; OSC 52 is swallowed", fix)


def folders() -> Iterator[Finding]:
    """The sample runs, the folders for settings, logs and cache, and what is wrong with the settings."""
    import platformdirs

    from fa_core.errors import UnreadableInput
    from fa_tui.options import sample_runs

    try:
        yield Finding("folders", "sample runs", State.ok, str(sample_runs()))
    except UnreadableInput as error:
        yield Finding("folders", "sample runs", State.note, error.what, "install it again from its source")
    for name, folder in (
        ("settings", platformdirs.user_config_path("fa-tui")),
        ("logs", platformdirs.user_state_path("fa-tui")),
        ("cache", platformdirs.user_cache_path("fa-tui")),
    ):
        if _writable(folder):
            yield Finding("folders", name, State.ok, str(folder))
        else:
            yield Finding("folders", name, State.note, f"{folder} cannot be written", f"mkdir -p {folder}")
    yield from _settings()


def _settings() -> Iterator[Finding]:
    from fa_tui.settings import load_settings, settings_file

    for problem in load_settings().problems:
        what, _, fix = problem.message.removeprefix(f"{settings_file()}: ").rpartition("; ")
        yield Finding("folders", "settings file", State.note, what, fix)


def _writable(folder: Path) -> bool:
    """Whether the folder, or the nearest one above it that exists, can be written."""
    nearest = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    return os.access(nearest, os.W_OK)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print_table(findings: list[Finding]) -> None:
    marks = {State.ok: "✓", State.note: "·", State.missing: "✗"}
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            print(f"\n{area}" if finding is not findings[0] else area)
        print(f"  {marks[finding.state]} {finding.name:<14} {finding.found}")
        if finding.fix:
            print(f"    {'':<14} → {finding.fix}")
