"""The samples a job is measured on: settled from its options and its manifest, loaded once per worker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from fa_core.data import DataSet, eval_order, load_data
from fa_core.engine.jobs import MeasureOptions, no_data
from fa_core.errors import UsageError
from fa_core.measure.in_parts import cut
from fa_core.runs import Manifest

BATCHES, BATCH_SIZE = 10, 128
"""K and B where neither the options nor a manifest say otherwise (PROTOCOL §3)."""

TEST_BATCH = 1000
"""Samples per forward pass when only the accuracy is wanted."""


@dataclass(frozen=True)
class Plan:
    """Which samples.

    Attributes:
        data: data SPEC.
        typed: whether the person typed it, so that it may name code.
        batches: K.
        batch_size: B.
        eval_seed: picks the samples of the batches.
    """

    data: str
    typed: bool
    batches: int
    batch_size: int
    eval_seed: int


@dataclass(frozen=True)
class Evaluation:
    """The samples themselves, on the device.

    Attributes:
        test_x: the whole test part, for the accuracy.
        test_y: its labels.
        batches: K disjoint (x, y), for the diagnostics.
        data_hash: of the test part.
        batched: so many of the first test samples are those of the batches; 0 = it is not known where they are.
    """

    test_x: Tensor
    test_y: Tensor
    batches: list[tuple[Tensor, Tensor]]
    data_hash: str
    batched: int = 0


def settle(options: MeasureOptions, manifest: Manifest | None, where: Path) -> Plan:
    """What the options leave open comes from the manifest, the rest from the protocol.

    Raises:
        UsageError: no data to measure on, or sizes below 1.
    """
    data = options.data or (manifest.data if manifest else None)
    if data is None:
        raise no_data(where)
    batches = _first(options.batches, manifest.eval_batches if manifest else None, BATCHES)
    batch_size = _first(options.batch_size, manifest.eval_batch_size if manifest else None, BATCH_SIZE)
    for option, value in (("--batches", batches), ("--batch-size", batch_size)):
        if value < 1:
            raise UsageError(f"{option} {value}", hint="give at least 1")
    seed = _first(options.eval_seed, manifest.eval_seed if manifest else None, 0)
    return Plan(data, options.data is not None and options.data_typed, batches, batch_size, seed)


@lru_cache(maxsize=2)
def evaluation(plan: Plan, device: str) -> Evaluation:
    """The samples of a plan, kept for the next job that wants the same.

    Raises:
        UsageError, UnreadableInput: as `load_data`.
    """
    data = _loaded(plan.data, plan.typed)
    order, batched = eval_order(len(data.test_y), plan.batches, plan.batch_size, plan.eval_seed)
    x, y = (samples[order].to(device) for samples in (data.test_x, data.test_y))
    size = min(plan.batch_size, batched)
    batches = list(zip(cut(x[:batched], size), cut(y[:batched], size), strict=True))
    return Evaluation(test_x=x, test_y=y, batches=batches, data_hash=data.hash, batched=batched)


@lru_cache(maxsize=2)
def _loaded(spec: str, typed: bool) -> DataSet:
    return load_data(spec, allow_code=typed)


def _first(*choices: int | None) -> int:
    return next(choice for choice in choices if choice is not None)
