"""Eval batches that (c) cannot be measured on: the same samples twice, or one class after the other."""

import math

import pytest
import torch

from fa_core import diagnose
from fa_core.errors import MeasureError
from fa_core.measure.batch_input import BatchLog, sorted_by_class
from fa_core.zoo.data.dataset import eval_batches
from fa_core.zoo.data.synthetic import load_synthetic
from tests.fa_core.measure.nets import OUTSIDE, Residual, batches


def shuffled(batch):
    order = torch.randperm(len(batch[1]))
    return batch[0][order], batch[1][order]


@pytest.mark.parametrize("size", [1, 128])
def test_a_batch_that_comes_twice_in_whatever_order_is_refused(size):
    data = batches(4, size=size)
    again = [*data, shuffled(data[1])]
    with pytest.raises(
        MeasureError, match=r"eval batches 1 and 4 hold the same samples; .*shuffle=True"
    ):
        diagnose(Residual(), again)


def test_thousands_of_single_samples_are_no_duplicates():
    x, y = torch.rand(3000, 50), torch.randint(4, (3000,))
    log = BatchLog()
    for k in range(3000):
        log.add(x[k : k + 1], y[k : k + 1])
    assert log.note() == ""


def test_samples_that_are_alike_but_not_the_same_are_no_duplicates():
    x, y = batches(1)[0]
    one_pixel = x.clone()
    one_pixel[3, 2] += 1e-3
    data = [(x, y), (one_pixel, y), (x.flip(1), y), (x, (y + 1) % 4)]
    assert diagnose(Residual(), data).n_batches == 4


def chi_square(labels, classes):
    """By hand, cell by cell."""
    everything = torch.cat(labels).tolist()
    total, occurring = 0.0, [c for c in range(classes) if c in everything]
    for part in labels:
        for c in occurring:
            expected = len(part) * everything.count(c) / len(everything)
            total += (part.tolist().count(c) - expected) ** 2 / expected
    return total, (len(labels) - 1) * (len(occurring) - 1)


@pytest.mark.parametrize("skew", [0.0, 0.2, 1.0])
def test_batches_count_as_sorted_from_six_standard_deviations_on(skew):
    labels = [
        torch.where(torch.rand(64) < skew, torch.tensor(k % 5), torch.randint(5, (64,)))
        for k in range(8)
    ]
    statistic, dof = chi_square(labels, 7)
    assert sorted_by_class([y.numpy() for y in labels]) == (
        statistic > dof + 6 * math.sqrt(2 * dof)
    )


def by_class(data):
    x, y = (torch.cat(parts) for parts in zip(*data, strict=True))
    order = y.argsort(stable=True)
    return list(zip(x[order].chunk(len(data)), y[order].chunk(len(data)), strict=True))


def test_batches_sorted_by_class_are_measured_with_a_note():
    net, data = Residual(), batches(8)
    assert diagnose(net, data, notes="mine").notes == f"mine; {OUTSIDE}"
    notes = diagnose(net, by_class(data), notes="mine").notes
    assert notes.startswith("mine; eval batches sorted by class") and "shuffle=True" in notes


def test_labels_of_one_class_are_said_and_not_called_sorted():
    x, y = batches(1)[0]
    assert diagnose(Residual(), [(x, 0 * y)]).notes == OUTSIDE
    notes = diagnose(Residual(), [(a, 0 * b) for a, b in batches(8)]).notes
    assert "all eval labels are 0, " in notes and "sorted" not in notes


@pytest.mark.parametrize("value", [1e6, -999999.0, 3e38, math.inf, math.nan])
@pytest.mark.parametrize("where", [(..., 0), (-1, 0), (0, 0)])
def test_samples_with_large_or_missing_values_repeat_no_others(where, value):
    log = BatchLog()
    for _ in range(8):
        x, y = torch.randn(16, 6), torch.arange(16) % 4
        x[where] = value
        log.add(x, y)
    assert log.note() == ""


def test_samples_that_come_again_in_another_batch_are_counted():
    (x, y), *found = batches(8)
    found[-1] = [
        torch.cat([old[:-1], new[-1:]]) for old, new in zip((x, y), found[-1], strict=True)
    ]
    notes = diagnose(Residual(), [(x, y), *found]).notes
    assert f"{len(y) - 1} eval samples repeat others" in notes


def test_the_batches_that_an_audit_draws_are_never_refused_or_noted():
    data = load_synthetic("synthetic", "train=1,test=1280")
    for seed in range(10):
        labels = [y.numpy() for _, y in eval_batches(data, k=8, batch_size=32, seed=seed)]
        assert not sorted_by_class(labels)
