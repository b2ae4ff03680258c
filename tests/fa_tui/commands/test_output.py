"""Tables on terminals of any width."""

from rich.console import Console

from fa_core.reporting.blocks import Bullets, Figure, Grid, Heading, Paragraph
from fa_tui.commands import output
from tests.fa_tui.odd_names import LONG

GRID = Grid(
    headings=("run", "first", "second"),
    rows=(("dfa_s42", "x" * 40, "y" * 40), ("bp_s42", "1", "2")),
)


def test_a_pipe_gets_every_column_side_by_side(capsys):
    output.print_blocks(
        [Heading("Title"), Paragraph("Words."), GRID, Bullets(("note",)), Figure("f", object, "c")]
    )
    printed = capsys.readouterr().out
    assert "Title" in printed and "Words." in printed and "- note" in printed
    assert "object" not in printed
    row = next(line for line in printed.splitlines() if "dfa_s42" in line)
    assert "x" * 40 in row and "y" * 40 in row


def test_words_in_brackets_are_not_taken_for_markup(capsys):
    output.print_blocks([Grid(headings=("[bold]",), rows=(("[/red]",),)), Bullets(("[x]",))])
    printed = capsys.readouterr().out
    assert "[bold]" in printed and "[/red]" in printed and "[x]" in printed


def test_a_long_name_goes_on_below_itself_and_leaves_room(capsys, monkeypatch):
    monkeypatch.setattr(
        "rich.console.Console", lambda **options: Console(**{**options, "width": 80})
    )
    output.print_blocks(
        [Grid(headings=("method", "first", "second"), rows=((LONG, "1.5", "2.5"),), words=1)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert "first  second" in lines[0] and lines[2].split()[1:] == ["1.5", "2.5"]
    assert "".join(line.split()[0] for line in lines[2:]) == LONG
