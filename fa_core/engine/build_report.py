"""What a measurement becomes: a report with its credit quality, its reliability, and where its numbers come from."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from fa_core.engine import provenance
from fa_core.engine.loading import Evaluation, Loaded, halving, release
from fa_core.errors import FaError
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.credit import DIRECTIONS, method_credit_quality, null_gamma
from fa_core.measure.fused import is_out_of_memory
from fa_core.measure.reliability import bootstrap, reference_precision
from fa_core.measure.tally import Diagnosed
from fa_core.methods.base import Method
from fa_core.methods.registry import restore_method
from fa_core.models.base import StreamNet
from fa_core.report import DiagnosticReport, ReferencePrecision
from fa_core.runs import CREDIT, Manifest, why_no_baseline

GAMMA, FULL = "gamma", "full"

NEEDS_DIRECTIONS = ("rho", "rho_relative", "deep_rho", "directions")
"""What cannot be measured without random directions."""


def measure_credit(loaded: Loaded, method: str, batch: tuple[Tensor, Tensor]) -> dict[str, Any] | None:
    """What goes into a report's ``credit``: Γ and nudge, at level ``"full"`` also ρ and the null with fresh feedback.

    Args:
        loaded: the job.
        method: its method; only a built-in one is looked up.
        batch: (x, y), on the network's device.

    Returns:
        The numbers; ``{"missing": {"gamma": reason}}`` where there can be none; None where none were asked for, or
        neither manifest nor feedback says what the method was.
    """
    network, level = loaded.network, loaded.job.options.credit
    if level not in (GAMMA, FULL) or (loaded.manifest is None and not loaded.checkpoint.feedback):
        return None
    try:
        rule = _rule(loaded, method)
        directions = DIRECTIONS if level == FULL else 0
        found = method_credit_quality(network, rule, *batch, directions=directions).to_dict()
        if level == GAMMA:
            return {name: value for name, value in found.items() if name not in NEEDS_DIRECTIONS}
        if rule.draws_feedback:
            found["null"] = null_gamma(network, rule, *batch).to_dict()
        return found
    except FaError as error:
        return {"missing": {"gamma": str(error)}}
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    # outside the except clause, whose exception keeps the failed pass alive
    release()
    return {"missing": {"gamma": "out of memory"}}


def _rule(loaded: Loaded, method: str) -> Method:
    """The method with its saved feedback.

    Raises:
        FaError: there is no such method here, its feedback was not saved, or does not fit.
    """
    if not isinstance(loaded.network, StreamNet):
        raise FaError("credit is known for the built-in networks only")
    saved = loaded.checkpoint.path.parent / CREDIT
    feedback = load_checkpoint(saved).tensors if saved.exists() else loaded.checkpoint.feedback
    args = loaded.manifest.method_args if loaded.manifest else {}
    return restore_method(method, loaded.network, feedback, **args)


UNMEASURED = "reference_precision"
"""Where a report's ``unmeasured`` says why there is no reference precision."""


def with_precision(
    report: DiagnosticReport, loaded: Loaded, batch: tuple[Tensor, Tensor], note: Callable[[str], None]
) -> DiagnosticReport:
    """The report with its gradients' distance from float64 on the first eval batch; ``note`` as for `halving`."""
    options = loaded.job.options

    def measure(largest: int) -> ReferencePrecision:
        return reference_precision(loaded.network, batch, options.taps or None, options.dtype, largest)

    try:
        found = halving(measure, len(batch[1]), note)
    except FaError as error:
        return replace(report, unmeasured={**report.unmeasured, UNMEASURED: str(error)})
    return replace(report, reference_precision=found)


def build_report(
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
        note: called where memory makes passes smaller, and where there are fewer batches than were asked for.
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
    if options.resamples:
        drawn = bootstrap(diagnosis.samples(), report, options.resamples, counted_on=len(samples.test_y))
        report = replace(report, resampling=drawn)
    if options.precision:
        report = with_precision(report, loaded, batch, note)
    why = "" if manifest is None else why_no_baseline(manifest.method)
    no_baseline = {"d": why} if why else {}
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
        credit=measure_credit(loaded, method, batch),
        provenance={
            **report.provenance,
            "checkpoint": job.checkpoint,
            "hashes": loaded.hashes,
            "data": plan.data,
            "data_hash": samples.data_hash,
            "eval_seed": plan.eval_seed,
            "settings": provenance.settings(options),
            **_network_facts(loaded),
            "versions": provenance.versions(),
            "device": device,
            "device_label": _device_label(device),
            **({"group": group} if group > 1 else {}),
        },
    )


def _data_note(manifest: Manifest | None, spec: str, samples: Evaluation) -> str:
    """A warning when the samples are not those the run was trained and evaluated with."""
    if manifest is None or manifest.data_hash in (None, samples.data_hash):
        return ""
    other = "other data than the manifest's" if spec != manifest.data else "the data changed since training"
    return f"{other}: {samples.data_hash[:15]}… instead of {str(manifest.data_hash)[:15]}…"


def _network_facts(loaded: Loaded) -> dict[str, Any]:
    """What the network is, and the longest sum in it (``fan_in``), from which rounding errors follow."""
    network, tensors = loaded.network, loaded.checkpoint.tensors.values()
    facts: dict[str, Any] = {"fan_in": max((t[0].numel() for t in network.parameters() if t.dim() > 1), default=1)}
    if isinstance(network, StreamNet):
        facts.update(arch=network.arch, arch_args=network.arch_args)
    if loaded.manifest is not None:
        facts.update(recipe=loaded.manifest.recipe)
    kinds = sorted({str(t.dtype).removeprefix("torch.") for t in tensors if t.is_floating_point()})
    return {**facts, "weights_dtype": "+".join(kinds)}


def _device_label(device: str) -> str:
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
