"""What is to be measured: samples and settings, and who is told how far it got."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fa_core.measure.in_parts import cut
from fa_core.measure.taps import Taps


class Progress:
    """Batches done, of all that are known to be needed.

    Args:
        on_batch: told (done, total).

    Attributes:
        total: batches of all networks that are measured by themselves, and of all groups.
        raised: what ``on_batch`` raised: nobody's failure, to be let through.
    """

    def __init__(self, on_batch: Callable[[int, int], object] | None = None) -> None:
        self._on_batch = on_batch
        self._done = 0
        self.total = 0
        self.raised: Exception | None = None

    def step(self, *_: object) -> None:
        """One more batch is done."""
        self._done += 1
        if self._on_batch is not None:
            try:
                self._on_batch(self._done, self.total)
            except Exception as error:
                self.raised = error
                raise


@dataclass(frozen=True)
class Request:
    """The samples and how they are to be measured; the fields as for `measure_together`."""

    batches: list[Any]
    test: list[Any]
    taps: Taps
    norm_batches: int
    dtype: str | None
    largest_pass: int | None
    progress: Progress
    count_batches: bool = False

    @property
    def steps(self) -> int:
        """Batches of one network, or of one group."""
        return len(self.batches) + len(self.test)


class Told:
    """Batches that count themselves as they are used.

    Args:
        batches: (x, y) pairs.
        progress: where they are counted.
    """

    def __init__(self, batches: list[Any], progress: Progress) -> None:
        self._batches, self._progress = batches, progress

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            yield batch
            self._progress.step()


def no_larger(batches: Iterable[Any], largest: int | None) -> list[Any]:
    """The batches, cut into passes of at most ``largest`` samples; what is no pair of tensors stays as it is.

    >>> import torch
    >>> [len(y) for _, y in no_larger([(torch.zeros(5, 1), torch.zeros(5))], 2)]
    [2, 2, 1]
    """
    if largest is None:
        return list(batches)
    found: list[Any] = []
    for batch in batches:
        cuttable = isinstance(batch, (tuple, list)) and len(batch) == 2 and all(isinstance(t, Tensor) for t in batch)
        if cuttable and batch[0].dim() and batch[1].dim() and len(batch[0]) == len(batch[1]) > 0:
            found += zip(cut(batch[0], largest), cut(batch[1], largest), strict=True)
        else:
            found.append(batch)
    return found
