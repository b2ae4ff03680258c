"""Method, seed and axes of a run from the name of its file or folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from fa_core.rows import split_key

_EPOCH = re.compile(r"^(?:epoch|ep|step|ckpt|checkpoint)[_-]?(?P<number>\d{1,18})$")
_SUFFIX = re.compile(r"\.(?:json|jsonl|ndjson|safetensors|pt|pth|ckpt|bin)$", re.IGNORECASE)


class RunName(msgspec.Struct, frozen=True):
    """How a run is called: ``key`` as the file spells it, then what follows from it."""

    key: str
    method: str
    seed: int | None
    axes: dict[str, Any]


def run_name(path: str) -> RunName:
    """The run a file belongs to: from its own name if that names a seed, else from its folder's.

    >>> run_name("runs/dfa_pen_lam0.01_s42.json")
    RunName(key='dfa_pen_lam0.01_s42', method='dfa', seed=42, axes={'lam': 0.01})
    >>> run_name("runs/ep_s7/epoch_10.pt")
    RunName(key='ep_s7/epoch_10', method='ep', seed=7, axes={'epoch': 10})
    >>> run_name("weights.pt").method
    'weights'
    """
    file = Path(path)
    stem = _SUFFIX.sub("", file.name)
    method, seed, axes = split_key(stem)
    if seed is not None:
        return RunName(stem, method, seed, axes)
    parent = file.parent.name
    parent_method, parent_seed, parent_axes = split_key(parent)
    if parent_seed is None:
        return RunName(stem, method or "unknown", None, axes)
    epoch = _EPOCH.match(stem.lower())
    if epoch:
        axes = {**axes, "epoch": int(epoch["number"])}
    return RunName(f"{parent}/{stem}", parent_method, parent_seed, {**parent_axes, **axes})
