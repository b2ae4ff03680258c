"""Where runs part, against a slow reading of the definition."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.seeds import PARTS_AT, across_runs, first_parting

norms = st.floats(1e-12, 1e12)
curves = st.lists(st.lists(norms, min_size=1, max_size=6), min_size=1, max_size=5)


@given(curves)
def test_the_ratio_is_the_largest_pairwise_quotient_among_runs_that_have_the_layer(
    runs,
):
    for layer in across_runs(runs):
        here = [run[layer.layer] for run in runs if layer.layer < len(run)]
        if len(here) < 2:
            assert layer.ratio is None
        else:
            assert layer.ratio == max(one / other for one in here for other in here)


def test_runs_part_at_the_first_layer_with_a_ratio_above_ten():
    layers = across_runs([[1.0, 1.0, 1.0], [PARTS_AT, 10.1, 20.0]])
    assert first_parting(layers) == layers[1]
    assert first_parting(layers[:1]) is None


def test_a_run_that_is_not_finite_parts_from_those_that_are():
    layer = across_runs([[1.0], [math.nan], [2.0]])[0]
    assert layer.ratio == math.inf
    assert (layer.stat(False).mean, layer.stat(False).std) == (1.5, math.sqrt(0.5))


def test_nothing_finite_and_a_single_run_cannot_be_compared():
    assert across_runs([[math.nan], [math.inf]])[0].ratio is None
    assert across_runs([[3.0]])[0].ratio is None
    assert across_runs([]) == ()


def test_a_gradient_of_zero_parts_from_any_other_and_not_from_another_zero():
    assert across_runs([[0.0], [1e-30]])[0].ratio == math.inf
    assert across_runs([[0.0], [0.0]])[0].ratio == 1.0
