"""What may be under way on a slow line, and that a full line always empties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.terminal.pacing import LOST_SECONDS, Pacing


def test_a_large_frame_behind_a_question_is_asked_about_too() -> None:
    line = Pacing()
    line.sent(900, now=0.0)
    line.sent(1700, now=0.1)
    line.answered()
    assert line.expects_answer
    assert not line.may_send(now=0.2)
    line.answered()
    assert line.may_send(now=0.3)


@given(st.lists(st.one_of(st.integers(0, 6000), st.none()), max_size=40))
def test_a_line_that_may_not_be_sent_on_always_expects_an_answer(steps: list[int | None]) -> None:
    line = Pacing()
    for count in steps:
        if count is None:
            line.answered()
        else:
            line.sent(count, now=0.0)
        assert line.may_send(now=0.0) or line.expects_answer


def test_answers_that_never_come_are_taken_as_lost() -> None:
    line = Pacing()
    line.answered()
    line.sent(5000, now=0.0)
    line.sent(5000, now=0.1)
    assert not line.may_send(now=1.0)
    assert line.may_send(now=LOST_SECONDS + 1)
