"""Where the sample runs are, and which of them the explorer opens. No Typer: the first screen needs
them."""

from __future__ import annotations

from pathlib import Path

from fa_core.errors import UnreadableInput


def sample_runs() -> Path:
    """The folder of sample runs.

    Raises:
        UnreadableInput: they are not installed.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "sample_runs", here.parent / "sample_runs"):
        if folder.is_dir():
            return folder
    raise UnreadableInput(
        "the sample runs are not installed", where=here, hint="name a file or folder to open"
    )


def default_paths() -> list[Path]:
    """Default paths: the sample runs without the large atlas."""
    return sorted(
        path
        for path in sample_runs().iterdir()
        if path.name != "atlas" and path.suffix in ("", ".json")
    )
