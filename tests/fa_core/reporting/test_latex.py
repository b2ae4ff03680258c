"""LaTeX: every table fits a page, nothing of a file is markup."""

import re
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.formats import load_audits
from fa_core.formats.table import AuditTable
from fa_core.reporting.form import write_report
from fa_core.reporting.paper_table import spelled
from tests.fa_core.analysis.runs import row, table


def test_the_table_of_a_paper_is_one_of_methods_over_their_seeds(published_table, tmp_path):
    (path,) = write_report(tmp_path / "tables.tex", load_audits([published_table]))
    text = path.read_text()
    assert text.isascii() and text.count("\\begin{table}") == text.count("\\end{table}") == 1
    assert "\\label{tab:audit-table-s42-s123-s456}" in text
    assert "walk-back" not in text and "trustworthy" not in text
    rows = dict(re.findall(r"^([\w ]+?) & (.*) \\\\$", text, re.MULTILINE))
    assert rows["BP"] == (
        r" & abc & \num{0.615(4)} & \num{0.97} & \num{3.6e-4} & \num{0.10(1)} & "
    ), "(d) was not measured: the cell is empty"
    dfa = rows["DFA"].split(" & ")
    assert dfa[0] == "abc$_{1}$d", "(c) fires on one seed of three"
    assert dfa[1] == "abcd"
    assert dfa[3:] == [
        r"\textbf{\num{1.7e3}}",
        r"\textbf{\num{2.8e-9}}",
        r"\num{0.2(2)}",
        r"\textbf{\num{-4.3(8)}}",
    ]


def test_a_column_that_no_run_has_is_absent(published_cnn, tmp_path):
    (path,) = write_report(tmp_path / "tables.tex", load_audits([published_cnn]))
    heading = next(line for line in path.read_text().splitlines() if line.startswith("method &"))
    assert heading == r"method & fires & measured & acc & growth & $\|g_{L}\|$ \\"


def test_what_is_not_exact_not_finite_or_not_measured_is_said(tmp_path):
    bound = {"growth_bound": 82.0, "evidence": {"a": "bound"}}
    runs = table(row("dfa", acc=0.3, **bound), row("bp", growth=float("nan")), row("ep"))
    (path,) = write_report(tmp_path / "tables.tex", runs)
    text = path.read_text()
    assert r"\textbf{$\ge$\num{82}}" in text and "a lower bound" in text
    assert r"\textbf{NaN/inf}" in text and "% 1 unmeasured run left out" in text


def test_what_was_measured_on_some_seeds_has_their_number_and_is_not_bold(tmp_path):
    margin = {"acc": 0.3, "baseline": 0.4, "growth": 82.0}
    runs = table(row(seed=1, **margin), row(seed=2, growth=82.0), row(seed=3, growth=82.0))
    (path,) = write_report(tmp_path / "tables.tex", runs)
    (dfa,) = (line for line in path.read_text().splitlines() if line.startswith("DFA & "))
    assert dfa == (
        r"DFA & ad$_{1}$ & ad$_{1}$ & \num{0.300}$_{1}$ & \textbf{\num{82}} "
        r"& \num{-10.0}$_{1}$ \\"
    )


def test_what_a_mean_mixes_is_said_in_the_caption_and_above_the_table(tmp_path):
    one = row("dfa", seed=1, growth=2.0, batch_size=128)
    runs = AuditTable.from_rows([one, replace(one, report=replace(one.report, batch_size=64))])
    (path,) = write_report(tmp_path / "tables.tex", runs)
    text = path.read_text()
    (caption,) = (line for line in text.splitlines() if line.startswith("\\caption"))
    for mixed in ("B is not the same in all runs: 128 (1 run), 64", "seed 1 more than once: are"):
        assert mixed in caption
        assert mixed in text.partition("\\begin{table}")[0]


def test_tables_of_one_run_and_a_control_each_stay_two_tables(tmp_path):
    runs = []
    for place in ("july.json", "august.json"):
        runs += [replace(row(name, growth=2.0), source=place) for name in ("dfa", "frozen")]
    (path,) = write_report(tmp_path / "tables.tex", AuditTable.from_rows(runs))
    text = path.read_text()
    assert text.count("\\label{tab:july}") == text.count("\\label{tab:august}") == 1


@pytest.mark.parametrize("method", ["[9pt]x", "*x", " [x"])
def test_a_name_is_no_argument_of_the_line_before(method, tmp_path):
    (path,) = write_report(
        tmp_path / "tables.tex", table(row(method, growth=2.0), row("bp", growth=2.0))
    )
    rows = path.read_text().partition("\\midrule\n")[2].splitlines()
    assert rows[0].startswith("{}" + method) and rows[1].startswith("BP & ")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
@pytest.mark.parametrize("name", ["audit_table_s42_s123_s456.json", "audit_cnn_3seed.json"])
def test_a_table_compiles_and_fits_a_column(name, sample_runs, tmp_path):
    write_report(tmp_path / "tables.tex", load_audits([sample_runs / name]))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass[twocolumn]{article}\usepackage[utf8]{inputenc}"
        r"\usepackage{booktabs,siunitx}\setlength{\textwidth}{6.75in}\setlength{\columnsep}{.25in}"
        r"\begin{document}\input{tables}\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    log = (tmp_path / "paper.log").read_text(errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in log and "Float too large" not in log


@pytest.mark.parametrize(
    ("words", "latex"),
    [
        ("✓---·", r"$\surd$-{}-{}-$\cdot$"),
        ("lam1e-3_s42", r"lam1e-3\_s42"),
        ("a\\b{c}$d$", r"a\textbackslash{}b\{c\}\$d\$"),
    ],
)
def test_numbers_are_mathematics_and_names_are_words(words, latex):
    assert spelled(words) == latex


@given(st.text())
def test_no_word_opens_a_group_or_starts_a_command(words):
    plain = re.sub(r"\\(?:[A-Za-z]+(?:\{\})?|[&%$#_{}|])", "", spelled(words))
    assert (
        "\\" not in plain and plain.count("{") == plain.count("}") and not set("#%&") & set(plain)
    )
