"""Where runs lie on the matrix: nothing is hidden behind anything."""

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.grid import build_grid, homes_of
from tests.fa_core.rows import row_of


def row(method, seed, source="a.json", **axes):
    return row_of(method, source, seed=seed, axes=axes)


def whole_grid(rows):
    return build_grid(rows, range(len(rows)))


def test_one_source_needs_no_heading_and_two_get_one_each():
    assert [line.is_heading for line in whole_grid([row("bp", 1)]).lines] == [False]
    two = whole_grid(
        [
            row("bp", 1, "x/one.json"),
            row("bp", 2, "x/one.json"),
            row("bp", 1, "y/b"),
            row("bp", 2, "y/c"),
        ]
    )
    assert [line.label for line in two.lines if line.is_heading] == ["one.json", "y"]


def test_a_filter_lays_out_only_what_it_lets_through():
    grid = build_grid([row("bp", 1), row("dfa", 2)], [1])
    assert (grid.columns, [line.label for line in grid.lines]) == (["s2"], ["dfa"])


def test_a_filter_renames_no_heading():
    table = "runs/table.json"
    found = [
        row("bp", 1, table),
        row("bp", 2, table),
        row("dfa", 1, "runs/main/dfa_s1"),
        row("dfa", 2, "x/dfa_s2"),
    ]
    for shown in (range(4), [0, 2], [1, 3], [0, 2, 3]):
        headings = [line.label for line in build_grid(found, shown).lines if line.is_heading]
        assert headings == [home for home in ("table.json", "runs/main", "x") if home in headings]
        assert len(headings) == min(3, len(shown))


def test_an_axis_of_one_value_stands_in_the_heading_only():
    grid = whole_grid(
        [row("bp", 1, "x/a", d=64), row("dfa", 1, "x/b", d=64, lam=0.01), row("bp", 1, "y/c", d=64)]
    )
    assert [line.label for line in grid.lines] == ["x  d=64", "bp", "dfa λ=0.01", "y  d=64", "bp"]


def test_a_thousand_sources_are_named_by_as_little_as_tells_them_apart():
    paths = [f"/data/{group}/run_{number}/x" for group in "ab" for number in range(500)]
    names = homes_of(paths)
    assert names[0] == "a/run_0"
    assert names[999] == "b/run_499"
    assert len(set(names)) == 1000


def test_ten_thousand_runs_that_nothing_tells_apart_are_numbered_in_no_time():
    grid = whole_grid([row("bp", None) for _ in range(10_000)])
    assert [line.label for line in grid.lines[:3]] == ["bp", "bp #2", "bp #3"]
    assert len(grid.lines) == 10_000
    assert grid.places[9_999] == (9_999, 0)


@given(st.lists(st.tuples(st.sampled_from(["bp", "dfa"]), st.one_of(st.none(), st.integers(0, 4)))))
def test_every_run_has_a_cell_of_its_own_in_the_column_of_its_seed(runs):
    grid = whole_grid([row(method, seed) for method, seed in runs])
    assert sorted(grid.places) == list(range(len(runs)))
    for index, (method, seed) in enumerate(runs):
        line, column = grid.places[index]
        assert grid.lines[line].cells[column] == index
        assert grid.lines[line].label.split(" #")[0] == method
        assert grid.columns[column] == ("no seed" if seed is None else f"s{seed}")
