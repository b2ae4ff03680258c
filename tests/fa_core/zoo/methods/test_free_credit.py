"""Deep Γ without the layers whose credit comes free, and the null, by hand; which layers those are, by name."""

import math

import numpy as np
import pytest
import torch

from fa_core.measure.credit import method_credit_quality
from fa_core.measure.credit import null_gamma as measured_null
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import FREE_AT_L, deep_gamma, free_layers, null_gamma, within_null
from fa_core.zoo.methods import METHODS, make_method
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.hand_net import Reference, cosine, samples


@pytest.mark.parametrize("name", ["fa", "dfa"])
def test_deep_gamma_and_its_null_are_those_by_hand(name):
    L, draws = 4, 7
    net, x, y = samples(L, torch.float64)
    rule, by_hand = make_method(name, net, seed=3), Reference(net, x, y, "float64")
    states = by_hand.forward(by_hand.nothing())
    gradients = by_hand.gradients(states)
    p = np.exp(states[-1] @ by_hand.W.T + by_hand.b)
    error = p / p.sum(1, keepdims=True) - by_hand.onehot

    def gammas(matrices):
        feedback = [matrix.double().numpy() for matrix in matrices]
        signal = [error @ matrix for matrix in feedback] if name == "dfa" else [error @ by_hand.W]
        while len(signal) <= L:
            signal.insert(0, signal[0] @ feedback[L - len(signal)])
        return [cosine(a, g) for a, g in zip(signal, gradients, strict=True)]

    deep = range(1, L + 1 if name == "dfa" else L)
    own = gammas(list(rule.buffers()))
    found = method_credit_quality(net, rule, (x, y), directions=0)
    observed = found["deep_gamma"]
    assert found["gamma"] == pytest.approx(own, abs=1e-12)
    assert observed == pytest.approx(np.mean([own[l] for l in deep]))
    assert found["free_layers"] == ([] if name == "dfa" else [L])
    assert found.get("deep_gamma_with_free", observed) == pytest.approx(np.mean(own[1:]))

    generator = torch.Generator().manual_seed(0)
    fresh = [gammas(list(rule.fresh(generator).buffers())) for _ in range(draws)]
    expected = [float(np.mean([one[l] for l in deep])) for one in fresh]
    null = measured_null(net, rule, (x, y), draws=draws)
    assert null.deep == pytest.approx(expected, abs=1e-12)
    assert null.mean == pytest.approx(np.mean(expected))
    assert null.std == pytest.approx(np.std(expected, ddof=1))
    assert null.observed == pytest.approx(observed)
    assert null.rank == (1 + sum(value >= observed for value in expected)) / (1 + draws)
    if name == "fa":  # without a terminal norm its last credit is the gradient, whatever was drawn
        assert {round(one[L], 12) for one in fresh} == {1.0}
        assert null.layers[L] == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_says_of_its_last_layer_what_a_table_without_that_record_is_read_by(name):
    net = build("resmlp", input_dim=4, d=8, L=0 if name == "shallow" else 2, seed=0)
    of_itself = name in ("bp", "fa", "state_bridge", "credit_bridge", "dtp", "local_loss")
    # a control has the credit of the rule that it trains by: these two of bp
    assert make_method(name, net).free_at_L == (of_itself or name in ("random_targets", "shallow"))
    assert (name in FREE_AT_L) == of_itself
    assert free_layers({"gamma": [0.1, 0.2, 0.9]}, name) == ([2] if of_itself else [])


@pytest.mark.parametrize(
    ("method", "expected"), [("State Bridge", 0.1), ("fantasy", 0.3), ("", 0.3)]
)
def test_a_table_that_does_not_record_free_layers_is_read_by_the_methods_name(method, expected):
    null = {"deep_gamma_mean": 0.25, "deep_gamma_std": 0.1, "gamma": [0, 0.0, 0.5]}
    credit = {"gamma": [0.9, 0.1, 0.5], "null": null}
    assert deep_gamma(credit, method) == pytest.approx(expected)
    free = expected == 0.1
    assert null_gamma(credit, method) == pytest.approx(
        (0.0, math.nan) if free else (0.25, 0.1), nan_ok=True
    )
    recorded = {**credit, "free_layers": []}
    assert deep_gamma(recorded, method) == pytest.approx(0.3)
    assert null_gamma(recorded, method) == (0.25, 0.1)


@pytest.mark.parametrize("credit", [None, {"gamma": None}, {"gamma": [0.5, None]}, {"gamma": "x"}])
def test_where_no_deep_layer_has_a_value_there_is_no_deep_gamma(credit):
    assert all(map(math.isnan, (deep_gamma(credit, "fa"), *null_gamma(credit, "fa"))))


def report_of(gamma, **null):
    return DiagnosticReport("dfa", credit={"gamma": [0.9, gamma], "null": null or None})


@pytest.mark.parametrize(
    ("draws", "reach"), [(5, 2.776 * math.sqrt(1.2)), (200, 1.972 * math.sqrt(1.005))]
)
def test_a_gamma_within_its_null_is_within_the_prediction_interval_of_one_more_draw(draws, reach):
    null = {"deep_gamma_mean": 0.01, "deep_gamma_std": 0.02, "draws": draws}
    inside, outside = 0.01 + 0.02 * reach * 0.99, 0.01 + 0.02 * reach * 1.01
    judged = [within_null(report_of(gamma, **null)) for gamma in (inside, outside, 0.02 - outside)]
    assert judged == [True, False, False]
    lacking = (
        report_of(0.1),
        report_of(math.nan, **null),
        report_of(0.1, **null | {"deep_gamma_std": math.nan}),
    )
    assert {within_null(report) for report in lacking} == {None}
    assert within_null(DiagnosticReport()) is None
