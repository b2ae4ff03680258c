"""Names from files in every output: nothing steers a terminal, is computed by a spreadsheet, or is markup of a page."""

import csv
import io
import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fa_tui.cli import main
from tests.json_files import put_json

CONTROLS = [
    f"a{chr(code)}b"
    for code in (*range(1, 9), 0xB, 0xC, 0xD, 0xE, 0x1B, 0x7F, 0x80, 0x85, 0x9B, 0x9D)
]
SEQUENCES = [
    *(
        "\x1b[2J\x1b[H",
        "\x1b]0;title\x07",
        "\x1b]52;c;aGk=\x07",
        "\x1b[?1003h",
        "\x1b[6n",
        "\x1bP+q\x1b\\",
        "\x9b2J",
    ),
    *(
        "\x1b]8;;http://x\x07link\x1b]8;;\x07",
        "\x1bc",
        "a\rb",
        "\x07",
        "\x1b(0",
        "\x1b[31mred",
        "a\x08\x08b",
        "\x1b_x\x1b\\",
    ),
]
TURNING = ["abc\u202edcba", "\u2066x\u2069", "a\u2028b", "a\u2029b", "x\u202a\u202b", "\u202dy"]
FORMULAS = [
    "=1+1",
    "+cmd|'/c calc'!A1",
    "-2+3",
    "@SUM(A1)",
    '=HYPERLINK("http://x","y")',
    "＝cmd|x",
]
MARKUP = [
    *(
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '"><svg onload=x>',
        "</title><b>",
        "&lt;b&gt;",
        "]]>",
    ),
    *(
        "[x](javascript:alert(1))",
        "![i](http://x/y.png)",
        "`a` | b | c",
        "<!-- -->",
        "<?xml?>",
        "</svg><script>",
    ),
]
OTHERS = [
    "$\\frac{$",
    "%s %d {0}",
    "\ud800half",
    "[bold red]rich[/]",
    "a\nb\tc",
    "::error::x",
    "##[error]x",
]
NAMES = [*CONTROLS, *SEQUENCES, *TURNING, *FORMULAS, *MARKUP, *OTHERS]

STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|^\\s*::|##\\[",
    re.MULTILINE,
)
FOLDERS = [
    b"dfa\xff",
    b"a\n::error::x",
    b"::error file=a::x",
    b"ep\x1b]52;c;aGk=\x07",
    b"\xc2\x9b2J",
]


FORMS = [
    *(["show", "--format", form] for form in ("table", "json", "csv", "markdown")),
    *([command, "--format", form] for command in ("seeds", "sweep") for form in ("table", "json")),
    *(
        ["check", "--h-norm-explosion-ratio", "1", "--format", form]
        for form in ("text", "json", "junit")
    ),
    ["utility"],
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Every name as a method's, a key, a note, a tap, an axis and a recorded verdict."""
    reports = {}
    for number, name in enumerate(NAMES):
        reports[f"{name}_s{number}"] = {
            "method_name": name,
            "notes": name,
            "residual_norms": [1.0, 2.0],
            "bp_grad_norms": [1.0, 2.0],
            "headline_acc": 0.5,
            "frozen_baseline_acc": 0.3,
            "verdict": name,
            "tap_names": [name],
            "dtype": name,
            "axes": {"arch": name},
            "unmeasured": {"c": name},
            "provenance": {"checkpoint": name, "device": name, "data_hash": "x", name: name},
            "credit": {"missing": {name: name}},
        }
    path = tmp_path_factory.mktemp("names") / "names.json"
    return put_json(path, {"reports": reports})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Run folders whose names are no UTF-8, no single line or a command of a runner."""
    place = tmp_path_factory.mktemp("folders")
    run = Path(__file__).parents[3] / "sample_runs" / "main" / "bp_s42"
    for name in FOLDERS:
        shutil.copytree(run, place / os.fsdecode(name))
    return place


@pytest.mark.parametrize("words", FORMS, ids=" ".join)
@pytest.mark.parametrize("of", ["table", "folders"])
def test_no_command_prints_what_steers_a_terminal_or_a_runner(words, of, request, capsys):
    main([words[0], str(request.getfixturevalue(of)), *words[1:]])
    said = capsys.readouterr()
    assert said.out and STEERING.findall(said.out + said.err) == []


def test_no_cell_is_computed_by_a_spreadsheet(table, tmp_path):
    assert main(["report", str(table), "--out", str(tmp_path / "out.csv")]) == 0
    text = (tmp_path / "out.csv").read_text()
    assert STEERING.findall(text) == []
    for row in list(csv.reader(io.StringIO(text)))[1:]:
        for cell in row:
            assert cell[:1] not in tuple("=＝+@＠\t\r")
            assert cell[:1] != "-" or float(cell) < 0


@pytest.mark.parametrize(
    ("of", "kind"),
    [*(("table", kind) for kind in (".md", ".html", ".tex")), ("folders", ".md")],
)
def test_no_report_holds_what_steers_or_markup_of_a_files_own(of, kind, request, tmp_path):
    out = tmp_path / f"out{kind}"
    assert main(["report", str(request.getfixturevalue(of)), "--out", str(out)]) == 0
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert STEERING.findall(text) == []
        if path.suffix == ".svg":
            names = (element.tag for element in ElementTree.fromstring(text).iter())
            assert not any(name.endswith("script") for name in names)
        if kind == ".html":
            assert not re.search(
                r"<script|<img[^>]+onerror|<svg[^>]+onload|href=.javascript|src=.http", text
            )
