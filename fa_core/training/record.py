"""What an epoch is measured by, for its line of the trace."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fa_core.data import DataSet
from fa_core.engine.evaluation import TEST_BATCH
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
from fa_core.models import StreamNet
from fa_core.report import DiagnosticReport

Batches = list[tuple[Tensor, Tensor]]


def measure_epoch(net: StreamNet, data: DataSet, batches: Batches, **given: Any) -> DiagnosticReport:
    """The four diagnostics on the evaluation batches, with the accuracy on the whole test part."""
    test = list(zip(torch.split(data.test_x, TEST_BATCH), torch.split(data.test_y, TEST_BATCH), strict=True))
    return diagnose(net, batches, headline_acc=accuracy(net, test), **given)
