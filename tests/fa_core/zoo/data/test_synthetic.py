"""The teacher-student task against its definition, and the samples an audit uses."""

import math

import numpy as np
import pytest
import torch

from fa_core.zoo.data import DataSet, eval_batches, load_data
from fa_core.zoo.data.synthetic import seen_through_map

SMALL = "synthetic:input=5,train=300,test=200"


def teacher_labels(x, seed, alpha):
    """The labels, one sample at a time, straight from the definition."""
    rng = np.random.default_rng(np.random.PCG64(seed))
    inputs = x.shape[1]
    w1 = rng.standard_normal((inputs, 256)) / inputs**0.5
    w2 = rng.standard_normal((256, 256)) / 16
    w3 = rng.standard_normal((256, 10)) / 16

    def phi(z):
        return (1 - alpha) * z + alpha * np.tanh(z)

    return [int(np.argmax(phi(3 * (phi(2 * (sample @ w1)) @ w2)) @ w3)) for sample in x]


@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_labels_are_the_teachers(alpha):
    data = load_data(f"{SMALL},alpha={alpha},seed=3")
    assert data.test_y.tolist() == teacher_labels(data.test_x.double().numpy(), 3, alpha)


def test_the_hash_is_known():
    """A changed generator would change every recorded run's samples."""
    assert load_data("synthetic:input=2,train=1,test=3").hash.startswith("sha256:5efd86980cd575c6")


def test_samples_in_an_ambient_space_do_not_depend_on_the_order_of_the_sum():
    z = np.random.default_rng(1).standard_normal((3, 40))
    found, reversed_sum = seen_through_map(z, 5, 2), np.empty((3, 5), np.float32)
    rng = np.random.default_rng(np.random.PCG64([2, 5]))
    on_grid = np.rint(rng.standard_normal((40, 5)) / 40**0.5 * 2**20) / 2**20
    noise = rng.standard_normal((3, 5), dtype=np.float32)
    for i, row in enumerate(np.rint(z * 2**20) / 2**20):
        for j in range(5):
            total = math.fsum(a * b for a, b in zip(row[::-1], on_grid[::-1, j], strict=True))
            reversed_sum[i, j] = total + 0.1 * float(noise[i, j])
    assert np.array_equal(found, reversed_sum)


def test_an_ambient_space_has_the_same_labels_and_a_known_hash():
    plain, seen = (load_data(f"{SMALL}{more}") for more in ("", ",ambient=64"))
    assert torch.equal(seen.train_y, plain.train_y) and torch.equal(seen.test_y, plain.test_y)
    assert seen.train_x.shape == (300, 64)
    assert load_data("synthetic:input=2,ambient=4,train=1,test=3").hash.startswith(
        "sha256:9f7aa8a609b2e88a"
    )


def numbered(count):
    x = torch.arange(count, dtype=torch.float32).unsqueeze(1)
    return DataSet(
        "numbered",
        x,
        torch.zeros(count, dtype=torch.long),
        x,
        torch.zeros(count, dtype=torch.long),
        1,
    )


def test_eval_batches_are_disjoint_and_fixed_by_the_seed():
    data = numbered(200)
    batches = eval_batches(data, k=4, batch_size=40, seed=5)
    drawn = torch.cat([x for x, _ in batches]).flatten().tolist()
    assert [len(y) for _, y in batches] == [40] * 4
    assert len(set(drawn)) == 160
    again, other = (eval_batches(data, k=4, batch_size=40, seed=seed) for seed in (5, 6))
    assert torch.cat([x for x, _ in again]).flatten().tolist() == drawn
    assert torch.cat([x for x, _ in other]).flatten().tolist() != drawn


@pytest.mark.parametrize(("samples", "sizes"), [(100, [40, 40]), (30, [30])])
def test_a_small_test_part_gives_fewer_eval_batches(samples, sizes):
    assert [len(y) for _, y in eval_batches(numbered(samples), k=4, batch_size=40)] == sizes
