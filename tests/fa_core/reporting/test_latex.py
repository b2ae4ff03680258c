"""LaTeX: every table fits a page, nothing of a file is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.formats import load_audits
from fa_core.reporting.blocks import Grid
from fa_core.reporting.form import write_report
from fa_core.reporting.latex import WIDE, spelled, to_latex


def test_the_tables_of_a_paper_are_the_verdicts_and_the_seeds(
    published_table: Path, tmp_path: Path
) -> None:
    (path,) = write_report(tmp_path / "tables.tex", load_audits([published_table]))
    text = path.read_text()
    assert text.isascii() and text.count("\\begin{table}") == text.count("\\end{table}") == 2
    assert text.count("\\toprule") == text.count("\\midrule") == text.count("\\bottomrule")
    assert re.search(
        r"^dfa\\_s42 & \$\\times\$ab-d & walk-back: \(a\), \(b\), \(d\) & 0\.3107",
        text,
        re.MULTILINE,
    )
    assert re.search(
        r"^dfa & walk-back & a 3/3, b 3/3, c 1/3, d 3/3 & c & 0\.3057 \$\\pm\$ 0\.0078",
        text,
        re.MULTILINE,
    )
    for found in re.findall(
        r"\\begin{tabular}{@{}([lr]+)@{}}\n(.*?)\\end{tabular}", text, re.DOTALL
    ):
        kinds, lines = found
        assert all(
            line.count(" & ") == len(kinds) - 1
            for line in lines.splitlines()
            if line.endswith(r"\\")
        )


def test_a_wide_table_goes_on_below_and_a_long_one_on_the_next_page() -> None:
    grid = Grid(
        headings=("run", *("x" * 20 for _ in range(8))),
        rows=tuple((f"r{i}", *["1"] * 8) for i in range(50)),
    )
    text = to_latex([grid])
    assert text.count("\\begin{table}") == 2 and text.count("\\begin{tabular}") == 2 * -(
        -8 * 22 // (WIDE - 3)
    )
    assert all(text.count(f"\nr{i} &") == text.count("\\begin{tabular}") // 2 for i in range(50))


@pytest.mark.parametrize(
    ("words", "latex"),
    [
        ("1.278e4×", r"$1.278\times10^{4}$$\times$"),
        ("✓---·", r"$\surd$-{}-{}-$\cdot$"),
        ("lam1e-3_s42", r"lam1e-3\_s42"),
        ("-14.4 ± 3.9", r"$-14.4$ $\pm$ 3.9"),
        ("a\\b{c}$d$", r"a\textbackslash{}b\{c\}\$d\$"),
    ],
)
def test_numbers_are_mathematics_and_names_are_words(words: str, latex: str) -> None:
    assert spelled(words) == latex


@given(st.text())
def test_no_word_opens_a_group_or_starts_a_command(words: str) -> None:
    plain = re.sub(r"\\(?:[a-z]+(?:\{\})?|[&%$#_{}|])", "", spelled(words))
    assert (
        "\\" not in plain and plain.count("{") == plain.count("}") and not set("#%&") & set(plain)
    )
