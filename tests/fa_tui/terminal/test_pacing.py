"""What may be under way on a slow line, and that a full line always empties."""

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.terminal.painting import LOST_SECONDS, Pacing

MOMENT = 1.001


def test_a_large_frame_behind_a_question_is_asked_about_too():
    line = Pacing()
    line.sent(900, now=0.0)
    line.sent(1700, now=0.1)
    line.answered(now=0.1)
    assert line.expects_answer
    assert line.wait(now=0.2) > 0
    line.answered(now=0.3)
    assert line.wait(now=0.3) == 0


def test_where_answers_take_their_time_one_frame_at_a_time_is_under_way():
    line = Pacing()
    line.sent(600, now=0.0)
    line.answered(now=0.5)
    assert line.sent(10, now=1.0)
    assert line.wait(now=1.0) > 0
    line.answered(now=1.01)
    assert not line.sent(10, now=2.0), "the line is fast again: not every frame needs a question"
    assert line.wait(now=2.0) == 0


def test_a_terminal_that_never_answers_gets_what_a_slow_line_carries():
    line, now, sent = Pacing(), 0.0, 0
    while now < 5:
        line.sent(500, now)
        sent += 500
        now += line.wait(now)
    assert sent <= 5 * 3000 + 500


def test_no_frame_to_a_silent_terminal_waits_longer_than_a_moment():
    line = Pacing()
    line.sent(20_000, now=0.0)
    assert line.wait(now=0.0) <= MOMENT


Step = tuple[int | None, float]


@given(
    st.lists(st.tuples(st.one_of(st.integers(0, 6000), st.none()), st.floats(0, 1)), max_size=40)
)
def test_a_line_that_may_not_be_sent_on_is_sent_on_later_even_without_an_answer(steps):
    line, now = Pacing(), 0.0
    for count, pause in steps:
        now += pause
        if count is None:
            line.answered(now)
        else:
            line.sent(count, now)
        later = line.wait(now)
        assert later == 0 or line.expects_answer or later <= MOMENT
        # given up on an answer, it is one that never answers
        assert line.wait(now + later + 1e-6) <= MOMENT


def test_answers_that_never_come_are_taken_as_lost():
    line = Pacing()
    line.answered(now=0.0)
    line.sent(5000, now=0.0)
    line.sent(5000, now=0.1)
    assert line.wait(now=1.0) > 0
    assert line.wait(now=LOST_SECONDS + 1) == 0
