"""The files of a run in training: what `fa-tui audit` reads, and the state that resuming needs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor

from fa_core.atomic import write_bytes, write_json
from fa_core.decode import reading
from fa_core.errors import UnreadableInput
from fa_core.facts.run_names import AUDIT, CREDIT, MANIFEST, RESUME, TRACE, WEIGHTS, Manifest
from fa_core.files import open_file
from fa_core.trace import write_trace


class RunWriter:
    """The files of one run folder. Every write is atomic: a kill between two leaves both
    readable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self, manifest: Manifest) -> None:
        """Write ``manifest.json`` without its empty fields."""
        fields = msgspec.to_builtins(manifest)
        stated = {name: value for name, value in fields.items() if value not in (None, {})}
        write_json(self.folder / MANIFEST, stated)

    def weights(
        self, manifest: Manifest, net: Mapping[str, Tensor], credit: Mapping[str, Tensor]
    ) -> None:
        """Write ``model.safetensors`` and, if the method has any tensors, ``credit.safetensors``.

        Both carry method, seed and epoch in their metadata, so that a single file identifies its
        run.
        """
        label = {
            "method": manifest.method,
            "seed": str(manifest.seed),
            "epoch": str(manifest.epochs_done),
        }
        if credit:
            write_bytes(self.folder / CREDIT, save(_plain(credit), label))
        write_bytes(self.folder / WEIGHTS, save(_plain(net), label | {"arch": manifest.arch}))

    def trace(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """Write ``trace.jsonl``, one epoch per line; no epoch, no file."""
        if epochs:
            write_trace(self.folder / TRACE, epochs)

    def start(self) -> None:
        """Remove the files of an earlier run."""
        for name in (AUDIT, CREDIT, TRACE, RESUME):
            (self.folder / name).unlink(missing_ok=True)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies: safetensors refuses views and shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain values, with the random generators' state."""
    generators = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
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
    problem = "cannot resume from it"
    hint = "train the run again with --overwrite"
    if not path.exists():
        raise UnreadableInput(f"{problem} (it is missing)", where=path, hint=hint)
    with reading(path, problem, hint):
        with open_file(path) as file:
            saved = torch.load(file, map_location="cpu", weights_only=True)
        state, generators = saved["state"], saved["generators"]
        torch.set_rng_state(generators["cpu"])
        if generators["cuda"] and device.type == "cuda":
            torch.cuda.set_rng_state_all(generators["cuda"])
    return state  # type: ignore[no-any-return]
