"""Presets: thresholds kept by name, in a file that a person may edit."""

import math

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as configure
from hypothesis import strategies as st

from fa_core.errors import UsageError
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.settings import (
    PROTOCOL,
    load_presets,
    preset_problem,
    presets_file,
    remove_preset,
    save_preset,
)

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=12)


def test_what_is_saved_last_under_a_name_is_read_back_by_another_explorer():
    for thresholds in (DiagnosticThresholds(), STRICT):
        save_preset("strict", thresholds)
    save_preset(" loose ", DiagnosticThresholds(g_norm_floor=0.0, frozen_acc_margin_pp=-math.inf))
    other, _ = load_presets()
    assert list(other) == [PROTOCOL, "strict", "loose"]
    assert other["strict"] == STRICT
    assert other["loose"].frozen_acc_margin_pp == -math.inf


@configure(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.text(min_size=1, max_size=40).filter(lambda text: not preset_problem(text)),
    value=st.floats(allow_nan=False),
)
def test_any_name_and_any_number_come_back(name, value):
    thresholds = DiagnosticThresholds(frozen_acc_margin_pp=value)
    save_preset(name, thresholds)
    assert load_presets()[0][name.strip()] == thresholds
    assert load_presets()[1] is None


def test_a_removed_preset_is_gone_and_the_others_stay():
    save_preset("strict", STRICT)
    save_preset("loose", DiagnosticThresholds())
    remove_preset("strict")
    assert list(load_presets()[0]) == [PROTOCOL, "loose"]
    with pytest.raises(UsageError, match="no preset 'strict'"):
        remove_preset("strict")


@pytest.mark.parametrize("name", ["", "  ", PROTOCOL, "x" * 41, "two\nlines"])
def test_names_that_would_confuse_are_refused(name):
    with pytest.raises(UsageError):
        save_preset(name, STRICT)
    assert not presets_file().exists()


def test_what_is_written_by_hand_stays_as_it_is_when_another_is_saved():
    presets_file().parent.mkdir(parents=True)
    presets_file().write_text("# mine\n[mine]  # of May\nh_norm_explosion_ratio = 12\n")
    save_preset("strict", STRICT)
    assert load_presets()[0]["mine"] == STRICT, "it names only what it changes"
    remove_preset("strict")
    assert (
        presets_file().read_text().rstrip()
        == "# mine\n[mine]  # of May\nh_norm_explosion_ratio = 12"
    )


def test_a_broken_file_is_told_and_never_written_over():
    presets_file().parent.mkdir(parents=True)
    presets_file().write_text("[mine]\nh_norm_explosion_ratio = 'twelve'\n")
    assert list(load_presets()[0]) == [PROTOCOL]
    problem = load_presets()[1]
    assert ": mine.h_norm_explosion_ratio" in problem.message
    with pytest.raises(UsageError, match="correct the file first"):
        save_preset("strict", STRICT)
    assert "twelve" in presets_file().read_text()
