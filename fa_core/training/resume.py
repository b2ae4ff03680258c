"""What an unfinished run needs to go on as if nothing had happened: one file, loaded without running code."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import torch

from fa_core.atomic import write_bytes
from fa_core.errors import UnreadableInput
from fa_core.runs import TRACE


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, with the random generators' state beside them."""
    generators = {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }
    buffer = io.BytesIO()
    torch.save({"state": state, "generators": generators}, buffer)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, device: torch.device) -> dict[str, Any]:
    """The state that `save_state` wrote; the random generators are set back to it.

    Args:
        path: the file.
        device: where its tensors go (the random state stays on the CPU).

    Raises:
        UnreadableInput: missing, cut off, or not such a file.
    """
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        state, generators = saved["state"], saved["generators"]
        torch.set_rng_state(generators["cpu"])
        if generators["cuda"] and device.type == "cuda":
            torch.cuda.set_rng_state_all(generators["cuda"])
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        reason = str(error).partition("\n")[0]
        raise UnreadableInput(
            f"cannot resume from it ({reason})", where=path, hint="train the run again with --overwrite"
        ) from error
    return state  # type: ignore[no-any-return]


def read_trace(folder: Path, epochs: int) -> list[dict[str, Any]]:
    """The first `epochs` lines of a run's trace."""
    path = folder / TRACE
    if not epochs:
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[:epochs]
        return [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise UnreadableInput(f"cannot resume from it ({error})", where=path) from error
