"""The measurement of one job, and its report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import isclose
from pathlib import Path

import msgspec
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from fa_core.audit.jobs import (
    AUTO,
    CREDITS,
    FULL,
    Job,
    JobProgress,
    OnNote,
    versions,
)
from fa_core.audit.loading import (
    TEST_BATCH,
    Evaluation,
    Loaded,
    check_asked,
    evaluation,
    halve_until_fits,
    imported,
    load,
    logits_choice,
    memory_for,
    rebuilt,
    release,
)
from fa_core.errors import FaError, MeasureError
from fa_core.files.decode import Json
from fa_core.files.limits import limited
from fa_core.files.opening import exists
from fa_core.formats.checkpoint_file import STAMP, stamp
from fa_core.measure.accuracy import depth_ablation
from fa_core.measure.batch_input import as_batch, to_device
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.credit import (
    DIRECTIONS,
    credit_quality,
    method_credit_quality,
    null_gamma,
    own_credit_quality,
)
from fa_core.measure.diagnose import (
    Diagnosis,
    measured_as,
    of_logits,
    run_accuracy,
    run_diagnosis,
    with_precision,
)
from fa_core.measure.gradients import cut
from fa_core.measure.hooks import choosing_logits, plain_logits
from fa_core.measure.isolate import RngState, dtype_name, eval_mode, processor_name
from fa_core.measure.loss import CE
from fa_core.measure.norms import PER_TOKEN, agree
from fa_core.measure.passes import PassOptions, is_out_of_memory
from fa_core.measure.reference_precision import reference_precision
from fa_core.option_values import DRAWING, import_callable
from fa_core.report.baseline import why_no_baseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import packed
from fa_core.report.manifest import CREDIT
from fa_core.report.numbers import joined, listed
from fa_core.report.provenance import TRAINED_ON, ReferencePrecision
from fa_core.zoo.methods import Method, restore_method
from fa_core.zoo.models.base import StreamNet


def measure_run(
    job: Job, device: str, progress: JobProgress, samples: Evaluation | None = None
) -> DiagnosticReport:
    """Measure one run folder or checkpoint file: (a)–(c) on its eval batches, accuracy on the whole
    test part.

    ``samples``: the data of the job's plan, if the caller holds them already.
    """
    loaded = load(job, device)
    if samples is None:
        check_asked(loaded)
        samples = evaluation(loaded.plan, device)
    with choosing_logits(loaded.network, logits_choice(job.options)):
        return _measured(loaded, samples, device, progress)


def _measured(
    loaded: Loaded, samples: Evaluation, device: str, progress: JobProgress
) -> DiagnosticReport:
    """`measure_run` of a loaded job."""
    network = loaded.network
    options = loaded.job.options
    batches = len(samples.batches)
    total = batches + len(_test_batches(samples, TEST_BATCH))
    progress.update(0, total)

    def on_batch(done: int, most: int) -> None:
        progress.update(done, total - batches + most)

    def on_test_batch(done: int, most: int) -> None:
        progress.update(batches + done, batches + most)

    def count(largest: int) -> list[Tensor]:
        return run_accuracy(
            network,
            _test_batches(samples, largest),
            dtype=options.dtype,
            on_batch=on_test_batch,
        )

    def diagnose(largest: int) -> Diagnosis:
        how = dataclasses.replace(passes, largest_pass=largest)
        return run_diagnosis(network, samples.batches, how, on_batch)

    passes = PassOptions(
        taps=options.taps or None,
        norm_batches=options.norm_batches,
        dtype=options.dtype,
        decide_at=options.decide_at if options.batches == AUTO else None,
        loss=of_logits(imported(options.loss or "ce"), options.logits),
    )
    largest = max(len(as_batch(batch, 0)[1]) for batch in samples.batches)
    # first: it refuses what cannot be measured, and notices what a first forward draws
    diagnosis = halve_until_fits(diagnose, largest, progress.note)
    counted = halve_until_fits(count, TEST_BATCH, progress.note)
    diagnosis = dataclasses.replace(diagnosis, right=[part.cpu() for part in counted])
    passes = dataclasses.replace(passes, loss=diagnosis.loss)
    if stamp(Path(loaded.job.checkpoint), 3) != loaded.stamp:
        raise MeasureError(
            "its weights changed while they were measured",
            where=loaded.job.checkpoint,
            hint="measure it again",
        )
    return build_report(loaded, samples, diagnosis, passes, device, progress.note)


def _test_batches(samples: Evaluation, largest: int) -> Sequence[object]:
    """Batches of the test part; the user's own batches unchanged."""
    if samples.given is not None:
        return samples.given
    return list(zip(cut(samples.test_x, largest), cut(samples.test_y, largest), strict=True))


def measured(job: Job, device: str, progress: JobProgress) -> Json:
    """The report of a job, as a worker sends it."""
    with memory_for(job.checkpoint, device):
        return measure_run(job, device, progress).to_dict()


def measure_credit(
    loaded: Loaded, batch: object, diagnosis: Diagnosis, how: PassOptions
) -> Json | None:
    """A report's ``credit``: Γ, its null with fresh feedback, and nudge; at level ``"full"`` also
    ρ.

    Args:
        loaded: the job; of its method only built-in ones are looked up.
        batch: (x, y), on the network's device.
        diagnosis: its measurements; the credit of a network with its own backward pass precedes
            the method's, and is preceded by the user's.
        how: the options of its passes.

    Returns:
        The numbers; ``{"missing": {"gamma": reason}}`` if there can be none; None if none were
        asked for, or the method is unknown.
    """
    network = loaded.network
    options = loaded.job.options
    own = diagnosis.numbers.credit
    given = options.credit not in CREDITS
    is_saved = loaded.manifest is not None or loaded.checkpoint.feedback
    if options.credit == "none" or not (given or own is not None or is_saved):
        return None
    if not given and own is not None and "gamma" not in own:
        return own
    directions = 0
    if options.credit == FULL:
        directions = DIRECTIONS
    try:
        if given:
            function = import_callable(options.credit)
            return credit_quality(network, function, batch, how, directions=0)
        if own is not None:
            return own_credit_quality(network, batch, how, directions)
        loss = diagnosis.loss.name
        if loss != CE.name:
            raise FaError(f"the method's credit is of cross entropy, the gradients of {loss}")
        rule = _rule(loaded)
        found = method_credit_quality(network, rule, batch, directions)
        if rule.draws_feedback:
            found["null"] = null_gamma(network, rule, batch, options.null_draws).to_dict()
        return found
    except FaError as error:
        if own is None or given:
            return {"missing": {"gamma": str(error)}}
        return {**own, "missing": {"rho, nudge": str(error)}}
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    # outside the except clause, whose exception keeps the failed pass alive
    release()
    return {"missing": {"gamma": "out of memory"}}


def _saved_credit(
    loaded: Loaded, batch: object, diagnosis: Diagnosis, how: PassOptions, device: str
) -> Json | None:
    """`measure_credit`, but none by what a network draws and its checkpoint does not hold.

    A network of the user's own is built and run again with other random numbers, and loaded with
    the same weights.

    Raises:
        MeasureError: its logits are others.
    """
    credit = measure_credit(loaded, batch, diagnosis, how)
    other = rebuilt(loaded, device)
    if other is None:
        return credit
    with choosing_logits(other.network, logits_choice(loaded.job.options)):
        _logits(other.network, batch, how, seed=1)
        if not agree(_logits(loaded.network, batch, how), _logits(other.network, batch, how)):
            what = "its logits depend on what the network draws when it is built"
            raise MeasureError(what, where=loaded.job.checkpoint, hint=_SAVE)
        again = measure_credit(other, batch, diagnosis, how)
    own, others = ((one or {}).get("gamma") for one in (credit, again))
    if own is None or others is None:
        return again
    pairs = zip(own, others, strict=True)
    # up to the rounding of sums in another order
    if all(a == b or isclose(a or 0.0, b or 0.0, abs_tol=1e-5) for a, b in pairs):
        return credit
    return {"missing": {"gamma": f"its feedback is drawn by the network, not loaded; {_SAVE}"}}


_LOST = "what it keeps of them, as a feedback, is in no checkpoint unless as a buffer"


def _drawn(job: Job) -> str:
    if not (job.options.model and DRAWING):
        return ""
    return f"{listed(sorted(DRAWING))} draws random numbers when imported: {_LOST}"


_SAVE = "keep it as a buffer (register_buffer), saved with the weights"


def _logits(network: nn.Module, batch: object, how: PassOptions, seed: int = 0) -> Tensor:
    with eval_mode(network, how.dtype) as own, RngState(seed).isolated(), torch.no_grad():
        x, _ = to_device(batch, 0, own)
        return plain_logits(own.model, x)


def _rule(loaded: Loaded) -> Method:
    """The method with its saved feedback.

    Raises:
        FaError: an unknown method, or feedback that was not saved or does not fit.
    """
    if not isinstance(loaded.network, StreamNet):
        raise FaError("credit is known for the built-in networks only")
    saved = loaded.checkpoint.path.parent / CREDIT
    if exists(saved):
        feedback = load_checkpoint(saved).tensors
    else:
        feedback = loaded.checkpoint.feedback
    args = loaded.manifest.method_args if loaded.manifest else {}
    size = sum(size for size, *_ in loaded.stamp)
    with limited(saved, size, "to make its feedback", "save the feedback it was trained with"):
        return restore_method(loaded.job.method, loaded.network, feedback, **args)


def precision_of(
    loaded: Loaded, batch: object, how: PassOptions, note: OnNote
) -> ReferencePrecision:
    """The distance of a job's gradients from float64 ones on the first eval batch; ``note`` as for
    `halve_until_fits`."""

    def measure(largest: int) -> ReferencePrecision:
        passes = dataclasses.replace(how, largest_pass=largest)
        return reference_precision(loaded.network, batch, passes)

    return halve_until_fits(measure, len(as_batch(batch, 0)[1]), note)


def build_report(
    loaded: Loaded,
    samples: Evaluation,
    diagnosis: Diagnosis,
    how: PassOptions,
    device: str,
    note: OnNote,
) -> DiagnosticReport:
    """The report of a measured job; adds reliability and credit.

    Args:
        loaded: the job.
        samples: its samples.
        diagnosis: its measurements; `right` is of the whole test part, in the order of `samples`.
        how: the options of its passes.
        device: where.
        note: called if passes are halved, and if there are fewer batches than asked for.
    """
    job = loaded.job
    options = job.options
    batch = samples.batches[0]
    for text in _remarks(loaded, len(samples.batches)):
        note(text)
    report = diagnosis.report()
    if loaded.manifest is None and not options.model and isinstance(loaded.network, StreamNet):
        # names and shapes do not tell what a forward does
        known = f"taken to be a {loaded.network.arch} by the names of its tensors (or --model)"
        report = replace(report, notes=joined(known, report.notes))
    if report.notes:
        note(report.notes)
    measure = partial(precision_of, loaded, batch, how, note)
    report = with_precision(report, options.precision or None, measure)
    if options.ablate:
        asked = (loaded.network, samples.batches, options.taps or None, options.dtype)
        report = measured_as("depth_ablation", report, partial(depth_ablation, *asked))
    credit = _saved_credit(loaded, batch, diagnosis, how, device)
    found = credit or {}
    missing = found.get("missing", {}).get("gamma")
    if missing and not report.credit:
        note(f"no Γ: {missing}")
    drawn = _drawn(job)
    if drawn:
        note(drawn)
    right = torch.cat(list(diagnosis.right))
    rightly = None
    if report.flatten != PER_TOKEN:
        rightly = packed(samples.in_data_order(right).tolist())
    return replace(
        report,
        method_name=job.method,
        seed=job.seed,
        axes=job.axes,
        notes=joined(report.notes, found.get("note"), drawn),
        right=rightly,
        headline_acc_source=f"measured on {len(right)} test samples",
        unmeasured=_unmeasured(report, found, job),
        credit=credit,
        provenance=report.provenance | _facts(loaded, samples, device),
    )


def _remarks(loaded: Loaded, batches: int) -> Iterator[str]:
    """What is said of a job's samples, of which there are so many batches, and weights."""
    plan = loaded.plan
    options = loaded.job.options
    if batches < plan.batches and options.batches != AUTO:
        yield f"the data hold {batches} eval batches, not the {plan.batches} asked for"
    if batches < options.norm_batches:
        asked = options.norm_batches
        yield f"(a) and (b) use all {batches} eval batches, not the {asked} asked for"
    if loaded.checkpoint.taken:
        yield loaded.checkpoint.taken


def _facts(loaded: Loaded, samples: Evaluation, device: str) -> Json:
    """Facts on the files, the samples, the settings, the network and the machine."""
    return {
        "checkpoint": loaded.job.checkpoint,
        "hashes": loaded.hashes,
        STAMP: [one[:2] for one in loaded.stamp],
        "data": loaded.plan.data,
        "data_hash": samples.data_hash,
        **({"scaling": samples.scaling} if samples.scaling else {}),
        "eval_seed": loaded.plan.eval_seed,
        "settings": msgspec.to_builtins(loaded.job.options),
        **_network_facts(loaded),
        "versions": versions(),
        **_device_facts(device),
    }


def _unmeasured(report: DiagnosticReport, credit: Json, job: Job) -> dict[str, str]:
    """What was not measured, with the user's credit in place of a network's own."""
    found = dict(report.unmeasured)
    if job.options.credit not in CREDITS:
        found.pop("gamma", None)
        found |= credit.get("missing", {})
    why = why_no_baseline(job.method)
    if why:
        found["d"] = why
    return found


def _network_facts(loaded: Loaded) -> Json:
    """Facts on the network, with its longest sum (``fan_in``), which bounds rounding errors."""
    network = loaded.network
    tensors = loaded.checkpoint.tensors.values()
    facts: Json = {
        "fan_in": max((t[0].numel() for t in network.parameters() if t.dim() > 1), default=1)
    }
    if loaded.checkpoint.taken:
        facts["weights_taken"] = loaded.checkpoint.taken
    if isinstance(network, StreamNet):
        facts.update(arch=network.arch, arch_args=network.arch_args)
    else:
        facts["network"] = f"{type(network).__module__}.{type(network).__qualname__}"
    if (run := loaded.manifest) is not None:
        facts |= {TRAINED_ON: run.data_hash, "epochs_done": run.epochs_done}
        facts |= {"recipe": run.recipe, "method_args": run.method_args}
    kinds = {dtype_name(t.dtype) for t in tensors if t.is_floating_point()}
    return {**facts, "weights_dtype": "+".join(sorted(kinds))}


@lru_cache(maxsize=8)
def _device_facts(device: str) -> dict[str, str]:
    if device.startswith("cuda"):
        return {"device": device, "device_label": torch.cuda.get_device_name(device)}
    return {
        "device": device,
        "device_label": f"{processor_name()}, {torch.get_num_threads()} threads",
        # processors of virtual machines share a name and differ in their instructions
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
