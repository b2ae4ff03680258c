"""Measuring one job by itself: its files, its passes, its report. Torch lives here.

Measuring several jobs: in groups that share their passes, while the next group is loaded.
"""

from __future__ import annotations

import traceback
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
from torch import Tensor

from fa_core.engine.build_report import written_up
from fa_core.engine.jobs import Cancelled, DeviceFull, Job, MeasureOptions, Outlet, Watch
from fa_core.engine.loading import TEST_BATCH, Evaluation, Loaded, Loader, evaluation, load
from fa_core.engine.memory import does_not_fit, group_size, halving, release
from fa_core.errors import FaError, is_device_lost
from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.fused import cut, is_out_of_memory
from fa_core.measure.group import Member, bytes_per_member, measure_together
from fa_core.measure.isolate import AS_IS
from fa_core.report import DiagnosticReport


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
        raise does_not_fit(job.checkpoint, device) from error


def measure_run(job: Job, device: str, watch: Watch, samples: Evaluation | None = None) -> DiagnosticReport:
    """Measure one run folder or checkpoint file: (a)–(c) on its eval batches, accuracy on the whole test part.

    ``samples`` spares loading the data of the job's plan where the caller holds them already.
    """
    return measure_loaded(load(job, device), device, watch, samples)


def measure_loaded(loaded: Loaded, device: str, watch: Watch, samples: Evaluation | None = None) -> DiagnosticReport:
    """`measure_run` of a job whose network is on the device already."""
    network, plan, options = loaded.network, loaded.plan, loaded.job.options
    samples = samples or evaluation(plan, device)
    test = _TestPart(samples, watch, TEST_BATCH, counted_with_batches(samples, options))
    hits, before = 0, len(test)
    watch.progress(0, before + len(samples.batches))
    if before:
        hits = halving(
            lambda largest: run_accuracy(network, test.cut(largest), dtype=options.dtype).hits, TEST_BATCH, watch.note
        )
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
    if test.first:
        hits += diagnosis.accuracy.hits
    return written_up(loaded, samples, diagnosis, hits / len(samples.test_y), device, watch.note)


def counted_with_batches(samples: Evaluation, options: MeasureOptions) -> int:
    """How many of the first test samples need no pass of their own, as the eval batches are the same samples.

    A network of the user's may answer otherwise where its stream is asked for, and half precision as it runs
    rounds differently in batches of another size.
    """
    return samples.batched if options.model is None and options.dtype != AS_IS else 0


class _TestPart:
    """The test part in batches that tell how far they have been read, and there notice a cancellation.

    Attributes:
        first: the first sample that is read.
    """

    def __init__(self, samples: Evaluation, watch: Watch, largest: int, first: int) -> None:
        self._samples, self._watch, self._largest, self.first = samples, watch, largest, first

    def __len__(self) -> int:
        return -(-(len(self._samples.test_y) - self.first) // self._largest)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for done in range(len(self)):
            start = self.first + done * self._largest
            cut = slice(start, start + self._largest)
            yield self._samples.test_x[cut], self._samples.test_y[cut]
            self._watch.progress(done + 1, len(self) + len(self._samples.batches))

    def cut(self, largest: int) -> _TestPart:
        """The same samples, at most ``largest`` at a time."""
        return _TestPart(self._samples, self._watch, largest, self.first)


class Together:
    """A `Measurer` for one device.

    On CUDA a group is as large as memory allows; on a CPU one network after the other is faster. When memory runs
    out, the group is halved, and then, of one, the batch.

    Args:
        device: where to measure.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._loader = Loader(device)
        self._fitted: int | None = None

    def measure(self, jobs: Sequence[Job], ahead: Sequence[Job], outlet: Outlet, group: int | None = None) -> None:
        self._loader.keep_only([*jobs, *ahead])
        waiting = deque(jobs)
        while waiting:
            self._measure_next(waiting, ahead, outlet, group)

    def close(self) -> None:
        """End the loading thread."""
        self._loader.close()

    def _measure_next(self, waiting: deque[Job], ahead: Sequence[Job], outlet: Outlet, group: int | None) -> None:
        loaded, size = self._next(waiting, outlet, group)
        self._loader.ask(islice(chain(waiting, ahead), size))
        for alike in _by_samples(loaded):
            self._measure(alike, outlet)

    def _next(self, waiting: deque[Job], outlet: Outlet, group: int | None) -> tuple[list[Loaded], int]:
        """The next group, loaded, and how large groups are; a job that cannot be loaded falls out."""
        loaded: list[Loaded] = []
        size = 1
        while waiting and len(loaded) < size:
            job = waiting.popleft()
            if outlet.is_cancelled(job):
                outlet.stopped(job)
                continue
            try:
                one = self._loader.get(job)
                if not loaded:
                    size = self._size(one, group)
            except Exception as error:
                outlet.failed(job, self._in_words(job, error))
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

    def _measure(self, members: Sequence[Loaded], outlet: Outlet) -> None:
        """Measure jobs that have the same samples and settings, and tell the outcome of each."""
        watch = outlet.begin([member.job for member in members])
        if len(members) == 1:
            self._measure_alone(members[0], outlet, watch)
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
                self._tell(member, measured, together, outlet)
            return
        # outside the except clause, whose exception keeps the failed pass alive
        release()
        size = (len(members) + 1) // 2 if out_of_memory else 1
        if out_of_memory:
            self._fitted = size
            watch.note(f"out of memory: measured in groups of {size} instead of {len(members)}")
        for start in range(0, len(members), size):
            self._measure(members[start : start + size], outlet)

    def _pass(self, members: Sequence[Loaded], watch: Watch) -> list[Member]:
        options = members[0].job.options
        samples = evaluation(members[0].plan, self._device)
        first = counted_with_batches(samples, options)
        test = list(zip(cut(samples.test_x[first:], TEST_BATCH), cut(samples.test_y[first:], TEST_BATCH), strict=True))
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

    def _measure_alone(self, member: Loaded, outlet: Outlet, watch: Watch) -> None:
        try:
            report = measure_loaded(member, self._device, watch)
        except Cancelled:
            outlet.stopped(member.job)
        except Exception as error:
            outlet.failed(member.job, self._in_words(member.job, error))
        else:
            outlet.done(member.job, report.to_dict())

    def _tell(self, member: Loaded, measured: Member, together: int, outlet: Outlet) -> None:
        job = member.job
        if outlet.is_cancelled(job):
            outlet.stopped(job)
            return
        if measured.note:
            outlet.note(job, measured.note)
        try:
            if measured.diagnosis is None or measured.acc is None:
                raise measured.error or AssertionError("a member without an outcome")
            samples = evaluation(member.plan, self._device)
            report = written_up(
                member,
                samples,
                measured.diagnosis,
                measured.acc,
                self._device,
                lambda text: outlet.note(job, text),
                1 if measured.note else together,
            )
        except Exception as error:
            outlet.failed(job, self._in_words(job, error))
        else:
            outlet.done(job, report.to_dict())

    def _in_words(self, job: Job, error: Exception) -> Exception:
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
