"""Measuring jobs: one by itself, or several in groups that share their passes while the next files are read."""

from __future__ import annotations

import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from torch import Tensor

from fa_core.engine.build_report import build_report
from fa_core.engine.jobs import Cancelled, DeviceFull, Job, MeasureOptions, Watch
from fa_core.engine.loading import (
    TEST_BATCH,
    Evaluation,
    Loaded,
    Loader,
    does_not_fit,
    evaluation,
    group_size,
    halving,
    load,
    release,
)
from fa_core.errors import FaError, is_device_lost
from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.fused import cut, is_out_of_memory
from fa_core.measure.group import Member, bytes_per_member, measure_together
from fa_core.measure.isolate import AS_IS
from fa_core.report import DiagnosticReport

if TYPE_CHECKING:
    from fa_core.engine.worker import WorkerEvents

Batches = list[tuple[Tensor, Tensor]]


def measure_run(job: Job, device: str, watch: Watch, samples: Evaluation | None = None) -> DiagnosticReport:
    """Measure one run folder or checkpoint file: (a)–(c) on its eval batches, accuracy on the whole test part.

    ``samples`` spares loading the data of the job's plan where the caller holds them already.
    """
    return measure_loaded(load(job, device), device, watch, samples)


def measure_loaded(loaded: Loaded, device: str, watch: Watch, samples: Evaluation | None = None) -> DiagnosticReport:
    """`measure_run` of a job whose network is on the device already."""
    network, plan, options = loaded.network, loaded.plan, loaded.job.options
    samples = samples or evaluation(plan, device)
    first = counted_with_batches(samples, options)
    before, batches = len(_test_batches(samples, first)), len(samples.batches)
    watch.progress(0, before + batches)

    def count_hits(largest: int) -> int:
        return run_accuracy(
            network, _Watched(_test_batches(samples, first, largest), watch, batches), dtype=options.dtype
        ).hits

    hits = halving(count_hits, TEST_BATCH, watch.note) if before else 0
    diagnosis = halving(
        lambda largest: run_diagnosis(
            network,
            samples.batches,
            taps=options.taps or None,
            norm_batches=options.norm_batches,
            dtype=options.dtype,
            largest_pass=largest,
            on_batch=lambda done, total: watch.progress(before + done, before + total),
        ),
        plan.batch_size,
        watch.note,
    )
    if first:
        hits += diagnosis.accuracy.hits
    return build_report(loaded, samples, diagnosis, hits / len(samples.test_y), device, watch.note)


def counted_with_batches(samples: Evaluation, options: MeasureOptions) -> int:
    """How many of the first test samples need no pass of their own, as the eval batches are the same samples.

    A network of the user's may answer otherwise where its stream is asked for, and half precision as it runs
    rounds differently in batches of another size.
    """
    return samples.batched if options.model is None and options.dtype != AS_IS else 0


def _test_batches(samples: Evaluation, first: int, largest: int = TEST_BATCH) -> Batches:
    """The test part from this sample on."""
    return list(zip(cut(samples.test_x[first:], largest), cut(samples.test_y[first:], largest), strict=True))


class _Watched:
    """Test batches that report their number as they are used, and there notice a cancellation.

    Args:
        batches: the batches.
        watch: where to report.
        more: how many others follow.
    """

    def __init__(self, batches: Batches, watch: Watch, more: int) -> None:
        self._batches, self._watch, self._more = batches, watch, more

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for done, batch in enumerate(self._batches, 1):
            yield batch
            self._watch.progress(done, len(self) + self._more)


class GroupRunner:
    """Measures the jobs of one worker, in groups.

    On CUDA a group is as large as memory allows; on a CPU one network after the other is faster. When memory runs
    out, the group is halved, and then, of one, the batch.

    Args:
        device: where to measure.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._loader = Loader(device)
        self._fitted: int | None = None

    def measure(self, jobs: Sequence[Job], outlet: WorkerEvents, group: int | None = None) -> None:
        """Measure jobs and report one outcome of each.

        Args:
            jobs: what to measure, in this order.
            outlet: where to report.
            group: how many networks at once; None = as many as is fastest.
        """
        waiting = deque(jobs)
        while waiting:
            loaded, size = self._load_group(waiting, outlet, group)
            self._loader.ask(islice(waiting, size))
            for alike in _by_samples(loaded):
                self._measure_group(alike, outlet)

    def close(self) -> None:
        """End the loading thread."""
        self._loader.close()

    def _load_group(self, waiting: deque[Job], outlet: WorkerEvents, group: int | None) -> tuple[list[Loaded], int]:
        """The next group, loaded, and how large groups are; a job that cannot be loaded falls out."""
        loaded: list[Loaded] = []
        size = 1
        while waiting and len(loaded) < size:
            job = waiting.popleft()
            if outlet.is_cancelled(job):
                self._loader.forget(job)
                outlet.stopped(job)
                continue
            try:
                one = self._loader.get(job)
                if not loaded:
                    size = self._size(one, group)
            except Exception as error:
                outlet.failed(job, self._explained(job, error))
                continue
            if not loaded:
                self._loader.ask(islice(waiting, size - 1))
            loaded.append(one)
        return loaded, size

    def _size(self, first: Loaded, group: int | None) -> int:
        if group is None and self._device.startswith("cuda"):
            batches = evaluation(first.plan, self._device).batches
            group = group_size(bytes_per_member(first.network, batches, TEST_BATCH), self._device)
        return min(group or 1, self._fitted or group or 1)

    def _measure_group(self, members: Sequence[Loaded], outlet: WorkerEvents) -> None:
        """Measure jobs that have the same samples and settings, and report the outcome of each."""
        watch = outlet.begin([member.job for member in members])
        if len(members) == 1:
            self._finish(members[0].job, outlet, lambda: measure_loaded(members[0], self._device, watch))
            return
        try:
            found = self._pass(members, watch)
        except Cancelled:
            for member in members:
                outlet.stopped(member.job)
            return
        except Exception as error:
            if is_device_lost(error):
                raise  # whose fault it is shows when they are measured one by one, by another worker
            out_of_memory = is_out_of_memory(error)
            if not (out_of_memory or isinstance(error, FaError)):
                traceback.print_exc()
        else:
            together = sum(not measured.note for measured in found)
            for member, measured in zip(members, found, strict=True):
                self._finish(member.job, outlet, partial(self._report_of, member, measured, together, outlet))
            return
        # outside the except clause, whose exception keeps the failed pass alive
        release()
        size = (len(members) + 1) // 2 if out_of_memory else 1
        if out_of_memory:
            self._fitted = size
            watch.note(f"out of memory: measured in groups of {size} instead of {len(members)}")
        for start in range(0, len(members), size):
            self._measure_group(members[start : start + size], outlet)

    def _pass(self, members: Sequence[Loaded], watch: Watch) -> list[Member]:
        options = members[0].job.options
        samples = evaluation(members[0].plan, self._device)
        first = counted_with_batches(samples, options)
        test = _test_batches(samples, first)
        watch.progress(0, len(test) + len(samples.batches))
        return measure_together(
            [member.network for member in members],
            samples.batches,
            test,
            taps=options.taps or None,
            norm_batches=options.norm_batches,
            dtype=options.dtype,
            on_batch=watch.progress,
            count_batches=first > 0,
        )

    def _report_of(self, member: Loaded, measured: Member, together: int, outlet: WorkerEvents) -> DiagnosticReport:
        """The report of one of a group."""
        job = member.job
        if outlet.is_cancelled(job):
            raise Cancelled
        if measured.note:
            outlet.note(job, measured.note)
        if measured.diagnosis is None or measured.acc is None:
            raise measured.error or AssertionError("a member without an outcome")
        samples, note = evaluation(member.plan, self._device), partial(outlet.note, job)
        group = 1 if measured.note else together
        return build_report(member, samples, measured.diagnosis, measured.acc, self._device, note, group)

    def _finish(self, job: Job, outlet: WorkerEvents, report: Callable[[], DiagnosticReport]) -> None:
        """Report the outcome of a job: its report, or why it has none."""
        try:
            found = report().to_dict()
        except Cancelled:
            outlet.stopped(job)
        except Exception as error:
            outlet.failed(job, self._explained(job, error))
        else:
            outlet.done(job, found)

    def _explained(self, job: Job, error: Exception) -> Exception:
        """What to report of an error: where memory ran out, which memory."""
        if not is_out_of_memory(error):
            return error
        release()
        full = does_not_fit(job.checkpoint, self._device)
        return error if isinstance(error, FaError) and not isinstance(full, DeviceFull) else full


def _by_samples(loaded: Sequence[Loaded]) -> list[list[Loaded]]:
    """Those with the same samples and settings together."""
    found: defaultdict[Hashable, list[Loaded]] = defaultdict(list)
    for one in loaded:
        found[one.plan, msgspec.json.encode(one.job.options)].append(one)
    return list(found.values())
