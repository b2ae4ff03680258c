"""What an epoch is measured by, for its line of the trace.

(d)'s baseline: the frozen-blocks run that lies beside a run and was trained alike.

The report of a finished run, measured from its files exactly as `fa-tui audit` measures them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from fa_core.data import DataSet
from fa_core.engine.group_runner import measure_run
from fa_core.engine.jobs import Job
from fa_core.engine.loading import TEST_BATCH, Evaluation
from fa_core.engine.provenance import input_hashes
from fa_core.errors import FaError
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
from fa_core.models import StreamNet
from fa_core.report import DiagnosticReport
from fa_core.run_writer import RunWriter
from fa_core.runs import WITHOUT_BASELINE, Manifest, is_run, read_manifest
from fa_core.training.plan import BASELINE

Batches = list[tuple[Tensor, Tensor]]


def measure_epoch(net: StreamNet, data: DataSet, batches: Batches, **given: Any) -> DiagnosticReport:
    """The four diagnostics on the evaluation batches, with the accuracy on the whole test part."""
    test = list(zip(torch.split(data.test_x, TEST_BATCH), torch.split(data.test_y, TEST_BATCH), strict=True))
    return diagnose(net, batches, headline_acc=accuracy(net, test), **given)


def sibling_baseline(folder: Path, manifest: Manifest) -> float | None:
    """Accuracy of the finished frozen-blocks run beside `folder` with the same network, data, seed and recipe.

    λ may differ: with frozen blocks the penalty trains nothing. Controls in `WITHOUT_BASELINE` have none.

    Args:
        folder: the run's folder; its siblings are searched.
        manifest: what the run is.

    Returns:
        A fraction, or None if there is no such run.
    """
    if manifest.method in WITHOUT_BASELINE:
        return None
    wanted = _alike(manifest)
    for other in sorted(folder.parent.iterdir()) if folder.parent.is_dir() else []:
        if other == folder or not is_run(other):
            continue
        try:
            candidate = read_manifest(other)
        except FaError:
            continue
        if candidate.method == BASELINE and _is_finished(candidate) and _alike(candidate) == wanted:
            return candidate.headline_acc
    return None


def _alike(manifest: Manifest) -> tuple[object, ...]:
    recipe = {name: value for name, value in manifest.recipe.items() if name != "lam"}
    return (manifest.arch, manifest.arch_args, manifest.data, manifest.seed, recipe)


def _is_finished(manifest: Manifest) -> bool:
    return manifest.epochs_done == manifest.recipe.get("epochs")


def with_baseline(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest with the baseline filled in, where one lies beside the run."""
    return msgspec.structs.replace(manifest, frozen_baseline_acc=sibling_baseline(folder, manifest))


class _Silent:
    """Nobody watches this measurement."""

    def progress(self, done: int, total: int) -> None:
        return None

    def note(self, text: str) -> None:
        return None


def audit_run(folder: Path, device: torch.device, samples: Evaluation | None = None) -> DiagnosticReport:
    """Look for (d)'s baseline beside a run, measure the run, and write its manifest and ``audit.json``.

    Args:
        folder: the run folder.
        device: where to measure.
        samples: its evaluation samples, if they are loaded already.

    Raises:
        FaError: it cannot be read or measured, or the report cannot be written.
    """
    writer = RunWriter(folder)
    manifest = with_baseline(folder, read_manifest(folder))
    writer.manifest(manifest)
    report = measure_run(Job(id=folder.name, checkpoint=str(folder)), str(device), _Silent(), samples)
    writer.manifest(msgspec.structs.replace(manifest, headline_acc=report.headline_acc))
    provenance = {**report.provenance, "checkpoint": folder.name, "hashes": input_hashes(folder)}
    report = msgspec.structs.replace(report, provenance=provenance)
    writer.audit(report)
    return report
