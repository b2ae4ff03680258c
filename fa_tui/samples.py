"""Where the sample runs are: in the installed package, or beside it in a source checkout."""

from __future__ import annotations

from pathlib import Path

from fa_core.errors import UnreadableInput


def sample_runs() -> Path:
    """The folder of sample runs.

    Raises:
        UnreadableInput: an installation without them.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "sample_runs", here.parent / "sample_runs"):
        if folder.is_dir():
            return folder
    raise UnreadableInput("the sample runs are not installed", where=here, hint="name a file or folder to open")
