"""The files of a run in training: those of an audit, and the state for resuming."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import msgspec
import torch
from safetensors.torch import save
from torch import Tensor
from torch.optim.optimizer import StateDict

from fa_core.files.atomic import refuse_link, remove, write_bytes, write_json
from fa_core.files.opening import exists
from fa_core.files.tensor_mappings import plain_values
from fa_core.formats.trace import write_trace
from fa_core.report.manifest import AUDIT, CREDIT, MANIFEST, RESUME, TRACE, WEIGHTS, Manifest
from fa_core.zoo.methods.base import TrainingState


class RunWriter:
    """Writes the files of a run folder, each atomically: all stay readable after a kill.

    Raises:
        UsageError: the folder is a link.
    """

    def __init__(self, folder: Path) -> None:
        refuse_link(folder)  # as an unpacked folder may hold, to any folder
        self.folder = folder

    def manifest(self, manifest: Manifest) -> None:
        """Write ``manifest.json`` without its empty fields."""
        fields = msgspec.to_builtins(manifest).items()
        stated = {name: value for name, value in fields if value not in (None, {})}
        write_json(self.folder / MANIFEST, stated)

    def weights(
        self, manifest: Manifest, net: Mapping[str, Tensor], credit: Mapping[str, Tensor]
    ) -> None:
        """Write ``model.safetensors`` and, if the method has tensors, ``credit.safetensors``.

        The metadata of both identify the run: method, seed and epoch.
        """
        label = {
            "method": manifest.method,
            "seed": str(manifest.seed),
            "epoch": str(manifest.epochs_done),
        }
        if credit:
            write_bytes(self.folder / CREDIT, save(_plain(credit), label))
        label["arch"] = manifest.arch
        write_bytes(self.folder / WEIGHTS, save(_plain(net), label))

    def trace(self, epochs: Sequence[Mapping[str, object]]) -> None:
        """Write ``trace.jsonl``, one epoch per line; no file without epochs."""
        if epochs:
            write_trace(self.folder / TRACE, epochs)

    def start(self) -> None:
        """Remove the files of an earlier run.

        Raises:
            UsageError: the folder is reached by a link of another user.
        """
        for name in (AUDIT, CREDIT, TRACE, RESUME):
            remove(self.folder / name)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies: safetensors refuses views and shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


class ResumeState(TypedDict):
    """State of a run after its last complete epoch.

    Attributes:
        net: ``state_dict()`` of the network.
        method: ``state_dict()`` of the method.
        training: `Method.training_state`.
        optimizer: ``state_dict()`` of the optimizer; empty without one.
        epochs_done: as in the `Manifest`.
    """

    net: dict[str, Tensor]
    method: dict[str, Tensor]
    training: TrainingState
    optimizer: StateDict
    epochs_done: int


def save_state(path: Path, state: ResumeState) -> None:
    """Write the state of a run and of the random generators."""
    generators = {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()}
    buffer = io.BytesIO()
    torch.save({"state": state, "generators": generators}, buffer)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, device: torch.device) -> ResumeState:
    """Read a file of `save_state`, and restore the random generators.

    Args:
        path: the file.
        device: of the run; the tensors stay on the CPU.

    Raises:
        UnreadableInput: it cannot be opened.
        ValueError: missing, truncated, or not such a file.
    """
    if not exists(path):
        raise ValueError("it is missing")
    saved = plain_values(path)
    generators = saved["generators"]
    torch.set_rng_state(generators["cpu"])
    if generators["cuda"] and device.type == "cuda":
        torch.cuda.set_rng_state_all(generators["cuda"])
    state: ResumeState = saved["state"]
    return state
