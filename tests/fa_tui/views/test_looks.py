"""One look per seed, and labels at the ends of curves."""

from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.looks import SeedLooks, end_labels
from tests.fa_core.rows import row_of


def _row(method, seed):
    return row_of(method, "x", seed=seed)


def test_a_seed_has_one_look_whatever_is_drawn_with_it():
    rows = [_row("dfa", 456), _row("dfa", 42), _row("bp", 123), _row("bp", 42)]
    looks = SeedLooks(rows, UNICODE)
    assert [look.mark for look in looks.drawn(rows)] == ["△", "○", "□", "○"]
    assert looks.drawn(rows[2:3]) == [looks.of(rows[2])]


def test_seeds_of_other_runs_follow_and_change_no_look():
    rows = [_row("dfa", 2), _row("dfa", 3)]
    other = _row("dfa", 1)
    looks = SeedLooks(rows, UNICODE, [other])
    assert [look.mark for look in looks.drawn([*rows, other])] == ["○", "□", "△"]


def test_runs_without_a_seed_have_looks_that_no_seed_has():
    rows = [_row("a", None), _row("b", 7), _row("c", None)]
    looks = SeedLooks(rows, ASCII)
    assert [look.mark for look in looks.drawn(rows)] == ["B", "A", "C"]
    assert looks.of(rows[0]) is None


def test_ascii_marks_differ_without_colours():
    rows = [_row("a", seed) for seed in range(26)]
    marks = {look.mark for look in SeedLooks(rows, ASCII).drawn(rows)}
    assert len(marks) == 26
    assert "".join(marks).isascii()


def test_labels_name_what_marks_do_not_tell_apart():
    rows = [_row("bp", 42), _row("dfa", 42)]
    looks = SeedLooks(rows, UNICODE).drawn(rows)
    assert end_labels(rows, looks, ["bp s42 d=64", "dfa s42 d=64"]) == ["bp ○", "dfa ○"]
    two = [_row("dfa", 1), _row("dfa", 2)]
    assert end_labels(two, SeedLooks(two, UNICODE).drawn(two), ["dfa s1", "dfa s2"]) == ["○", "□"]
