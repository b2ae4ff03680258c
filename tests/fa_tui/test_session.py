"""The explorer's state: what a threshold changes, and nothing else."""

from fa_core.formats import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import BIT
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import Session, UnreadTraces
from fa_tui.views.filters import Filter
from fa_tui.views.words import flip_text
from tests.fa_core.analysis.runs import row
from tests.fa_tui.looks import stepped

JUDGED = DiagnosticReport(residual_norms=[1.0, 2.0], bp_grad_norms=[1.0, 1.0], headline_acc=0.5)
EP_123, EP_456 = "ep_s123", "ep_s456"


def at(session, **limits):
    """A step to other thresholds, by their fields."""
    return stepped(session, thresholds=DiagnosticThresholds(**limits))


def test_lowering_a_to_five_flips_exactly_the_two_ep_seeds_above_it(session):
    now = at(session, h_norm_explosion_ratio=5.0)
    assert {now.rows[flip.row].key for flip in now.flips} == {EP_123, EP_456}
    assert all((flip.before, flip.after) == ((0, 0), (BIT["a"], 0)) for flip in now.flips)
    assert (session.counts().walked, now.counts().walked) == (9, 11), "the old one stays"


def test_a_step_reads_and_counts_nothing_again(session):
    now = at(session, h_norm_explosion_ratio=5.0)
    assert now.runs is session.runs and now.seen is session.seen
    assert now.seen.values("a") is session.seen.values("a")


def test_flips_are_told_in_words_and_the_rest_counted(session):
    now = at(session, h_norm_explosion_ratio=0.5)
    assert flip_text(now, limit=2) == "bp +a on 3, ep +a on 3"
    assert flip_text(now, limit=1) == "bp +a on 3, 3 more"
    back = at(now, h_norm_explosion_ratio=5.0)
    assert "−a → ✓ bp s42" in flip_text(back, limit=9)


def test_a_run_that_loses_a_letter_but_not_its_walk_back_is_told_apart_and_last(session):
    now = at(session, h_norm_explosion_ratio=5.0, stability_drift_ceiling=0.5)
    assert flip_text(now, limit=9).endswith(
        "+a → ✗ ep s456, −c (still ✗) credit_bridge s42, −c (still ✗) dfa s123"
    )


def test_traces_are_read_only_when_they_are_wanted_and_only_once(sample_runs):
    calls = []

    def read():
        calls.append(sample_runs / "main")
        return scan(calls[-1:]).traces

    session = Session([], traces=UnreadTraces(read))
    assert not calls
    assert len(session.traces) == len(session.traces) > 0
    assert calls == [sample_runs / "main"]


def test_a_recorded_verdict_differs_by_its_letters_and_not_by_its_words():
    session = Session([row(growth=100.0, recorded_verdict="walk-back: (a)")])
    assert not session.judged(0).recorded_differs
    assert at(session, h_norm_explosion_ratio=200.0).judged(0).recorded_differs


def test_controls_are_not_among_the_numbers_that_a_threshold_is_set_by():
    norms = (("dfa", 60.0), ("bp", 2.0), ("frozen", 40.0))
    session = Session([row(method, growth=norm) for method, norm in norms])
    assert list(session.seen.values("a")) == list(session.deciding("a")) == [2.0, 60.0]
    only = session.but(filter=Filter("method:frozen"))
    assert list(only.seen.values("a")) == [40.0]
