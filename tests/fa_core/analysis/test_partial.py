"""Partial audits: bounds on growth, and what they rest on."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.formats.trace import with_growth_bound
from fa_core.report.diagnostic_report import DiagnosticReport


def bounded(last, h_0, depth, layer=None):
    layers = {"residual_norms": layer} if layer else {}
    return with_growth_bound(DiagnosticReport(residual_norms=[last], layers=layers), h_0, depth)


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=8))
def test_the_bound_never_exceeds_the_growth_it_stands_for(norms):
    growth = DiagnosticReport(residual_norms=norms).max_per_block_growth
    assert bounded(norms[-1], norms[0], len(norms) - 1).growth_bound <= growth * (1 + 1e-12)


def test_norms_of_every_layer_are_not_replaced_by_a_bound():
    report = DiagnosticReport(residual_norms=[1.0, 2.0, 4.0])
    assert with_growth_bound(report, 1.0, 2) is report


@pytest.mark.parametrize(("h_0", "depth"), [(0.0, 4), (math.nan, 4), (math.inf, 4), (1.0, 0)])
def test_a_bound_from_impossible_inputs_is_refused(h_0, depth):
    with pytest.raises(ValueError, match="bound needs"):
        bounded(1.0, h_0, depth)


def test_a_norm_of_an_earlier_layer_is_bounded_over_the_blocks_below_it():
    assert bounded(8.0, 1.0, 12, "3").growth_bound == pytest.approx(2.0)
    assert bounded(16.0, 1.0, 4, "L").growth_bound == pytest.approx(2.0)
