"""Filters as people type them."""

from __future__ import annotations

import pytest

from fa_core.errors import UsageError
from fa_core.report import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.filters import Filter


def keys(session: Session, text: str) -> list[str]:
    shown = Filter(text).rows(session)
    return [session.rows[row].key for row in (range(len(session)) if shown is None else shown)]


def test_nothing_typed_filters_nothing(session: Session) -> None:
    assert Filter("  ").rows(session) is None


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
    ],
)
def test_terms_must_all_hold(session: Session, text: str, found: list[str]) -> None:
    assert sorted(keys(session, text)) == sorted(found)


def test_a_number_that_was_not_measured_passes_no_comparison(session: Session) -> None:
    assert not [key for key in keys(session, "margin<1000") if key.startswith(("bp", "ep"))]


def test_flags_follow_the_thresholds(session: Session) -> None:
    session.set_thresholds(DiagnosticThresholds(h_norm_explosion_ratio=5.0))
    assert Filter("flag:a").live
    assert keys(session, "method:ep flag:a") == ["ep_s123", "ep_s456"]


@pytest.mark.parametrize("text", ["growth>", "growth>ten", "flag:x", "is:nice", "growth:3"])
def test_a_term_that_means_nothing_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Filter(text)
    assert "\n" not in str(refused.value)
