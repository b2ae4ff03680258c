"""The judge of many runs gives what each report gives, wherever the thresholds move."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.formats.table import AuditTable
from fa_core.report.diagnostics import BOUND, LETTERS, PROXY, mask_of
from fa_core.report.judge import Judge
from tests.fa_core.rows import row_of
from tests.fa_core.strategies import reports, thresholds

kinds = st.dictionaries(st.sampled_from(LETTERS + "?"), st.sampled_from([BOUND, PROXY]))


@st.composite
def odd_reports(draw):
    """Any report, also with bounds in place of numbers and with a stream that is 0 or
    not whole."""
    report = draw(reports(nonfinite=True))
    norms = report.residual_norms
    if norms and draw(st.booleans()):
        norms = [*norms[:-1], 0.0]
    left_out = draw(st.sampled_from(["", "blocks.1"]))
    return replace(report, residual_norms=norms, evidence=draw(kinds), partial_stream=left_out)


@settings(deadline=None, max_examples=100)
@given(
    runs=st.lists(odd_reports(), max_size=8),
    moves=st.lists(thresholds(), min_size=1, max_size=4),
)
def test_report_judge_and_table_agree_after_every_move(runs, moves):
    judge = Judge(runs)
    table = AuditTable.from_rows([row_of("dfa_s1", report=run) for run in runs])
    for limits in moves:
        flags, undecided = judge.at(limits)
        judged = [run.with_thresholds(limits) for run in runs]
        assert list(flags) == [mask_of(run.flags) for run in judged]
        assert list(undecided) == [mask_of(run.undecided) for run in judged]
        assert list(flags) == table.flags(limits).tolist()
        assert list(undecided) == table.undecided(limits).tolist()
    assert table.coverage.tolist() == [mask_of(run.coverage) for run in runs]


@settings(deadline=None, max_examples=60)
@given(runs=st.lists(odd_reports(), max_size=8), data=st.data())
def test_values_are_the_numbers_of_the_chosen_runs(runs, data):
    judge = Judge(runs)
    every = range(len(runs))
    chosen = data.draw(st.sets(st.sampled_from(every)) if runs else st.just(every))
    for letter in LETTERS:
        measured = [runs[place] for place in chosen if letter in runs[place].coverage]
        decided = [run.numbers[letter] for run in measured if letter not in run.nonfinite]
        values = judge.values(letter, chosen)
        assert list(values[: len(decided)]) == sorted(decided)
        assert len(values) == len(measured)
        assert all(map(math.isnan, values[len(decided) :]))
