"""What the options of `open` and `show` do to the first view."""

import pytest

from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.terminal import abilities
from fa_tui.views.filters import Filter, picking
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import running, screen_text, settled
from tests.fa_tui.printing import printed, refusal


async def test_the_long_view_opens_sorted_and_filtered_with_the_focus_on_it(
    published_table, started
):
    words = [str(published_table), "--filter", "flag:a", "--sort", "-growth"]
    assert main(words) == 0
    (app,) = started
    async with running(app) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "filter flag:a, 9 of 15 runs" in text and "by growth ↓" in text
        assert app.focused is app.explorer.page.view
        growths = [
            app.session.rows[row].report.max_per_block_growth
            for row in app.explorer.page.view._shown
        ]
        assert growths == sorted(growths, reverse=True)
        await pilot.press("t")
        await pilot.pause()
        assert app.explorer.page.view is app.explorer.matrix
        assert app.focused is app.explorer.matrix


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--show", "growht"], "--show growht is not known; did you mean growth?"),
        (["--filter", "flog:a"], "--filter: flog is not known; did you mean flag?"),
        (
            ["--sort", "-growht"],
            "--sort growht is not known; did you mean growth?",
        ),
    ],
)
def test_a_look_that_cannot_be_is_one_line(
    published_table, monkeypatch, capsys, options, says, terminal
):
    monkeypatch.setattr(abilities, "on_a_terminal", lambda: terminal)
    assert refusal(capsys, published_table, *options).startswith(f"fa-tui: {says}")


def test_without_a_terminal_it_prints_what_show_prints_of_the_same_runs_in_the_same_order(
    published_table, capsys
):
    look = ["--filter", "flag:a -method:bridge", "--sort", "-growth"]
    found = []
    for command in ("open", "show"):
        found.append(printed(capsys, command, published_table, *look))
    assert found[0] == found[1]
    assert [line.split()[:2] for line in found[0].splitlines()[2:5]] == [
        ["dfa", "456"],
        ["dfa", "42"],
        ["dfa", "123"],
    ]


def test_the_value_of_an_option_is_no_misspelt_command(published_table):
    assert main(["open", "--filter", "seeds", str(published_table)]) == 0


def test_runs_of_one_name_in_several_files_are_picked_each_by_itself():
    rows = [row_of(f"dfa_s{seed}", source) for source in ("a.json", "b.json") for seed in (1, 2)]
    session = Session(rows)
    for wanted in ([0], [0, 3], [1, 2], [0, 1, 2], [0, 2]):
        assert Filter(picking(rows, wanted)).rows(session) == wanted
