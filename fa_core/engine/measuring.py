"""Measuring one job by itself: its files, its passes, its report. Torch lives here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from fa_core.engine.evaluation import TEST_BATCH, Evaluation, evaluation
from fa_core.engine.jobs import Job, MeasureOptions
from fa_core.engine.loading import Loaded, load
from fa_core.engine.memory import halving, is_out_of_memory, release
from fa_core.engine.room import does_not_fit
from fa_core.engine.watch import Watch
from fa_core.engine.write_up import written_up
from fa_core.errors import FaError
from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.borrow import AS_IS
from fa_core.measure.diagnose import run_diagnosis
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
