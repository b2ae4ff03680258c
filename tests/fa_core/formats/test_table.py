"""Columns hold what the reports say, in whatever order rows are chosen."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core import load_audits
from fa_core.formats.table import NUMBERS, AuditTable
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import mask_of
from tests.fa_core.rows import row_of
from tests.fa_core.strategies import assuming, reports, thresholds


def row(seed, **fields):
    return row_of(f"bp_s{seed}", seed=seed, report=DiagnosticReport(**fields))


def table_of(measured):
    return AuditTable.from_rows([row_of("bp", report=report) for report in measured])


@given(st.lists(reports(nonfinite=True), max_size=6), thresholds(), st.data())
def test_columns_of_chosen_rows_hold_what_their_reports_say(measured, limits, data):
    table = table_of(measured)
    table.flags(limits)  # as made before the choice as after it
    places = data.draw(st.lists(st.sampled_from(range(len(measured))))) if measured else []
    chosen = table.select(np.array(places, np.int64))
    judged = [measured[place].with_thresholds(limits) for place in places]
    assert [row.report for row in chosen.rows()] == [measured[place] for place in places]
    for number in NUMBERS:
        expected = [number.of(report) for report in judged]
        filled = [math.nan if value is None else value for value in expected]
        np.testing.assert_array_equal(chosen.column(number), filled, err_msg=number.name)
    assert chosen.coverage.tolist() == [mask_of(report.coverage) for report in judged]
    assert chosen.nonfinite.tolist() == [mask_of(report.nonfinite) for report in judged]
    # the library's contract, read by callers alone
    assert chosen.verdicts(limits) == [report.verdict for report in judged]
    assert chosen.judgements(limits) == Counter(report.claim for report in judged)


def test_a_mask_chooses_as_its_indices_do_and_columns_cannot_be_written():
    table = AuditTable.from_rows(
        [
            row(seed, headline_acc=0.5, evidence={"a": kind} if kind else {})
            for seed, kind in enumerate(["bound", "", "proxy"])
        ]
    )
    assert table.select(table.seed > 0).seed.tolist() == [1, 2]
    assert table.select(np.array([True] * 3)) is table
    assert (table.kinds, table.select([1]).kinds) == ({"a": "proxy"}, {})
    for column in (table.growth, table.coverage, table.method, table.flags(), table.credit):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0


def test_methods_stand_in_order_of_appearance(published_table):
    methods = ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]
    assert load_audits(published_table).methods == methods


def test_a_table_of_nothing_answers_everything():
    empty = AuditTable.from_rows([])
    assert (len(empty), empty.judgements(), empty.methods, empty.flags().shape) == (0, {}, [], (0,))
    assert len(assuming(empty, 0.3).select([])) == 0
