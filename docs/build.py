"""Write the documentation as a site: ``python docs/build.py``.

It is written to site/, by mkdocs (the extra ``docs``). Pages of commands, keys, settings and the API
are made from the program each time, so that they say what it does.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import msgspec
from textual.app import App

import fa_core
from fa_core.report.numbers import exact
from fa_tui import key_list
from fa_tui.cli import COMMANDS
from fa_tui.settings import Settings
from fa_tui.typer_app import command_of

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "build" / "docs"
BESIDE = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CITATION.cff", "LICENSE")
API = (
    *(f"fa_core.{name}" for name in fa_core.__all__),
    "fa_core.monitor.Firing",
)


def commands_page() -> Iterator[str]:
    """Every command with its help."""
    yield "# Commands\n"
    yield "What they share: [commands](../commands.md). Each as `--help` prints it.\n"
    for name in COMMANDS:
        yield f"## {name}\n"
        yield f"```text\n{help_text(name, 92)}\n```\n"


def help_text(name: str, width: int) -> str:
    """What `fa-tui NAME --help` prints at this width."""
    command = command_of([name]).commands[name]
    context = command.make_context(f"fa-tui {name}", [], resilient_parsing=True)
    context.terminal_width = width
    text: str = command.get_help(context)
    return text


def keys_page() -> Iterator[str]:
    """Every key of every page."""
    yield "# Keys\n"
    yield "`?` in the explorer searches them; the palette (`Ctrl+P`) runs one.\n"
    app: App[None] = App()
    for page, bindings in groupby(key_list.bindings(), key=itemgetter(0)):
        yield f"\n## {page or 'Every page'}\n"
        yield "| key | does |"
        yield "|---|---|"
        for _, binding in bindings:
            key = binding.key_display or app.get_key_display(binding)
            yield f"| <kbd>{cell(key)}</kbd> | {cell(binding.tooltip)} |"


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return html.escape(text).replace("|", "&#124;")


def settings_page() -> Iterator[str]:
    """Every setting, its default and what it does."""
    doc = inspect.cleandoc(Settings.__doc__ or "")
    said = dict(re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", doc, re.MULTILINE))
    yield "# Settings\n"
    yield "`fa-tui doctor` names their file; `thresholds` is a table in it.\n"
    yield "| name | default | does |"
    yield "|---|---|---|"
    values = msgspec.to_builtins(Settings())
    for name, value in values.pop("thresholds").items():
        values[f"thresholds.{name}"] = value
    for name, value in values.items():
        default = exact(value) if isinstance(value, float) else json.dumps(value)
        text = " ".join(said[name.partition(".")[0]].split())
        yield f"| `{name}` | `{default}` | {text} |"


def api_page() -> Iterator[str]:
    """The names of `fa_core`, from their docstrings."""
    yield "# API\n"
    yield f"{inspect.cleandoc(fa_core.__doc__ or '')}\n"
    for name in API:
        yield f"::: {name}\n"


def write(name: str, lines: Iterable[str]) -> None:
    """Write a generated page."""
    path = PAGES / "reference" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pages() -> None:
    """All pages in one folder, as they lie to each other in the repository."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ("README.md", *BESIDE):
        target = PAGES / ("index.md" if name == "README.md" else name)
        text = (ROOT / name).read_text(encoding="utf-8")
        target.write_text(text.replace("](docs/", "]("), encoding="utf-8")
    (PAGES / "sample_runs").mkdir()
    shutil.copy(ROOT / "sample_runs" / "README.md", PAGES / "sample_runs")
    for page in PAGES.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        depth = len(page.relative_to(PAGES).parts) - 1
        up = "../" * (depth + 1)
        # what lies above docs/ lies beside its pages here
        for name in (*BESIDE, "sample_runs/"):
            text = text.replace(f"]({up}{name}", f"]({'../' * depth}{name}")
        text = text.replace(f"]({up}README.md", f"]({'../' * depth}index.md")
        text = text.replace("](../docs/", "](../")
        page.write_text(text, encoding="utf-8")
    write("commands.md", commands_page())
    write("keys.md", keys_page())
    write("settings.md", settings_page())
    write("api.md", api_page())


def main() -> None:
    """Write the pages, and the site of them."""
    import logging

    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    pages()
    config = load_config(str(ROOT / "mkdocs.yml"))
    build(config)
    print(Path(config.site_dir) / "index.html")


if __name__ == "__main__":
    sys.exit(main())
