"""The long view's columns: as wide as they need to be."""

from fa_tui.session import Runs
from fa_tui.views.columns import columns_of
from tests.fa_core.rows import row_of


def _widths(*names):
    rows = [row_of(key, source, method="bp", seed=seed) for seed, (source, key) in enumerate(names)]
    widths = {column.name: column.width for column in columns_of(Runs(rows))}
    return widths["key"], widths["source"]


def test_names_of_runs_and_files_take_what_the_longest_takes():
    assert _widths(("a.json", "bp_s1"), ("runs/b.json", "bp_s12345")) == (9 + 2, 11 + 2)


def test_a_heading_with_its_arrow_fits_above_short_names_and_long_ones_are_cut():
    assert _widths(("a", "b")) == (7 + 2, 7 + 2)
    assert _widths(("a" * 99, "b" * 99)) == (24 + 2, 32 + 2)


def test_without_runs_there_are_columns_still():
    assert _widths() == (7 + 2, 7 + 2)
