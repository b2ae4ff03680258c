"""What a measurement becomes: a report that says where its numbers come from."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace
from torch import nn

from fa_core.engine import provenance
from fa_core.engine.credit import measure_credit
from fa_core.engine.evaluation import Evaluation
from fa_core.engine.loading import Loaded
from fa_core.engine.reliability import with_reliability
from fa_core.measure.checkpoint import Checkpoint
from fa_core.measure.measured import Diagnosed
from fa_core.models.base import StreamNet
from fa_core.report import DiagnosticReport
from fa_core.runs import Manifest, why_no_baseline


def written_up(
    loaded: Loaded,
    samples: Evaluation,
    diagnosis: Diagnosed,
    acc: float,
    device: str,
    note: Callable[[str], None],
    group: int = 1,
) -> DiagnosticReport:
    """The report of a measured job, with what is measured of one network at a time: reliability and credit.

    Args:
        loaded: the job.
        samples: what it was measured on.
        diagnosis: what was measured.
        acc: its accuracy on the whole test part.
        device: where.
        note: told where memory makes passes smaller, and where there are fewer batches than were asked for.
        group: how many networks were measured at once.
    """
    job, manifest, plan = loaded.job, loaded.manifest, loaded.plan
    options, batch = job.options, samples.batches[0]
    if len(samples.batches) < plan.batches:
        note(
            f"the data hold {len(samples.batches)} eval batches of {plan.batch_size}, not the {plan.batches} asked for"
        )
    if len(samples.batches) < options.norm_batches:
        note(f"(a) and (b) use all {len(samples.batches)} eval batches, not the {options.norm_batches} asked for")
    report = diagnosis.report(headline_acc=acc)
    if report.notes:
        note(report.notes)
    report = with_reliability(report, diagnosis, loaded.network, batch, options, len(samples.test_y), note)
    no_baseline = _no_baseline(manifest)
    method = job.method or (manifest.method if manifest else loaded.checkpoint.metadata.get("method", ""))
    return replace(
        report,
        method_name=method,
        seed=manifest.seed if job.seed is None and manifest else job.seed,
        axes=manifest.axes if not job.axes and manifest else job.axes,
        notes="; ".join(filter(None, [_data_note(manifest, plan.data, samples), report.notes])),
        headline_acc_source=f"measured on {len(samples.test_y)} test samples",
        frozen_baseline_acc=None if manifest is None or no_baseline else manifest.frozen_baseline_acc,
        unmeasured={**report.unmeasured, **no_baseline},
        credit=measure_credit(loaded.network, method, manifest, loaded.checkpoint, batch, options.credit),
        provenance={
            **report.provenance,
            "checkpoint": job.checkpoint,
            "hashes": loaded.hashes,
            "data": plan.data,
            "data_hash": samples.data_hash,
            "eval_seed": plan.eval_seed,
            "settings": provenance.settings(options),
            **_network_facts(loaded.network, loaded.checkpoint, manifest),
            "versions": provenance.versions(),
            "device": device,
            "device_label": _device_label(device),
            **({"group": group} if group > 1 else {}),
        },
    )


def _no_baseline(manifest: Manifest | None) -> dict[str, str]:
    why = "" if manifest is None else why_no_baseline(manifest.method)
    return {"d": why} if why else {}


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
