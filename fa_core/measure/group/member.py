"""What came out for one network of a group, and how one is measured by itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fa_core.errors import FaError, MeasureError
from fa_core.failures import is_device_lost
from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.group.request import Request, Told
from fa_core.measure.measured import Diagnosed
from fa_core.measure.out_of_memory import is_out_of_memory


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
        Exception: what the listener to the progress raised, or a lost device: nobody else can be measured on it.
    """
    full: Exception | None = None
    try:
        hits, samples = 0, 0
        if request.test or not request.count_batches:
            tested = run_accuracy(network, Told(request.test, request.progress), request.taps, request.dtype)
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
        return Member(hits / samples, diagnosis.measured(), None, note)
    except Exception as error:
        if error is request.progress.raised or is_device_lost(error):
            raise
        if not is_out_of_memory(error):
            return Member(None, None, _for_people(error), note)
        full = error
    raise out_of_memory(full)


def out_of_memory(error: BaseException) -> torch.OutOfMemoryError:
    """Memory ran out, whatever class of exception said so."""
    _let_go(error)
    return error if isinstance(error, torch.OutOfMemoryError) else torch.OutOfMemoryError(str(error))


def _for_people(error: Exception) -> FaError:
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
