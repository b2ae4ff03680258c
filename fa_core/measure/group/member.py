"""One network of a group: how much memory it takes, how it is measured by itself, and what came out for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fa_core.errors import FaError, MeasureError, is_device_lost
from fa_core.measure.accuracy import Progress, run_accuracy
from fa_core.measure.batches import pair
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.fused import cut, is_out_of_memory
from fa_core.measure.isolate import borrow, target_dtype
from fa_core.measure.tally import Diagnosed
from fa_core.measure.taps import Taps


def bytes_per_member(network: nn.Module, batches: Sequence[tuple[Tensor, Tensor]], test_batch: int) -> int:
    """Memory that measuring `network` in a group takes; free memory divided by it is the size of a group.

        weights: as they are and once more in the stack;
        + max(2·A·B, 4·M·T): A = bytes that one sample's forward pass makes, kept for the backward pass and once
          more for its gradients; M = the largest of its tensors; B, T = samples per eval and test batch.

    Found by running one sample; an estimate, on the safe side. The samples themselves are shared, and not in it.

    Args:
        network: on its device.
        batches: eval batches.
        test_batch: T.
    """
    tensors = [*network.parameters(), *network.buffers()]
    held = sum(tensor.nbytes for tensor in tensors)
    target = target_dtype(network)
    stacked = sum(t.numel() * (target.itemsize if target and t.is_floating_point() else t.itemsize) for t in tensors)
    made = _Made()
    try:
        with borrow(network) as net, torch.no_grad(), made:
            x = torch.as_tensor(batches[0][0])[:1]
            net.model(x.to(device=net.device, dtype=net.dtype if x.is_floating_point() else None))
    except Exception:
        # what it needs will show when it is measured, if it can be
        pass
    largest = max((len(y) for _, y in batches), default=0)
    return held + stacked + max(2 * sum(made.sizes) * largest, 4 * max(made.sizes, default=0) * test_batch)


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sizes in bytes of the tensors that operations made; views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        output = func(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.sizes.append(tensor.nbytes)
        return output


class Counter:
    """Batches done, of all that are known to be needed.

    Args:
        on_batch: called with (done, total).

    Attributes:
        total: batches of all networks that are measured by themselves, and of all groups.
        raised: what ``on_batch`` raised, which is no failure of a network and is let through.
    """

    def __init__(self, on_batch: Progress | None = None) -> None:
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
    progress: Counter
    count_batches: bool = False

    @property
    def steps(self) -> int:
        """Batches of one network, or of one group."""
        return len(self.batches) + len(self.test)


def no_larger(batches: Iterable[Any], largest: int | None) -> list[Any]:
    """The batches, cut into passes of at most ``largest`` samples; what is no such batch stays as it is.

    >>> import torch
    >>> [len(y) for _, y in no_larger([(torch.zeros(5, 1), torch.zeros(5).long())], 2)]
    [2, 2, 1]
    """
    if largest is None:
        return list(batches)
    return [part for batch in batches for part in _cut_batch(batch, largest)]


def _cut_batch(batch: Any, largest: int) -> list[Any]:
    try:
        x, y = pair(batch, 0)
    except MeasureError:
        return [batch]
    return list(zip(cut(x, largest), cut(y, largest), strict=True))


@dataclass(frozen=True)
class Member:
    """What came out for one network.

    Attributes:
        acc: its accuracy on the test samples; None where it failed.
        diagnosis: what its report is made of; None where it failed.
        error: why it failed; the others are unaffected.
        note: why it was measured by itself, where others were measured together or could have been.
    """

    acc: float | None
    diagnosis: Diagnosed | None
    error: FaError | None
    note: str = ""


def measure_alone(network: nn.Module, request: Request, note: str = "") -> Member:
    """Measure one network in the ordinary way.

    Raises:
        torch.OutOfMemoryError: memory ran out.
        Exception: what the listener to the progress raised, or a lost device: none can be measured on it.
    """
    full: Exception | None = None
    try:
        hits, samples = 0, 0
        if request.test or not request.count_batches:
            tested = run_accuracy(network, request.test, request.taps, request.dtype, on_batch=request.progress.step)
            hits, samples = tested.hits, tested.samples
        diagnosis = run_diagnosis(
            network,
            request.batches,
            taps=request.taps,
            norm_batches=request.norm_batches,
            dtype=request.dtype,
            largest_pass=request.largest_pass,
            on_batch=request.progress.step,
        )
        if request.count_batches:
            hits += diagnosis.accuracy.hits
            samples += diagnosis.accuracy.samples
        return Member(hits / samples, diagnosis, None, note)
    except Exception as error:
        if error is request.progress.raised or is_device_lost(error):
            raise
        if not is_out_of_memory(error):
            return Member(None, None, _as_own(error), note)
        full = error
    raise out_of_memory(full)


def out_of_memory(error: BaseException) -> torch.OutOfMemoryError:
    """Memory ran out, whatever class of exception said so."""
    _let_go(error)
    return error if isinstance(error, torch.OutOfMemoryError) else torch.OutOfMemoryError(str(error))


def _as_own(error: Exception) -> FaError:
    _let_go(error)
    if isinstance(error, FaError):
        return error
    first_line = (str(error).strip() or "no message").splitlines()[0]
    return MeasureError(f"the network raised {type(error).__name__}: {first_line}")


def _let_go(error: BaseException | None) -> None:
    """Forget where it was raised: the frames hold the tensors of the failed pass."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
