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


@given(curves, st.floats(1.0, 1e6))
def test_before_the_parting_layer_no_two_runs_differ_by_more_than_the_factor(runs, factor):
    layers = across_runs(runs)
    parting = first_parting(layers, factor)
    together = layers if parting is None else layers[: parting.layer]
    assert all(layer.ratio is None or layer.ratio <= factor for layer in together)
    assert parting is None or (parting.ratio or 0) > factor


def test_a_ratio_of_exactly_ten_is_not_yet_a_parting():
    assert (
        first_parting(across_runs([[1.0, 1.0], [PARTS_AT, 10.1]]))
        == across_runs([[1.0, 1.0], [PARTS_AT, 10.1]])[1]
    )


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
