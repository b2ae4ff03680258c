"""Presets: thresholds kept by name, in a file that a person may edit."""

import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configure
from hypothesis import strategies as st

from fa_core.errors import UsageError
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.settings import PROTOCOL, Presets, preset_problem

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=12)


@pytest.fixture
def presets():
    return Presets()


def test_what_is_saved_last_under_a_name_is_read_back_by_another_explorer(presets):
    for thresholds in (DiagnosticThresholds(), STRICT):
        presets.save("strict", thresholds)
    presets.save(" loose ", DiagnosticThresholds(g_norm_floor=0.0, frozen_acc_margin_pp=-math.inf))
    other = Presets().read()
    assert list(other) == [PROTOCOL, "strict", "loose"]
    assert other["strict"] == STRICT
    assert other["loose"].frozen_acc_margin_pp == -math.inf


@configure(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(min_size=1, max_size=40).filter(lambda text: not preset_problem(text)),
    value=st.floats(allow_nan=False),
)
def test_any_name_and_any_number_come_back(presets, name, value):
    thresholds = DiagnosticThresholds(frozen_acc_margin_pp=value)
    presets.save(name, thresholds)
    assert presets.read()[name.strip()] == thresholds
    assert not presets.problems


def test_a_removed_preset_is_gone_and_the_others_stay(presets):
    presets.save("strict", STRICT)
    presets.save("loose", DiagnosticThresholds())
    presets.remove("strict")
    assert list(presets.read()) == [PROTOCOL, "loose"]
    with pytest.raises(UsageError, match="no preset 'strict'"):
        presets.remove("strict")


@pytest.mark.parametrize("name", ["", "  ", PROTOCOL, "x" * 41, "two\nlines"])
def test_names_that_would_confuse_are_refused(presets, name):
    with pytest.raises(UsageError):
        presets.save(name, STRICT)
    assert not presets.path.exists()


def test_what_is_written_by_hand_stays_as_it_is_when_another_is_saved(presets):
    presets.path.parent.mkdir(parents=True)
    presets.path.write_text("# mine\n[mine]  # of May\nh_norm_explosion_ratio = 12\n")
    presets.save("strict", STRICT)
    assert presets.read()["mine"] == STRICT, "it names only what it changes"
    presets.remove("strict")
    assert (
        presets.path.read_text().rstrip() == "# mine\n[mine]  # of May\nh_norm_explosion_ratio = 12"
    )


def test_a_broken_file_is_told_and_never_written_over(presets):
    presets.path.parent.mkdir(parents=True)
    presets.path.write_text("[mine]\nh_norm_explosion_ratio = 'twelve'\n")
    assert list(presets.read()) == [PROTOCOL]
    (problem,) = presets.problems
    assert ": mine.h_norm_explosion_ratio" in problem.message
    with pytest.raises(UsageError, match="correct the file first"):
        presets.save("strict", STRICT)
    assert "twelve" in presets.path.read_text()
