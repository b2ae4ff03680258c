"""Equilibrium propagation: the energy, its free phase, and where the nudge points."""

import copy

import pytest
import torch

from fa_core.zoo.methods import make_method
from fa_core.zoo.methods.ep import energies, nudged_phase
from tests.fa_core.zoo.methods.credits import batch, credit_of, network, same


@pytest.mark.parametrize("eta", [0.1, 0.3, 30.0])
def test_no_samples_energy_ever_rises(eta, net):
    net = net.double()
    x, y = batch(net)
    with torch.no_grad():
        _, free = net(x, return_hidden=True)
    zeros = list(map(torch.zeros_like, free))
    before, _ = energies(net, free, free[0], y, 0.1, zeros)
    nudged = nudged_phase(net, free, y, 0.1, eta, 12, zeros)
    after, _ = energies(net, nudged, free[0], y, 0.1, zeros)
    assert (after < before).all()


def test_its_float64_copy_follows_the_networks_weights_statistics_and_mode():
    net = network("smallcnn").train()
    x, y = batch(net)
    rule = make_method("ep", net)
    loss, _ = rule.loss(net, x, y)
    loss.backward()
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    for training in (False, True):
        net.train(training)
        with torch.no_grad():
            h_0 = net.embed_input(x)
        stream = [h_0] * (net.n_blocks + 1)
        exact = [h.double() for h in stream]
        expected = make_method("ep", net).credit(copy.deepcopy(net).double(), exact, x, y)
        found = [a.double() for a in rule.credit(net, stream, x, y)]
        same(found, expected, rtol=1e-5, atol=0)


def test_predictive_coding_that_settles_is_the_nudged_phase_at_full_force(net):
    options = {"beta": 1.0, "eta": 0.1, "steps": 20, "estimator": "prediction_error"}
    rules = make_method("pc", net), make_method("ep", net, **options)
    settled, nudged = (credit_of(rule, net, *batch(net)) for rule in rules)
    same(settled, nudged, 0, 0)
