"""Equilibrium propagation against a reference of its own: another network, NumPy, 60 decimal digits, no autograd."""

import mpmath
import pytest
import torch

from fa_core.measure.credit import method_credit_quality
from fa_core.zoo.methods import make_method
from tests.fa_core.zoo.methods.credits import credit_of
from tests.fa_core.zoo.methods.hand_net import Reference, apart, as_arrays, cosine, samples


def credit(net, x, y, **options):
    with torch.no_grad():
        return as_arrays(credit_of(make_method("ep", net, **options), net, x, y))


@pytest.mark.parametrize(("L", "tolerance"), [(1, 1e-13), (4, 1e-10), (12, 1e-3)])
def test_a_few_steps_are_right_to_many_digits_at_any_depth(L, tolerance):
    net, x, y = samples(L, torch.float64)
    with mpmath.workdps(60):
        exact = Reference(net, x, y, "exact")
        states, free = exact.descend(0.1, 0.1, max(5, L + 1)), exact.forward(exact.nothing())
        moves = [(f - h) / mpmath.mpf(0.1) for f, h in zip(free, states, strict=True)]
        errors = [-e / mpmath.mpf(0.1) for e in exact.errors(states)]
    found = [*credit(net, x, y), *credit(net, x, y, estimator="prediction_error")]
    for one, expected in zip(found, [*moves, *errors], strict=True):
        assert apart(one, expected) < tolerance


@pytest.mark.parametrize("beta", [0.1, 0.001])
def test_the_settled_prediction_error_is_the_gradient_and_the_displacement_is_not(beta):
    net, x, y = samples(3, torch.float64)
    reference = Reference(net, x, y, "float64")
    free = reference.forward(reference.nothing())
    gradients = reference.gradients(free)
    states, pushes = reference.settle(beta)
    settled = {"beta": beta, "eta": 0.3, "steps": 700}
    theorem = credit(net, x, y, estimator="prediction_error", **settled)
    published = credit(net, x, y, **settled)
    for l, g in enumerate(gradients):
        assert apart(theorem[l], -pushes[l] / beta) < 1e-3
        assert apart(published[l], (free[l] - states[l]) / beta) < 1e-3
        assert apart(theorem[l], g) < 5 * beta
        assert cosine(theorem[l], g) > 1 - 2 * beta
    assert 0.8 < cosine(published[-1], gradients[-1]) < 0.95


@pytest.mark.parametrize("estimator", ["displacement", "prediction_error"])
def test_float32_loses_the_early_layers_and_says_how_much(estimator):
    net, x, y = samples(8, torch.float32)
    rule = make_method("ep", net, arithmetic="float32", estimator=estimator)
    found = method_credit_quality(net, rule, (x, y), directions=0)
    trained = as_arrays(rule.loss(net, x, y)[1].credit)
    zeros = found["zeros"]
    assert zeros == [float((a == 0).mean()) for a in trained]
    assert (zeros[0], found["gamma"][0]) == (1.0, None) and zeros[-1] < 0.25
    exact = method_credit_quality(net, make_method("ep", net), (x, y), directions=0)
    assert not any(exact["zeros"])


@pytest.mark.parametrize("name", ["ep", "dfa", "state_bridge"])
def test_the_credit_that_is_measured_is_the_one_trained_with(name):
    net, x, y = samples(4, torch.float32)
    rule, exact = make_method(name, net), Reference(net, x, y, "float64")
    found = method_credit_quality(net, rule, (x, y), directions=0)["gamma"]
    used = as_arrays(rule.loss(net, x, y)[1].credit)
    trained = used or as_arrays(credit_of(rule, net, x, y))
    true = exact.gradients(exact.forward(exact.nothing()))
    assert found == pytest.approx(list(map(cosine, trained, true)), abs=1e-6)
