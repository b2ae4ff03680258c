"""K by sequential stopping: from 8 batches until (c) is decided, or 64."""

import pytest
import torch
from torch import nn

from fa_core.measure.diagnose import PassOptions, run_diagnosis
from fa_core.report.intervals import LOOKS, drift_interval
from tests.fa_core.measure.nets import Residual, batches, cosines

CEILING = 0.3


def by_hand(net, data):
    """K, from the cosines of all batches."""
    found = cosines(net, data)
    for k, t in LOOKS.items():
        if k >= len(data):
            break
        sums = [sum(float(found[i, j]) for j in range(k) if j != i) for i in range(k)]
        ends = drift_interval(sum(sums) / (k * (k - 1)), sums, t)
        assert ends is not None
        if ends[0] > CEILING or ends[1] <= CEILING:
            return k
    return len(data)


@pytest.mark.parametrize("seed", range(3))
def test_it_stops_at_the_first_look_that_decides(seed):
    torch.manual_seed(seed)
    net = Residual(kind="gelu", out_ln=True)
    data = batches(40)
    report = run_diagnosis(net, data, PassOptions(decide_at=CEILING)).report()
    assert report.n_batches == by_hand(net, data)
    if report.n_batches < len(data):
        assert "c" not in report.undecided


def test_the_numbers_are_those_of_as_many_batches():
    net = Residual(kind="gelu", out_ln=True)
    data = batches(40)
    found = run_diagnosis(net, data, PassOptions(decide_at=CEILING)).report()
    assert found == run_diagnosis(net, data[: found.n_batches]).report()


def test_one_direction_in_every_batch_stops_at_eight():
    x = torch.randn(16, 5)
    data = [(x + 1e-3 * torch.randn(16, 5), torch.zeros(16, dtype=torch.long)) for _ in range(64)]
    net = Residual(kind="gelu")
    report = run_diagnosis(net, data, PassOptions(decide_at=-0.5)).report()
    assert report.n_batches == 8 and report.cross_batch_stability > 0.99


def test_what_no_batch_measures_stops_at_eight():
    net = Residual()
    nn.init.zeros_(net.head.weight)
    report = run_diagnosis(net, batches(40), PassOptions(decide_at=CEILING)).report()
    assert report.n_batches == 8 and report.cross_batch_stability is None
