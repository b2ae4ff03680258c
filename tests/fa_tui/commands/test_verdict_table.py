"""The verdict table on stdout, printed row by row."""

import json
import math
import re

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from fa_core.formats import load_audits
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import packed
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import to_markdown
from fa_core.reporting.form import reporting_form
from fa_core.sanitize import in_json
from fa_tui.commands import output
from fa_tui.commands.verdict_table import doubts_of, numbers, print_rows
from tests.fa_core.rows import row_of
from tests.fa_tui.odd_names import ODD_NAMES

USUAL = DiagnosticThresholds()


def _rows(count):
    return [
        row_of(
            f"run{number}",
            "a.json",
            method="method" * (1 + number % 7),
            seed=number,
            report=DiagnosticReport(
                residual_norms=[1.0, 3.0**number, 9.0**number],
                bp_grad_norms=[1e-3, 1e-5, 10.0 ** -(number % 9)],
            ),
        )
        for number in range(count)
    ]


def test_the_notes_of_a_report_that_was_saved_alone_are_printed_once(tmp_path, capsys):
    note = "outputs of norms, which set the scale: h_1"
    path = tmp_path / "r.json"
    DiagnosticReport("mine", note, [1.0, 2.0], [1e-3, 1e-3]).save(path)
    table = load_audits(path)
    print_rows([*table.rows()], "table", USUAL)
    assert capsys.readouterr().out.count(note) == 1
    assert to_markdown(reporting_form(table)).count(note) == 1


def test_a_table_too_wide_for_a_terminal_continues_below_and_lacks_nothing(capsys, monkeypatch):
    monkeypatch.setattr(output, "PIPE_WIDTH", 60)
    rows = _rows(20)
    print_rows(rows, "table", USUAL)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 60
    words = [text.split() for text in lines]
    for row in rows:
        for number in numbers(row):
            assert any(number in line for line in words)


def test_names_of_any_characters_go_on_below_themselves(capsys, monkeypatch):
    monkeypatch.setattr(output, "PIPE_WIDTH", 80)
    rows = _rows(len(ODD_NAMES))
    named = [replace(row, method=name) for row, name in zip(rows, ODD_NAMES, strict=True)]
    print_rows(named, "table", USUAL)
    lines = capsys.readouterr().out.splitlines()
    assert all(text.isprintable() and cell_len(text) <= 80 for text in lines)


@pytest.mark.parametrize("rows", [[], _rows(1), _rows(3)])
def test_rows_make_the_json_that_python_writes(rows, capsys):
    odd = [replace(row, source="a\u2028b\n.json") for row in rows]
    print_rows(odd, "json", USUAL)
    text = capsys.readouterr().out
    assert text == in_json(json.dumps(json.loads(text), indent=1, ensure_ascii=False)) + "\n"
    assert [each["source"] for each in json.loads(text)] == ["a\u2028b\n.json"] * len(rows)


@pytest.mark.parametrize(
    ("letter", "right", "remedy"),
    [
        ("c", packed([True] * 640), "more eval batches (`fa-tui audit --batches`) narrow it"),
        ("c", packed([True] * 130), "too few test samples to decide"),
        ("b", packed([True] * 640), "more eval batches (`fa-tui audit --norm-batches`) narrow it"),
        ("b", packed([True] * 20), "too few test samples to decide"),
        ("c", "x9:", "more eval batches (`fa-tui audit --batches`) narrow it"),
        ("c", None, "more eval batches (`fa-tui audit --batches`) narrow it"),
        ("d", packed([True] * 640), "too few test samples to decide"),
    ],
)
def test_what_narrows_an_interval_is_what_there_is_more_of(letter, right, remedy):
    report = DiagnosticReport(
        bp_grad_norms=(1e-7,),
        cross_batch_stability=0.3,
        headline_acc=0.5,
        frozen_baseline_acc=0.48,
        intervals={"g_L": (9e-8, 2e-7), "stability": (0.2, 0.4), "margin_pp": (1.0, 3.0)},
        batch_size=16,
        n_batches=8,
        norm_batches=1,
        right=right,
    )
    (line,) = [line for line in doubts_of(report) if line.startswith(f"({letter})")]
    assert line.endswith(f"; {remedy}")


def test_what_is_no_number_has_no_sign_and_what_is_infinite_has_one():
    report = DiagnosticReport(
        headline_acc=math.nan, frozen_baseline_acc=0.5, cross_batch_stability=math.inf
    )
    acc, _, _, drift, margin, _ = numbers(row_of("bp_s1", "a.json", report=report))
    assert (acc, drift, margin) == ("nan", "+inf", "nan")


def test_a_bar_or_a_tag_in_a_name_leaves_the_markdown_table_whole(capsys):
    row = row_of("x", "a.json", method="<i>a|b", report=DiagnosticReport(headline_acc=0.5))
    print_rows([row], "markdown", USUAL)
    heading, _, line, *_ = capsys.readouterr().out.splitlines()
    assert len(re.findall(r"(?<!\\)\|", line)) == heading.count("|")
    assert line.startswith(r"| &lt;i>a\|b |")
