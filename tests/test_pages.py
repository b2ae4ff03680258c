"""The tutorial and the how-to pages run as printed; commands, options and links of all pages exist."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from fa_tui import typer_app
from fa_tui.cli import COMMANDS, main
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
TUTORIAL = [DOCS / "tutorial.md", DOCS / "tutorial-paper.md"]
HOW_TO = sorted(DOCS.glob("howto/*.md"))
RUN = [*TUTORIAL, *HOW_TO]
GENERATED = [DOCS / "atlas.md", DOCS / "cifar.md"]
"""Tables of results with longer lines; atlas.md is written by sample_runs/readme.py."""
LONG = [*GENERATED, DOCS / "performance.md"]
"""Tables of results."""
PAGES = sorted([*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md")])
READ = [page for page in PAGES if page not in GENERATED]
BLOCK = re.compile(
    r"(?:<!-- (?P<comment>[^>]*) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```", re.M | re.S
)
GLOBAL = {"--help", "--version", "--debug", "--strict-json"}
"""What every command takes, before it is looked at."""
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page):
    return page.read_text(encoding="utf-8")


class Block(NamedTuple):
    """A code block of a page."""

    language: str
    text: str
    runs: bool


def blocks(page):
    for found in BLOCK.finditer(text_of(page)):
        runs = not (found["comment"] or "").startswith("not run: ")
        yield Block(found["language"], found["text"], runs)


def commands(text):
    """The words of every command line of a shell block that starts fa-tui or python."""
    for line in text.replace("\\\n", " ").splitlines():
        if re.match(r"(\S+/)?(fa-tui|python) ", line):
            yield shlex.split(line, comments=True)


def words(text):
    """Words of an output: numbers depend on the versions of libraries."""
    return set(re.findall(r"(?<![\w.])[^\W\d]{2,}(?![\w.])", text))


PYTHON = (
    "import runpy, sys; from tests.vision import DeclaredOperators; "
    "sys.meta_path.insert(0, DeclaredOperators()); sys.path.insert(0, ''); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
"""Runs a file as `python FILE` does, also beside a torchvision of another build."""


READING = {"report", "show", "seeds", "check", "diff", "timeline"}
"""Commands that run no code of the page's: no process of their own, which would import matplotlib again."""


def run(argv, folder):
    allowed = (0, 1, 4) if argv[1] == "check" else (0,)
    if argv[0] != "python" and argv[1] in READING:
        here, said = Path.cwd(), io.StringIO()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(said):
                assert main(argv[1:]) in allowed, shlex.join(argv)
        finally:
            os.chdir(here)
        return said.getvalue()
    started = ["-c", PYTHON] if argv[0] == "python" else ["-m", "fa_tui"]
    program = [sys.executable, *started]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*program, *argv[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode in allowed, f"{shlex.join(argv)}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("pages", [TUTORIAL, *([page] for page in HOW_TO)], ids=lambda p: p[0].stem)
def test_pages_run_as_printed(pages, tmp_path):
    for page in pages:
        run_page(page, tmp_path)


def run_page(page, folder):
    """Save the files of a page, run its commands, and compare what it prints."""
    printed = ""
    for block in blocks(page):
        if not block.runs:
            continue
        if block.language in ("python", "toml"):
            name = re.match(r"# ([\w./]+\.\w+)\n", block.text)
            assert name, f"{page.name}: the first line of a block names its file"
            (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / name[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = "".join(run(argv, folder) for argv in commands(block.text))
        elif block.language == "text":
            assert words(block.text) <= words(printed), f"{page.name}: {printed}"


@pytest.mark.parametrize("page", RUN, ids=str)
def test_code_that_is_not_run_here_is_at_least_python_or_shell(page):
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, page.name, "exec")
        elif block.language == "sh":
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)


def test_every_command_and_option_of_every_page_exists():
    group = typer_app.command_of(COMMANDS)
    found = 0
    for page in PAGES:
        shell = [block.text for block in blocks(page) if block.language in ("sh", "yaml")]
        shell = [re.sub(r"\$\(\(.*?\)\)", "1", one) for one in shell]
        for line in re.findall(r"\bfa-tui (?:[^\n|`&]|\\\n)*", "\n".join(shell)):
            line = re.sub(r"\s#\s.*", "", line.replace("\\\n", " "))
            name = line.split()[1] if len(line.split()) > 1 else "open"
            command = group.commands[name if name in COMMANDS else "open"]
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            for option in re.findall(r"(?<=\s)--[a-z][\w-]*", line):
                assert option in known | GLOBAL, f"{page}: {line}"
            found += 1
    assert found > 30


def slug(heading):
    """A heading's anchor, as GitHub and mkdocs make it of plain words."""
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def prose(page):
    """What stands outside of blocks of code."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page):
    for target in LINK.findall(prose(page)):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        generated = DOCS / "reference" in path.resolve().parents
        assert path.exists() or generated or path.name == "gates.md", f"{page.name}: {target}"
        if anchor and path.suffix == ".md" and path.exists():
            headings = re.findall(r"^#+ (.*)$", text_of(path), re.M)
            assert anchor in map(slug, headings), f"{page.name}: {target}"


@pytest.mark.parametrize("page", READ, ids=str)
def test_lines_of_text_wrap_at_a_hundred_columns(page):
    for line in prose(page).splitlines():
        kept = "](" in line or line.startswith(("|", "    "))
        assert len(line) <= 100 or kept, f"{page.name}: {line}"


def test_a_page_is_read_at_one_sitting():
    for page in [REPOSITORY / "README.md", *DOCS.rglob("*.md")]:
        if page not in LONG:
            assert len(text_of(page).splitlines()) <= 170, page.name


def test_the_mark_of_a_printed_cell_is_that_of_its_letters():
    for mark, letters in re.findall(r"([✓✗~])([a-d~·-]{4})", "".join(map(text_of, PAGES))):
        fires = "✗" if re.search("[a-d]", letters) else "~" if "~" in letters else "✓"
        assert mark == fires, mark + letters


def test_pages_of_the_reference_are_made_from_the_program():
    found = importlib.util.spec_from_file_location("build", DOCS / "build.py")
    build = importlib.util.module_from_spec(found)
    found.loader.exec_module(build)
    page = "\n".join(build.commands_page())
    assert re.findall(r"^## (.*)$", page, re.M) == list(COMMANDS)
    assert "--frozen-baseline" in page
    assert "<kbd>t</kbd> | all columns of all runs" in "\n".join(build.keys_page())
    assert "`thresholds.g_norm_floor` | `1e-7`" in "\n".join(build.settings_page())
    assert "::: fa_core.diagnose" in "\n".join(build.api_page())
