import math

import pytest
import torch

from fa_core.measure.resampling import resampled_medians


def test_a_median_of_drawn_samples_has_its_binomial_law_and_layers_share_the_seeds_draws():
    # 40 for 5 of 9 samples and 60 for 4: the median is 60 where at least 5 of 9 draws are
    norms = torch.tensor([40.0] * 5 + [60.0] * 4, dtype=torch.float64)
    medians = resampled_medians(torch.stack([torch.ones_like(norms), norms, 2 * norms]), 4000)
    assert medians.shape == (4000, 3)
    exact = sum(math.comb(9, k) * (4 / 9) ** k * (5 / 9) ** (9 - k) for k in range(5, 10))
    assert (medians[:, 1] == 60).double().mean().item() == pytest.approx(exact, abs=0.03)
    assert torch.equal(medians[:, 2], 2 * medians[:, 1]) and set(medians[:, 0].tolist()) == {1.0}
    drawn = [resampled_medians(norms[None], 50, seed) for seed in (4, 4, 5)]
    assert torch.equal(*drawn[:2]) and not torch.equal(*drawn[1:])
