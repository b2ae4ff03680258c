"""Module names: which ones a pattern means, and which ones to suggest."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from fa_core.errors import TapError

_MOST_SUGGESTIONS = 8


def match_modules(model: nn.Module, patterns: str | Sequence[str]) -> list[str]:
    """The modules that patterns name, each once, under its first name.

    ``*`` and ``?`` stay within one part of a dotted name: ``blocks.*`` is the blocks, not what is inside
    them. A module registered under several names (tied weights) matches by any of them.

    Args:
        model: the network.
        patterns: one pattern, several, or several joined by commas.

    Raises:
        TapError: a pattern that matches nothing; lists candidates.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> match_modules(net, "0, 1.*")
    ['0', '1.0', '1.1']
    """
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    parts = [part.strip() for pattern in given for part in pattern.split(",") if part.strip()]
    if not parts:
        raise TapError("no taps given", hint=f"candidates: {candidates(model)}")
    first_name = {module: name for name, module in model.named_modules() if name}
    named = list(model.named_modules(remove_duplicate=False))
    found: dict[str, None] = {}
    for pattern in parts:
        hits = [first_name[module] for name, module in named if name and _matches(name, pattern)]
        if not hits:
            raise TapError(
                f"no module of {type(model).__name__} is named {pattern!r}", hint=f"candidates: {candidates(model)}"
            )
        found.update(dict.fromkeys(hits))
    return list(found)


def candidates(model: nn.Module) -> str:
    """Patterns worth trying: lists of like blocks first, then the modules around them.

    >>> candidates(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))))
    "['0', '1.*']"
    """
    names: list[str] = []
    for name, module in model.named_children():
        names += [f"{name}.*"] if _is_list(module) else _inside(name, module)
    shown = names[:_MOST_SUGGESTIONS]
    more = ["..."] if len(names) > len(shown) else []
    return str(shown + more) if shown else "(it has no submodules: give a function)"


def _inside(name: str, module: nn.Module) -> list[str]:
    lists = [f"{name}.{inner}.*" for inner, child in module.named_modules() if inner and _is_list(child)]
    return lists[:2] or [name]


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential)) and len(module) > 1


def _matches(name: str, pattern: str) -> bool:
    ours, theirs = name.split("."), pattern.split(".")
    return len(ours) == len(theirs) and all(map(fnmatchcase, ours, theirs))
