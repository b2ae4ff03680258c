import math
import sys

import pytest
import torch
from scipy import stats

from fa_core.measure.norms import DRAWS, growth_interval, resampled_medians


@pytest.mark.parametrize("samples", [1, 2, 20, 128, 200])
def test_the_medians_are_those_of_the_drawn_samples(samples):
    norms = torch.randn(3, samples, dtype=torch.float64).exp()
    drawn = torch.randint(samples, (50, samples), generator=torch.Generator().manual_seed(0))
    expected = torch.stack([layer[drawn].median(dim=1).values for layer in norms], dim=1)
    assert torch.equal(resampled_medians(norms, 50), expected)


def test_of_many_samples_the_places_follow_the_law_of_drawn_ones():
    n = 2001
    first = torch.rand(n, dtype=torch.float64)
    stream = torch.stack([first, first, torch.where(torch.rand(n) < 0.6, first, torch.rand(n))])
    medians = resampled_medians(stream, 4000)
    assert torch.equal(medians[:, 0], medians[:, 1])
    drawn = torch.randint(n, (4000, n))
    expected = torch.stack([layer[drawn].median(dim=1).values for layer in stream], dim=1)
    for found, written_out in ((medians, expected), (medians.diff(), expected.diff())):
        assert found.std(dim=0) == pytest.approx(written_out.std(dim=0), rel=0.1, abs=1e-12)
        assert found.mean(dim=0) == pytest.approx(written_out.mean(dim=0), abs=1e-3)


def test_the_ends_are_percentiles_of_the_medians_law_for_all_blocks_together():
    # over h_0 = 1, growth is the median itself, whose percentiles are binomial
    n, norms = 128, torch.arange(1.0, 129.0, dtype=torch.float64)
    flat = torch.ones_like(norms)
    for blocks in (1, 8):
        stream = torch.stack([flat, norms, *[norms] * (blocks - 1)])
        ends = growth_interval(stream)
        ranks = range(1, n + 1)
        # the median of n draws is at most rank r where at least n/2 draws are
        law = [1 - stats.binom.cdf(n // 2 - 1, n, rank / n) for rank in ranks]
        for end, tail in zip(ends, (0.025 / blocks, 1 - 0.025 / blocks), strict=True):
            exact = next(rank for rank, below in zip(ranks, law, strict=True) if below >= tail)
            assert end == pytest.approx(exact, abs=4)


def stream(*layers):
    return torch.tensor(layers, dtype=torch.float64)


@pytest.mark.parametrize(
    ("norms", "ends"),
    [
        (stream([1.0] * 19, [2.0] * 19), None),
        (stream([1.0] * 20), None),
        (stream([1.0] * 20, [2.0] * 20), (2.0, 2.0)),
        (stream([0.0] * 20, [2.0] * 20), None),
        (stream([1.0] * 20, [2.0] * 20, [0.0] * 20, [5.0] * 20), (2.0, 2.0)),
        (stream([1.0] * 20, [math.nan] + [2.0] * 19), None),
        (stream([1.0] * 20, [math.inf] * 11 + [2.0] * 9), None),
        (stream([1.0] * 20, [math.inf] * 9 + [2.0] * 11), (2.0, sys.float_info.max)),
        (stream([0.0] * 9 + [1.0] * 11, [3.0] * 20), (0.0, sys.float_info.max)),
        (stream([1e-20] * 20, [1e300] * 20), (sys.float_info.max, sys.float_info.max)),
    ],
)
def test_every_stream_has_an_answer(norms, ends):
    assert growth_interval(norms) == (ends and pytest.approx(ends))


def test_a_median_beside_a_gap_is_open_on_both_sides():
    # a gate that is open for 67 of 128 samples
    norms = stream([1.0] * 128, [60.0] * 67 + [2.0] * 61)
    assert growth_interval(norms) == (2.0, 60.0)
    assert DRAWS >= 1000
