"""The sliders refuse what thresholds refuse."""

from __future__ import annotations

import pytest

from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.report_facts import NEVER_NEGATIVE, DiagnosticThresholds


def test_a_slider_is_logarithmic_where_its_threshold_is_never_negative() -> None:
    assert {one.threshold for one in DIAGNOSTICS.values() if one.quantity.log} == set(
        NEVER_NEGATIVE
    )


@pytest.mark.parametrize("one", DIAGNOSTICS.values(), ids=lambda one: one.letter)
def test_only_these_thresholds_refuse_a_negative_number(one) -> None:  # type: ignore[no-untyped-def]
    if one.quantity.log:
        with pytest.raises(ValueError, match=f"{one.threshold} is -3: .* is never negative"):
            DiagnosticThresholds(**{one.threshold: -3.0})
    else:
        assert one.limit(DiagnosticThresholds(**{one.threshold: -3.0})) == -3.0
    assert one.limit(DiagnosticThresholds(**{one.threshold: 0.0})) == 0.0
