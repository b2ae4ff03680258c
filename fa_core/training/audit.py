"""The report of a finished run, measured from its files exactly as `fa-tui audit` measures them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import torch

from fa_core.engine.evaluation import Evaluation
from fa_core.engine.jobs import Job
from fa_core.engine.measuring import measure_run
from fa_core.engine.provenance import input_hashes
from fa_core.report import DiagnosticReport
from fa_core.run_writer import RunWriter
from fa_core.runs import read_manifest
from fa_core.training.baseline import with_baseline


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
