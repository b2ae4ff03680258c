"""The files of one run folder, each written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import save
from torch import Tensor

from fa_core.atomic import write_bytes, write_json
from fa_core.report import DiagnosticReport
from fa_core.runs import AUDIT, CREDIT, MANIFEST, RESUME, TRACE, WEIGHTS, Manifest
from fa_core.trace import write_trace


class RunWriter:
    """The files of one run folder. Every write is atomic: a kill between two leaves both readable."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifest(self, manifest: Manifest) -> None:
        """Write ``manifest.json``; fields that say nothing are left out."""
        fields = {name: getattr(manifest, name) for name in manifest.__struct_fields__}
        said = {name: value for name, value in fields.items() if value is not None and value != {}}
        write_json(self.folder / MANIFEST, msgspec.to_builtins(said))

    def weights(self, manifest: Manifest, net: Mapping[str, Tensor], credit: Mapping[str, Tensor]) -> None:
        """Write ``model.safetensors`` and, if the method has any tensors, ``credit.safetensors``.

        Both carry method, seed and epoch in their metadata, so that a file alone still says what it is.
        """
        label = {"method": manifest.method, "seed": str(manifest.seed), "epoch": str(manifest.epochs_done)}
        if credit:
            write_bytes(self.folder / CREDIT, save(_plain(credit), label))
        write_bytes(self.folder / WEIGHTS, save(_plain(net), label | {"arch": manifest.arch}))

    def trace(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """Write ``trace.jsonl``, one epoch per line; no epoch, no file."""
        if not epochs:
            (self.folder / TRACE).unlink(missing_ok=True)
        else:
            write_trace(self.folder / TRACE, epochs)

    def audit(self, report: DiagnosticReport) -> None:
        """Write ``audit.json`` (format 2)."""
        write_json(self.folder / AUDIT, report.to_dict())

    def start(self) -> None:
        """Remove what an earlier run left: none of it is true of the new one."""
        for name in (AUDIT, CREDIT, TRACE, RESUME):
            (self.folder / name).unlink(missing_ok=True)

    def finished(self) -> None:
        """Remove what only an unfinished run needs."""
        (self.folder / RESUME).unlink(missing_ok=True)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous CPU copies: safetensors refuses views and shared memory."""
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
