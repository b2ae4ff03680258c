"""Reports: pasteable, self-contained, complete about what is missing, and nothing rounded in files."""

import csv
import io
import json
import math
import re
from base64 import b64decode
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from fa_core.analysis.claims import check_claims, read_claims
from fa_core.errors import UsageError
from fa_core.formats import load_audits
from fa_core.report.gamma import CREDIT
from fa_core.reporting.blocks import (
    Bullets,
    Figure,
    Grid,
    Heading,
    Paragraph,
    to_html,
    to_markdown,
)
from fa_core.reporting.figures import methods_figure, rescue_figure
from fa_core.reporting.form import NOT_DRAWN, Extras, reporting_form, write_report
from fa_core.reporting.panels import rendered
from fa_core.reporting.records import to_csv
from tests.fa_core.analysis.runs import row, seeds_of, table, trace

NAN = math.nan
TABLE = "audit_table_s42_s123_s456.json"
HOSTILE = {
    "no runs": [],
    "nothing measured": [row(), row("bp", None)],
    "one run": [row(growth=2.0)],
    "everything NaN": [row(**dict.fromkeys(("growth", "g_L", "cosine", "acc", "baseline"), NAN))],
    "infinite": [row(growth=math.inf, g_L=0.0), row("bp", growth=1e300, g_L=1e-300)],
    "odd names": [row("<b>&|", growth=2.0, source='a"b|c.json'), row("µ" * 60, growth=3.0)],
    "steering names": [row("a\x1b[31mb_s1", growth=2.0), row("x\x00\x1b[2J", growth=3.0)],
    "no norms": [row(cosine=0.1, acc=0.3)],
    "different parts": [row(growth=2.0), row("bp", g_L=1e-3)],
    "many runs": seeds_of("dfa", *range(1, 101), g_L=1e-3),
    "an odd axis": [row(seed=i, growth=2.0, axes={'a "b>](x': i}) for i in (1, 2)],
}
TRACES = [trace(growth=[9.0 * e for e in range(1, 9)], g_L=[1e-4] * 8, test_acc=[0.3] * 8)]


@pytest.fixture
def published(published_table):
    return load_audits([published_table])


class Balanced(HTMLParser):
    """Every opened tag is closed, in order; outside references are collected."""

    def __init__(self, html):
        super().__init__()
        self.open, self.references = [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.references += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "img", "link", "input", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def titles_of(blocks, level=(1, 2, 3)):
    return [one.text for one in blocks if isinstance(one, Heading) and one.level in level]


def grids_of(blocks):
    return [one for one in blocks if isinstance(one, Grid)]


def test_html_is_one_file_that_refers_to_nothing_outside(published):
    html = to_html(reporting_form(published, traces=TRACES))
    starts = [reference[:26] for reference in Balanced(html).references]
    assert starts == ["data:image/svg+xml;base64,"] * 2
    assert "<script" not in html and "url(" not in html and "@import" not in html


def test_the_form_has_every_part_a_paper_needs(published):
    assert titles_of(reporting_form(published, traces=TRACES)) == [
        "Four-diagnostic audit",
        f"Verdicts: {TABLE}",
        "Provenance",
        TABLE,
        "Over seeds",
        "Threshold sensitivity",
        "Decision utility",
        "Diagnostics per layer",
        "Margin to flip and backward gain",
        "Credit quality",
        "Timeline",
        "Notes on runs",
        "Pitfalls disclosure",
    ]


def test_markdown_tables_are_pasteable(published):
    text = to_markdown(reporting_form(published))
    for block in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        lines = block.splitlines()
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(columns) == 1
        assert set(lines[1]) <= set("|-: ")
    assert "| dfa_s42 |" in text
    assert "63.357×" in text and "24,338×" in text and "| overlap |" in text


def test_different_files_are_reported_apart(published_table, published_cnn):
    names = [published_table.name, published_cnn.name]
    titles = titles_of(reporting_form(load_audits([published_table, published_cnn])), [2])
    verdicts = [f"Verdicts: {name}" for name in names]
    assert titles == [*verdicts, "Provenance", *names, "Notes on runs", "Pitfalls disclosure"]


@pytest.mark.parametrize("name", HOSTILE)
def test_reports_of_hostile_tables_never_crash_and_stay_well_formed(name):
    runs = table(*HOSTILE[name])
    blocks = reporting_form(runs, traces=TRACES)
    page = Balanced(to_html(blocks))
    assert to_markdown(blocks)
    for block in grids_of(blocks):
        assert {len(cells) for cells in block.rows} <= {len(block.headings)}
    assert len(list(csv.reader(io.StringIO(to_csv(runs))))) == len(runs) + 1
    # the figures of the report, and those that it leaves out
    svgs = [b64decode(reference.partition(",")[2]) for reference in page.references]
    assert len(svgs) == len({block.name for block in blocks if isinstance(block, Figure)})
    svgs += [rendered(methods_figure(runs)), rendered(rescue_figure(runs))]
    for svg in svgs:
        ElementTree.fromstring(svg)
        words = re.sub(r"<!--.*?-->", "", svg.decode(), flags=re.S)
        assert not re.search(r"\bnan\b", words.lower())


def test_words_from_files_cannot_become_markup():
    words = [
        r"[d](http://e)",
        r"![f](data:image/svg+xml;base64,AAAA)",
        "<script>x</script>",
        "1. h",
    ]
    grid = Grid(("run",), tuple((name,) for name in words))
    html = to_html([Heading("<i>t</i>", 1), *map(Paragraph, words), grid])
    assert {name for name in words if html.count(f">{escape(name)}</") != 2} == set()
    assert Balanced(html).references == [] and "<i>" not in html


NAMES = [
    r"[x](javascript:alert(1))",
    r"[i](http://x/y.png)",
    r"[x][y]",
    r"[x]: http://y",
    r"`a` **b** _c_ ~~d~~ a_b",
    r"http://x.y www.x.y a@x.y",
    r"a\|b \* \\",
    r"<b>&lt;",
    r"$a$ @user #1",
    r"[ ] x",
    r"# x",
    r"> x",
    r"- x",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_markdown_is_text(name):
    grid = Grid(("run",), ((name,),), caption=name)
    text = to_markdown([Heading(name), Paragraph(name), Bullets((name,)), grid])
    parser = MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"])
    inline = [token for token in parser.parse(text) if token.type == "inline"]
    parts = [token.children for token in inline if token.content != "run"]
    assert ["".join(part.content for part in one) for one in parts] == [name] * 5
    kinds = {part.type for one in parts for part in one}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}
    assert not re.search(r"(?<!\\)(://|[$@]|#\d)|www\.", text), (
        "what becomes a link, or mathematics"
    )
    assert "- [ ]" not in text


def test_csv_holds_every_digit(published):
    rows = list(csv.DictReader(io.StringIO(to_csv(published))))
    assert len(rows) == 15
    assert [float(r["g_L"]) for r in rows] == published.g_L.tolist()
    assert [float(r["max_per_block_growth"]) for r in rows] == published.growth.tolist()
    assert rows[0]["margin_pp"] == ""
    assert json.loads(rows[0]["residual_norms"]) == published.report(0).residual_norms


def test_markdown_links_the_figures_beside_it(published, tmp_path):
    report, *figures = write_report(tmp_path / "my report.md", published)
    assert [figure.name for figure in figures] == ["my report-methods-1.svg"]
    for figure in figures:
        assert f"(<{figure.name.replace(' ', '%20')}>)" in report.read_text()
        ElementTree.fromstring(figure.read_text())
        figure.unlink()
        figure.mkdir()
    report.unlink()
    with pytest.raises(UsageError):
        write_report(report, published)
    assert not report.exists()


@pytest.mark.parametrize(
    ("files", "methods", "drawn", "rest"),
    [(8, 2, 8, 0), (12, 2, 8, 1), (3, 35, 2, 1), (1, 81, 0, 1)],
)
def test_the_figures_of_all_files_together_have_a_limit_and_the_rest_is_said(
    files, methods, drawn, rest
):
    runs = [
        row(f"m{method}", 1, growth=2.0, source=f"{file}/audit.json")
        for file in range(files)
        for method in range(methods)
    ]
    blocks = reporting_form(table(*runs))
    assert sum(isinstance(block, Figure) for block in blocks) == drawn
    assert blocks.count(Paragraph(NOT_DRAWN)) == rest


@pytest.mark.parametrize(
    ("file", "figure", "says"),
    [
        ("report.docx", "methods", r"\.tex, \.md, \.html, \.svg, \.pdf, \.png or \.csv"),
        ("x.svg", "rescue", r"no figure 'rescue' of these runs; there are: methods$"),
    ],
)
def test_what_cannot_be_written_is_refused_with_what_there_is(
    file, figure, says, published, tmp_path
):
    with pytest.raises(UsageError, match=says):
        write_report(tmp_path / file, published, figure=figure)
    assert list(tmp_path.iterdir()) == []


def test_the_credit_of_a_run_is_in_csv_with_every_digit():
    null = {"deep_gamma_mean": 0.02}
    credit = {"gamma": [0.7, 0.1, 0.2], "nudge": [0, -1 / 3, -1 / 3], "null": null}
    runs = table(row("dfa", 1, acc=0.5, credit=credit), row("bp", 2, acc=0.5))
    first, second = csv.DictReader(io.StringIO(to_csv(runs)))
    found = [float(first[name]) if first[name] else None for name in CREDIT]
    assert found == [
        pytest.approx(1 / 3),
        pytest.approx(0.15),
        0.02,
        None,
        -1 / 3,
    ]
    assert not any(second[name] for name in CREDIT)


def test_the_card_is_the_first_page_with_claims_hashes_and_the_command_that_verifies(
    sample_runs, tmp_path
):
    runs = load_audits([sample_runs / "wide"])
    claims = check_claims(read_claims(sample_runs / "claims.toml"), list(runs.rows()))
    for ending in ("md", "html"):
        extras = Extras(card=True, claims=claims)
        (path,) = write_report(tmp_path / f"card.{ending}", runs, extras=extras)
        text = path.read_text()
        assert "DFA does not beat frozen blocks by 2 points" in text
        assert "sha256:" in text and "fa-tui verify " in text and "Pitfalls" not in text
    whole = to_markdown(reporting_form(runs, extras=extras))
    assert whole.startswith((tmp_path / "card.md").read_text().rstrip())
    with pytest.raises(UsageError, match=r"\.md or \.html"):
        write_report(tmp_path / "card.svg", runs, extras=extras)


def test_a_run_without_weights_cannot_be_measured_again():
    assert "cannot be measured again" in to_markdown(reporting_form(table(row(growth=2.0))))


def test_a_written_report_gives_no_hint_for_the_command_line():
    hint = "(d) not measured on any run (give a baseline with --frozen-baseline)"
    text = to_markdown([Bullets((hint, "kept (as --x says)"))])
    assert text == "- (d) not measured on any run\n- kept (as --x says)\n"
