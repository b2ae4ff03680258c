"""Module-name patterns that select the tapped modules of a network."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from fa_core.errors import TapError
from fa_core.measure.hooks import READS

_MOST_SUGGESTIONS = 8


def split_patterns(patterns: str | Sequence[str]) -> list[str]:
    """Patterns one by one, from one text joined by commas or from several.

    >>> split_patterns("embed, blocks.*:in")
    ['embed', 'blocks.*:in']
    """
    if not isinstance(patterns, str):
        patterns = ",".join(patterns)
    parts = map(str.strip, patterns.split(","))
    return list(filter(None, parts))


def match_modules(model: nn.Module, patterns: str | Sequence[str]) -> list[str]:
    """Names of the modules that match, each once, by its first name.

    ``*`` and ``?`` stay within one part of a dotted name: ``blocks.*`` is the blocks without their
    submodules. A module registered under several names (tied weights) matches by any of them. The
    suffixes ``:in`` and ``:out`` (see `ReadTaps`) are ignored.

    Args:
        model: the network.
        patterns: one pattern, several, or several joined by commas.

    Raises:
        TapError: a pattern that matches nothing; lists candidates.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> match_modules(net, "0, 1.*")
    ['0', '1.0', '1.1']
    """
    first_name = {module: name for name, module in model.named_modules()}
    found: dict[str, None] = {}
    for part in split_patterns(patterns):
        pattern = part.removesuffix(READS).removesuffix(":out")
        matches = []
        for name, module in model.named_modules(remove_duplicate=False):
            if name and _matches(name, pattern):
                matches.append(first_name[module])
        if not matches:
            raise TapError(
                f"no module of {type(model).__name__} is named {pattern!r}",
                hint=f"candidates: {candidates(model)}",
            )
        found.update(dict.fromkeys(matches))
    if not found:
        raise TapError("no taps given", hint=f"candidates: {candidates(model)}")
    return list(found)


def _matches(name: str, pattern: str) -> bool:
    parts = name.split(".")
    wanted = pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def candidates(model: nn.Module) -> str:
    """Patterns to suggest: lists of blocks, and the modules before them.

    >>> candidates(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))))
    "['0', '1.*']"
    """
    names: list[str] = []
    blocks_end = 0
    for name, module in model.named_children():
        lists = _lists_of(name, module)
        names += lists or [name]
        if lists:
            blocks_end = len(names)
    if not names:
        return "(it has no submodules: give a function)"
    # modules after the blocks (norm, head) are no stream
    names = names[: blocks_end or len(names)]
    if len(names) > _MOST_SUGGESTIONS:
        names = [*names[:_MOST_SUGGESTIONS], "..."]
    return str(names)


def _lists_of(name: str, module: nn.Module) -> list[str]:
    """Patterns of the lists of blocks in a module: itself, or the first two inside it."""
    if _is_list(module):
        return [f"{name}.*"]
    lists = [inner for inner, child in module.named_modules() if _is_list(child)]
    return [f"{name}.{inner}.*" for inner in lists[:2]]


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential)) and len(module) > 1
