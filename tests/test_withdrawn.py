"""Figures that their author withdrew are quoted nowhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ("fa_core", "fa_tui", "docs", "sample_runs", "README.md", "CHANGELOG.md")
KINDS = {".py", ".toml", ".md", ".man", ".css"}
DATA = ("fa_core/report/diagnostics.json",)

WITHDRAWN = re.compile(
    # the range of (c) on failures
    r"0\.5\s?(?:–|-|…|\.\.|to)\s?0\.99\b"
    # margins of DFA with penalty λ = 1e-2, and their mean
    r"|1\.35\s?(?:–|-|…|\.\.|to)\s?\+?1\.45"
    r"|\b1\.380? ?(?:±|, 0\.05|pp)"
    r"|\+1\.4 pp"
)


def texts():
    """Everything that is written for a reader."""
    found = [ROOT / name for name in DATA]
    for place in PLACES:
        path = ROOT / place
        files = [path] if path.is_file() else path.rglob("*")
        found += [file for file in files if file.suffix in KINDS]
    return found


def test_no_withdrawn_figure_is_quoted():
    files = texts()
    assert len(files) > 200
    quoted = [
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in files
        for found in WITHDRAWN.finditer(file.read_text(encoding="utf-8"))
    ]
    assert not quoted


def test_the_pattern_finds_the_withdrawn_figures_and_not_the_corrected_ones():
    for old in (
        "failures 0.5–0.99",
        "+1.35 to +1.45",
        "1.35–1.45 pp",
        "1.38 ± 0.05",
        '"margin_pp", 1.38, 0.05',
    ):
        assert WITHDRAWN.search(old), old
    for kept in ("−0.005 to 0.992", "+1.1 (fires)", "1.38 KB", "1.38 … 1.41"):
        assert not WITHDRAWN.search(kept), kept
