"""A credit that the user gives: Γ with its null in the report, and one line for what is no credit."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fa_core import diagnose
from fa_core.errors import MeasureError
from fa_core.measure.credit import credit_quality
from fa_core.measure.credit_metrics import SHUFFLES, shuffled_null
from fa_core.measure.isolate import CREDIT_DREW
from fa_core.report.beside import failure_mode
from tests.fa_core.measure.nets import OUTSIDE, Hookable, Residual, batches, encoder

TAPS = "embed, blocks.*"
B = [torch.randn(4, 6, generator=torch.Generator().manual_seed(l)) for l in range(4)]


def direct(model, x, y):
    """Direct feedback, none at h_0."""
    error = model(x).softmax(1) - F.one_hot(y, 4)
    return [None, *(error @ matrix.to(error) for matrix in B[1:])]


def by_hand(net, x, y):
    """cos(e_T·B_l, g_l) and its matrix over all pairs of samples, float64."""
    net = net.double()
    logits, hidden = net(x.double(), return_hidden=True)
    gradients = torch.autograd.grad(F.cross_entropy(logits, y), hidden)
    error = logits.softmax(1) - F.one_hot(y, 4)
    return [
        F.normalize(error @ matrix.double()) @ F.normalize(1e6 * g).T
        for matrix, g in zip(B, gradients, strict=True)
    ]


def test_gamma_of_a_function_is_in_the_report_with_the_null_of_shuffled_samples():
    net, data = Residual(kind="gelu", out_ln=True), batches(8)
    report = diagnose(Hookable(net), data, taps=TAPS, credit=direct, dtype="float64")
    pairs = by_hand(net, *data[0])
    wanted = [float(one.diag().mean()) for one in pairs[1:]]
    assert report.credit["gamma"] == [None, *map(pytest.approx, wanted)]
    assert report.deep_gamma == pytest.approx(sum(wanted) / 3)
    assert report.credit["deep_layers"] == [1, 2, 3] and report.credit["free_layers"] == []
    null = report.credit["null"]
    assert (null["of"], null["draws"]) == ("samples shuffled", SHUFFLES)
    # over all orders the mean is that over all pairs
    for layer in (1, 2, 3):
        assert null["gamma"][layer] == pytest.approx(float(pairs[layer].mean()), abs=0.03)
    assert all(change < math.inf for change in report.credit["nudge"][1:])
    assert report.coverage == "abc" and "gamma" not in report.unmeasured
    # it is no null of fresh feedback, by which a direction failure is said
    unused = report.with_frozen_baseline(1.0)
    assert failure_mode(unused).startswith("depth unused")

    record = credit_quality(net, direct, data[0], directions=0)
    # by a stream of its own there is no tail for nudge
    assert {**record, "nudge": 0, "missing": 0} == {**report.credit, "nudge": 0, "missing": 0}


def test_the_shuffled_null_is_that_of_all_orders():
    a, g = torch.randn(2, 4, 3, dtype=torch.float64)
    null = shuffled_null([None, a, 2 * g], [g, g, g])
    pairs = [F.normalize(one) @ F.normalize(g).T for one in (a, g)]
    orders = [list(order) for order in itertools.permutations(range(4))]
    deep = [sum(float(one[order, range(4)].mean()) for one in pairs) / 2 for order in orders]
    assert null.observed == pytest.approx(deep[0], abs=1e-12)
    assert {round(value, 9) for value in null.deep} == {round(value, 9) for value in deep}
    assert null.rank == (1 + sum(v >= null.observed for v in null.deep)) / (1 + SHUFFLES)


def test_a_credit_that_is_the_same_for_every_sample_is_its_own_null():
    a, g = torch.randn(1, 5).expand(6, 5), torch.randn(6, 5)
    assert shuffled_null([None, a], [g, g]).rank == 1.0


def test_labels_of_tokens_have_gamma_and_neither_rho_nor_nudge():
    net = encoder(nn.Linear(8, 4)).double()
    net.head = nn.Linear(8, 4).double()
    x, y = torch.randint(11, (6, 5)), torch.randint(4, (6, 5))

    def gradient(model, x, y):
        logits, hidden = model(x, return_hidden=True)
        return torch.autograd.grad(F.cross_entropy(logits.flatten(0, 1), y.flatten()), hidden)

    quality = credit_quality(net, gradient, (x, y))
    assert quality["gamma"] == pytest.approx([1.0] * 3)
    assert quality["nudge"] == [None] * 3
    assert "one label per sample" in quality["missing"]["rho, nudge"]


def given(*credit):
    """Credit of every label."""

    def function(model, x, y):
        return [None, *(a * (1 + y[: len(a), None]) if torch.is_tensor(a) else a for a in credit)]

    return function


FINE = torch.ones(16, 6)
REFUSED = {
    "no list": (lambda model, x, y: FINE, "it returned a float32 tensor of shape"),
    "too few": (given(FINE, FINE), "3 credits for 4 states"),
    "a shape": (given(FINE, FINE[:8], FINE), r"a_2 has shape \(8, 6\), h_2 has \(16, 6\)"),
    "NaN": (given(FINE, FINE * math.nan, FINE), "with NaN or inf"),
    "zeros": (given(FINE, FINE, 0 * FINE), "0 in every sample"),
    "a number": (given(FINE, 1.0, FINE), "a_2 is a float"),
    "constants": (lambda model, x, y: [None, FINE, FINE, FINE], "at h_1, h_2, h_3 does not follow"),
    "noise": (lambda model, x, y: [None, *torch.randn(3, 16, 6)], "h_1, h_2, h_3 does not follow"),
    "nothing": (given(None, None, None), "it returned a list of 4"),
    "it raises": (lambda model, x: [], "TypeError"),
}


@pytest.mark.parametrize(("credit", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_credit_is_refused_in_one_line(credit, said):
    with pytest.raises(MeasureError, match=said):
        diagnose(Hookable(Residual()), batches(1), taps=TAPS, credit=credit)


def test_a_credit_that_draws_is_said_to_be_of_one_draw():
    def tangents(model, x, y):
        return [None, *(torch.randn_like(a) * a for a in direct(model, x, y)[1:])]

    assert diagnose(Hookable(Residual()), batches(1), taps=TAPS, credit=direct).notes == OUTSIDE
    drawn = diagnose(Hookable(Residual()), batches(1), taps=TAPS, credit=tangents)
    assert drawn.notes == f"{OUTSIDE}; {CREDIT_DREW}"


def test_a_function_may_train_on_gradients_and_leaves_none_behind():
    def local(model, x, y):
        model(x).logsumexp(1).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
        return given(FINE, FINE, None)(model, x, y)

    net = Hookable(Residual())
    report = diagnose(net, batches(1), taps=TAPS, credit=local)
    assert report.credit["deep_layers"] == [1, 2]
    assert all(p.grad is None for p in net.parameters())


def test_a_function_that_trains_is_refused_and_the_network_is_as_before():
    def trains(model, x, y):
        with torch.no_grad():
            model.head.weight.mul_(2)
        return [None, FINE, FINE, FINE]

    net = Hookable(Residual())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with pytest.raises(MeasureError, match=r"changed the parameter .*head.weight"):
        diagnose(net, batches(1), taps=TAPS, credit=trains)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_users_credit_takes_the_place_of_the_networks_own():
    class Cut(nn.Linear):
        def forward(self, h):
            return super().forward(h.detach())

    net = nn.Sequential(nn.Linear(5, 6), Cut(6, 6), Cut(6, 4))
    credit = given(FINE)
    assert "is cut" in diagnose(net, batches(1), taps="0,1").unmeasured["gamma"]
    report = diagnose(net, batches(1), taps="0,1", credit=credit)
    assert report.deep_gamma is not None and "gamma" not in report.unmeasured
