"""What a worker does with a job: load the run, measure it, say where the numbers come from. Torch lives here."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from fa_core.engine import provenance
from fa_core.engine.credit import measure_credit
from fa_core.engine.evaluation import TEST_BATCH, Evaluation, evaluation, settle
from fa_core.engine.jobs import Job
from fa_core.engine.memory import halving, is_out_of_memory, release
from fa_core.engine.reliability import with_reliability
from fa_core.engine.watch import Watch
from fa_core.errors import FaError, MeasureError
from fa_core.measure import accuracy
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.network import network_for
from fa_core.models.base import StreamNet
from fa_core.report import DiagnosticReport
from fa_core.runs import WEIGHTS, WITHOUT_BASELINE, Manifest, is_run, read_manifest


def measure(job: Job, device: str, watch: Watch) -> dict[str, Any]:
    """The report of a run, as `DiagnosticReport.to_dict` writes it.

    Raises:
        FaError: whatever keeps it from being measured, in words.
        Cancelled: the job was cancelled.
    """
    try:
        return measure_run(job, device, watch).to_dict()
    except Exception as error:
        if isinstance(error, FaError) or not is_out_of_memory(error):
            raise
        release()
        # not in a pass, which is halved, but already while the network or the samples were put there
        raise MeasureError(
            f"out of memory: the network or the samples do not fit on {device}",
            where=job.checkpoint,
            hint="free the device, or choose another one with --device",
        ) from error


def measure_run(job: Job, device: str, watch: Watch, samples: Evaluation | None = None) -> DiagnosticReport:
    """Measure one run folder or checkpoint file: (a)–(c) on its eval batches, accuracy on the whole test part.

    ``samples`` spares loading the data of the job's plan where the caller holds them already.
    """
    path, options = Path(job.checkpoint), job.options
    run = provenance.run_of(path)
    manifest = read_manifest(run) if run is not None and is_run(run) else None
    plan = settle(options, manifest, path)
    hashes = provenance.input_hashes(path)
    checkpoint = load_checkpoint(path if run is None else run / WEIGHTS)
    network = network_for(checkpoint, manifest, options.model, as_is=options.dtype == "as-is").to(device)
    samples = samples or evaluation(plan, device)
    batches = samples.batches
    test = _TestPart(samples, watch, TEST_BATCH)
    acc = halving(lambda largest: accuracy(network, test.cut(largest), dtype=options.dtype), TEST_BATCH, watch.note)
    before = len(test)
    diagnosis = halving(
        lambda largest: run_diagnosis(
            network,
            batches,
            taps=options.taps or None,
            norm_batches=options.norm_batches,
            dtype=options.dtype,
            largest_pass=largest,
            on_batch=lambda done, total: watch.progress(before + done, before + total),
        ),
        plan.batch_size,
        watch.note,
    )
    report = diagnosis.report(headline_acc=acc)
    report = with_reliability(report, diagnosis, network, batches[0], options, len(samples.test_y), watch.note)
    method = job.method or (manifest.method if manifest else checkpoint.metadata.get("method", ""))
    return replace(
        report,
        method_name=method,
        seed=manifest.seed if job.seed is None and manifest else job.seed,
        axes=manifest.axes if not job.axes and manifest else job.axes,
        notes=_data_note(manifest, plan.data, samples),
        headline_acc_source=f"measured on {len(samples.test_y)} test samples",
        frozen_baseline_acc=None if manifest is None or _is_baseline(manifest) else manifest.frozen_baseline_acc,
        unmeasured={**report.unmeasured, **_no_baseline(manifest)},
        credit=measure_credit(network, method, manifest, checkpoint, batches[0], options.credit),
        provenance={
            **report.provenance,
            "checkpoint": str(path),
            "hashes": hashes,
            "data": plan.data,
            "data_hash": samples.data_hash,
            "eval_seed": plan.eval_seed,
            "settings": provenance.settings(options),
            **_network_facts(network, checkpoint, manifest),
            "versions": provenance.versions(),
            "device": device,
            "device_label": _device_label(device),
        },
    )


class _TestPart:
    """The test part in batches that tell how far they have been read, and there notice a cancellation."""

    def __init__(self, samples: Evaluation, watch: Watch, largest: int) -> None:
        self._samples, self._watch, self._largest = samples, watch, largest

    def __len__(self) -> int:
        return -(-len(self._samples.test_y) // self._largest)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for done in range(len(self)):
            self._watch.progress(done, len(self) + len(self._samples.batches))
            cut = slice(done * self._largest, (done + 1) * self._largest)
            yield self._samples.test_x[cut], self._samples.test_y[cut]

    def cut(self, largest: int) -> _TestPart:
        """The same samples, at most ``largest`` at a time."""
        return _TestPart(self._samples, self._watch, largest)


def _is_baseline(manifest: Manifest) -> bool:
    return manifest.method in WITHOUT_BASELINE


def _no_baseline(manifest: Manifest | None) -> dict[str, str]:
    if manifest is not None and _is_baseline(manifest):
        if manifest.method == "random_init":
            return {"d": "an untrained net claims nothing of its depth"}
        return {"d": f"{manifest.method} is a baseline itself"}
    return {}


def _data_note(manifest: Manifest | None, spec: str, samples: Evaluation) -> str:
    """A word of warning when the samples are not those the run was trained and evaluated with."""
    if manifest is None or manifest.data_hash in (None, samples.data_hash):
        return ""
    other = "other data than the manifest's" if spec != manifest.data else "the data changed since training"
    return f"{other}: {samples.data_hash[:15]}… instead of {str(manifest.data_hash)[:15]}…"


def _network_facts(network: nn.Module, checkpoint: Checkpoint, manifest: Manifest | None) -> dict[str, Any]:
    """What the network is, and the longest sum in it (``fan_in``), from which rounding errors follow."""
    facts: dict[str, Any] = {"fan_in": max((t[0].numel() for t in network.parameters() if t.dim() > 1), default=1)}
    if isinstance(network, StreamNet):
        facts.update(arch=network.arch, arch_args=network.arch_args)
    if manifest is not None:
        facts.update(recipe=manifest.recipe)
    kinds = sorted({str(t.dtype).removeprefix("torch.") for t in checkpoint.tensors.values() if t.is_floating_point()})
    return {**facts, "weights_dtype": "+".join(kinds)}


def _device_label(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
