"""Filters as people type them."""

import math
from typing import get_args

import pytest

from fa_core.errors import UsageError
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.session import Session
from fa_tui.settings import Quantity
from fa_tui.views.columns import CELLS
from fa_tui.views.filters import Filter, meant
from tests.fa_core.rows import row_of


def keys(session, text):
    return [session.rows[row].key for row in Filter(text).rows(session)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("method:dfa flag:c", ["dfa_s123"]),
        ("flag:abcd seed:42", ["state_bridge_s42", "credit_bridge_s42"]),
        ("bridge -state seed>400", ["credit_bridge_s456"]),
        ("growth>5 growth<=11", ["ep_s123", "ep_s456"]),
        ("g_L<1e-9", ["credit_bridge_s42"]),
        ("-covers:d is:trustworthy seed=42", ["bp_s42", "ep_s42"]),
        ("margin>100", []),
        ("method:dfa,ep seed:42,123", ["dfa_s42", "dfa_s123", "ep_s42", "ep_s123"]),
        ("method=dfa growth > 2000", ["dfa_s42", "dfa_s456"]),
        ("key=dfa_s4", []),
        ("Growth>2000 G_L<2e-9 accuracy<0.3 method:dfa", ["dfa_s456"]),
    ],
)
def test_terms_must_all_hold(session, text, found):
    assert sorted(keys(session, text)) == sorted(found)


def test_the_place_behind_an_at_says_nothing_of_a_run():
    key = "dfa_s42@bp_s42"
    placed = Session([row_of(key, "x.json", method="dfa")])
    terms = ("bp", "key:bp", "run:bp", "dfa_s42", "key:dfa", "run:json:dfa", f"key={key}")
    assert [Filter(term).rows(placed) == [0] for term in terms] == [False] * 3 + [True] * 4


def test_a_number_that_was_not_measured_passes_no_comparison(session):
    assert not [key for key in keys(session, "margin<1000") if key.startswith(("bp", "ep"))]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("growth>", "write growth>100"),
        ("growth>ten", "write growth>100"),
        ("growth>nan", "write growth>100"),
        ("flag:x", "a, b, c and d"),
        ("flag:", "write flag:ab"),
        ("is:nice", "trustworthy"),
        ("growth:3", "write growth>1"),
        ("growht>3", "did you mean growth?"),
        ("colour:red", "there are growth"),
        ("method>3", "write method:3"),
        (">3", "write growth>3"),
    ],
)
def test_a_term_that_means_nothing_is_refused_in_one_line_with_what_to_write(text, hint):
    with pytest.raises(UsageError) as refused:
        Filter(text)
    assert hint in str(refused.value)


def test_axes_of_the_runs_are_names_by_their_sign_too_and_numbers_by_their_value():
    session = Session(
        [row_of("dfa", "a.json", axes={"lam": lam, "arch": "vit"}) for lam in (0.0, 0.01, 1e-4)]
    )
    for text, found in (
        ("lam:0.010", [1]),
        ("λ=1e-4", [2]),
        ("lam>0 arch=vit", [1, 2]),
        ("arch:resmlp", []),
    ):
        assert Filter(text, ["arch", "lam"]).rows(session) == found
    with pytest.raises(UsageError, match="lam is not known"):
        Filter("lam:0.01")


def test_values_that_are_not_finite_can_be_asked_for():
    norms = ([1.0, 2.0], [1.0, math.nan], [1.0, math.inf])
    rows = [row_of("bp", "a", report=DiagnosticReport(residual_norms=h)) for h in norms]
    assert Filter("is:nonfinite").rows(Session(rows)) == [1, 2]


@pytest.mark.parametrize(
    ("letter", "name"),
    [("a", "growth"), ("b", "g_L"), ("c", "drift"), ("stability", "drift"), ("d", "margin")],
)
def test_a_diagnostic_is_filtered_by_its_letter_too(session, letter, name):
    found = Filter(f"{name}>0.2").rows(session)
    assert Filter(f"{letter}>0.2").rows(session) == found
    assert Filter("d>200", ["d"]).rows(session) == []


def test_the_matrix_can_begin_with_every_quantity_and_with_their_older_names():
    names = {*get_args(Quantity)} - {"letters"}
    assert names == {*CELLS} - {"null"}
    typed = {"accuracy": "acc", "‖g_L‖": "g_L", "stability": "drift", "c": "drift", "Γ": "gamma"}
    assert {name: meant(name, names) for name in typed} == typed
