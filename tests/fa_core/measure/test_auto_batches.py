"""K by sequential stopping: from 8 batches until (c) is decided, or 64."""

import pytest
import torch
from torch import nn

from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.passes import PassOptions
from fa_core.report.intervals import LOOKS, Z_OF_LOOKS, drift_interval
from tests.fa_core.measure.nets import Residual, batches, cosines

CEILING = 0.3


def by_hand(net, data):
    """K, from the cosines of all batches."""
    found = cosines(net, data)
    for k in LOOKS:
        if k >= len(data):
            break
        rows = [[float(found[i, j]) for j in range(k)] for i in range(k)]
        drift = (sum(map(sum, rows)) - sum(rows[i][i] for i in range(k))) / (k * (k - 1))
        low, high = drift_interval(drift, rows, Z_OF_LOOKS)
        if low > CEILING or high <= CEILING:
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


def test_the_numbers_are_those_of_as_many_batches_with_a_wider_interval():
    net = Residual(kind="gelu", out_ln=True)
    data = batches(40)
    found = run_diagnosis(net, data, PassOptions(decide_at=CEILING)).report()
    fixed = run_diagnosis(net, data[: found.n_batches]).report()
    assert found.cross_batch_stability == fixed.cross_batch_stability
    (low, high), (fixed_low, fixed_high) = found.interval("c"), fixed.interval("c")
    assert low < fixed_low < fixed_high < high


def alike(count):
    x = torch.randn(16, 5)
    return [
        (x + 1e-3 * torch.randn(16, 5), torch.zeros(16, dtype=torch.long)) for _ in range(count)
    ]


def test_one_direction_in_every_batch_is_on_one_line_and_takes_more_than_twenty():
    net = Residual(kind="gelu")
    report = run_diagnosis(net, alike(64), PassOptions(decide_at=CEILING)).report()
    assert report.n_batches == 32 and report.cross_batch_stability > 0.99
    few = run_diagnosis(net, alike(10)).report()
    assert few.undecided == {"c"} and "lie on one line" in few.notes
    assert "lie on one line" not in report.notes


@pytest.mark.parametrize(("count", "said"), [(80, "64 batches, the most"), (20, "20 batches, all")])
def test_a_drift_that_stays_undecided_stops_at_the_limit_and_says_so(count, said):
    net = Residual(kind="gelu", out_ln=True)
    data = batches(count)
    ceiling = run_diagnosis(net, data[:64]).report().cross_batch_stability
    report = run_diagnosis(net, data, PassOptions(decide_at=ceiling)).report()
    assert report.n_batches == min(count, LOOKS[-1]) and said in report.notes


def test_what_no_batch_measures_stops_at_eight():
    net = Residual()
    nn.init.zeros_(net.head.weight)
    report = run_diagnosis(net, batches(40), PassOptions(decide_at=CEILING)).report()
    assert report.n_batches == 8 and report.cross_batch_stability is None
