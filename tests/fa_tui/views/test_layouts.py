"""Orders of the long view, labels in less room, the words of the top line."""

import math

from msgspec.structs import replace

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.columns import every_column, ordered
from fa_tui.views.filters import Filter
from fa_tui.views.words import (
    flip_text,
    title_pieces,
    walk_back_words,
)
from fa_tui.widgets.line import Title
from fa_tui.widgets.painted import row_text
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import stepped

GRID = [
    f"{method} L={depth} arch={arch} λ={lam}"
    for method in ("bp", "credit_bridge")
    for depth in (4, 12)
    for arch in ("resmlp", "vit")
    for lam in ("0", "0.001")
]


def test_every_column_can_be_sorted_by_in_both_directions(session):
    for column in every_column(session):
        rising, falling = (ordered(session, range(15), sign + column.name) for sign in ("", "-"))
        assert sorted(rising) == sorted(falling) == list(range(15))
        keys = [column.key(session, row) for row in rising if column.key(session, row) is not None]
        assert keys == sorted(keys), column.name


def test_seeds_are_sorted_as_numbers_and_what_is_not_measured_or_nan_goes_last_both_ways():
    numbers = [DiagnosticReport(cross_batch_stability=value) for value in (0.5, math.nan, 0.1)]
    rows = [
        row_of("bp", "a", seed=seed, report=report)
        for seed, report in zip((1000, 7, None), numbers, strict=True)
    ]
    session = Session(rows)
    assert ordered(session, range(3), "seed") == [1, 0, 2]
    assert ordered(session, range(3), "drift") == [2, 0, 1]
    assert ordered(session, range(3), "-drift") == [0, 2, 1]


def test_what_is_open_gives_way_to_what_the_top_line_tells(session):
    session = session.but(filter=Filter("method:ep"))
    pieces = title_pieces(session, "by growth ↓", 80, "data/" + "p" * 90 + ".json")
    [row] = Title(*pieces).draw(80, 1)
    assert row_text(row) == (
        " data/ppppppppppp…pppppppppppp.json: filter method:ep, 3 of 15 runs  by growth ↓"
    )


def test_the_count_is_of_the_scope_without_controls(session):
    assert walk_back_words(session) == "9 of 15 need walk-back"
    session = session.but(filter=Filter("method:bp,dfa"))
    assert walk_back_words(session) == "3 of 6 need walk-back"
    more = [row_of(name) for name in ("fa", "frozen", "shallow", "random_init")]
    assert walk_back_words(Session(more)) == "0 of 0 need walk-back, 1 not measured, 3 controls"


def test_of_flips_only_those_in_scope_are_reported(session):
    limits = DiagnosticThresholds(h_norm_explosion_ratio=6.1)
    session = session.but(filter=Filter("method:bp"))
    assert not stepped(session, thresholds=limits).flips
    session = session.but(filter=Filter("method:bp,ep"))
    back = stepped(session.but(thresholds=limits), thresholds=session.thresholds)
    assert flip_text(back) == "−a → ✓ ep s123, −a → ✓ ep s456"


def test_a_name_that_several_sources_share_is_followed_by_its_source(session):
    twice = Session(
        [replace(row, source=source) for source in ("a.json", "b.json") for row in session.rows]
    )
    limits = DiagnosticThresholds(h_norm_explosion_ratio=10)
    both = stepped(twice, thresholds=limits)
    assert flip_text(both) == "+a → ✗ ep s123 (a.json), +a → ✗ ep s123 (b.json)"
    one = stepped(twice.but(filter=Filter("source:a.json")), thresholds=limits)
    assert flip_text(one) == "+a → ✗ ep s123"
