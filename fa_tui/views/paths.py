"""Paths as they are shown: as short as they can be without saying less."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from fa_core.rows import Problem
from fa_tui.views.fitting import cut_start, width_of


def short_path(path: str | Path, width: int = 60, ellipsis: str = "…") -> str:
    """A path from the current folder or from home where it lies in one; a long one by its last folders.

    Args:
        path: absolute or not.
        width: cells that it may take.
        ellipsis: stands for what is left out.

    >>> short_path("/data/experiments/2025/autumn/ablations/dfa_s42", 24)
    '…/ablations/dfa_s42'
    """
    text = _from_here(str(path))
    if width_of(text) <= width:
        return text
    *folders, kept = text.split("/")
    for folder in reversed(folders):
        longer = f"{folder}/{kept}"
        if width_of(f"{ellipsis}/{longer}") > width:
            break
        kept = longer
    if width_of(f"{ellipsis}/{kept}") <= width:
        return f"{ellipsis}/{kept}"
    return cut_start(text, max(width, width_of(ellipsis) + 1), ellipsis)


def short_paths(paths: Sequence[Path], width: int = 60, ellipsis: str = "…") -> str:
    """Several paths in one line: as many as fit, and how many more there are.

    >>> short_paths([Path("runs"), Path("more/audits.json"), Path("third")], 24)
    'runs and 2 more'
    """
    if not paths:
        return ""
    for shown in range(len(paths), 1, -1):
        line = ", ".join(_from_here(str(path)) for path in paths[:shown]) + _more(len(paths) - shown)
        if width_of(line) <= width:
            return line
    more = _more(len(paths) - 1)
    return short_path(paths[0], width - len(more), ellipsis) + more


def briefly(problem: Problem) -> str:
    """What is wrong with a file, its name for its path: in one line the path would leave no room for the rest.

    >>> briefly(Problem("/home/me/.config/fa-tui/settings.toml", "/home/me/.config/fa-tui/settings.toml: no TOML"))
    'settings.toml: no TOML'
    """
    return problem.message.replace(problem.path, Path(problem.path).name, 1)


def _more(count: int) -> str:
    return f" and {count} more" if count else ""


def _from_here(path: str) -> str:
    """Relative to the current folder, or to home as ``~``, as far as there are such folders."""
    at = Path(path)
    if not at.is_absolute():
        return path
    with contextlib.suppress(ValueError, OSError):
        return str(at.relative_to(Path.cwd()))
    with contextlib.suppress(ValueError, RuntimeError):
        return str("~" / at.relative_to(Path.home()))
    return path
