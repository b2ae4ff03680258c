r"""A report's blocks as LaTeX to \input: booktabs tables that fit a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, fitting
from fa_core.sanitize import sanitize

WIDE = 96
"""Characters per line in footnotesize; wider tables are split."""

_CODES = re.compile(
    r"‖(?P<norm>\w)(?:_(?P<at>\w+))?‖"
    r"|(?P<greek>[γΓλρ])_(?P<layer>\w+)"
    r"|(?<![\w.])(?P<mantissa>[+-]?\d+(?:\.\d+)?|(?<=\)))e(?P<power>-?\d+)(?=x\b|\W|$)"
    r"|(?<![\w.)])(?P<signed>[+-]\d[\d.]*)(?!\w)"
)
_GREEK = {"γ": r"\gamma", "Γ": r"\Gamma", "λ": r"\lambda", "ρ": r"\rho"}
_MATH = (
    r"±\pm ×\times ÷\div ≥\ge ≤\le ≈\approx −- ∞\infty →\to ·\cdot "
    r"✓\surd ✗\times ∂\partial << >> ||"
)
_WORDS = r"\\textbackslash{} ~\textasciitilde{} ^\textasciicircum{} …\dots{} –\textendash{} “`` ”''"
"""Signs, each followed by its code."""
_PLAIN = {pair[0]: f"${pair[1:]}$" for pair in _MATH.split()}
_PLAIN |= {sign: f"${code}$" for sign, code in _GREEK.items()}
_PLAIN |= {pair[0]: pair[1:] for pair in _WORDS.split()}
_PLAIN |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGNS = str.maketrans(_PLAIN)


def to_latex(blocks: Iterable[Block]) -> str:
    """LaTeX without a preamble and without figures."""
    return "\n\n".join(["% needs \\usepackage{booktabs}", *latex_parts(blocks)]) + "\n"


def latex_parts(blocks: Iterable[Block]) -> list[str]:
    """The blocks one by one; tables need booktabs."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            level = "sub" * max(block.level - 2, 0)
            parts.append(f"\\{level}section*{{{spelled(block.text)}}}")
        elif isinstance(block, Grid):
            parts.append(_table(block))
        elif isinstance(block, Bullets):
            kind = "enumerate" if block.numbered else "itemize"
            lines = [f"\\begin{{{kind}}}"]
            for item in block.items:
                lines.append(f"  \\item {spelled(item)}")
            lines.append(f"\\end{{{kind}}}")
            parts.append("\n".join(lines))
        elif not isinstance(block, Figure):
            parts.append(spelled(block.text))
    return parts


def spelled(words: str) -> str:
    r"""Escaped text, with numbers and norms as mathematics.

    >>> print(spelled("dfa_s42: ‖h_L‖ 5.18e8, -0.02 & 50 %"))
    dfa\_s42: $\|h_{L}\|$ $5.18\times10^{8}$, $-0.02$ \& 50 \%
    >>> print(spelled("(5.18 ± 1.50)e-4"))
    (5.18 $\pm$ 1.50)$\times10^{-4}$
    """
    text = sanitize(words)
    parts = []
    end = 0
    for found in _CODES.finditer(text):
        parts.append(_literal(text[end : found.start()]))
        parts.append(f"${_coded(found)}$")
        end = found.end()
    parts.append(_literal(text[end:]))
    return "".join(parts)


def _literal(words: str) -> str:
    """Escaped text without mathematics; two hyphens do not become a dash."""
    return re.sub("-(?=-)", "-{}", words.translate(_SIGNS))


def _coded(found: re.Match[str]) -> str:
    if norm := found["norm"]:
        if found["at"]:
            return rf"\|{norm}_{{{found['at']}}}\|"
        return rf"\|{norm}\|"
    if greek := found["greek"]:
        return f"{_GREEK[greek]}_{{{found['layer']}}}"
    return found["signed"] or rf"{found['mantissa']}\times10^{{{found['power']}}}"


def _table(grid: Grid) -> str:
    """A table; a wide one in blocks below each other."""
    widths = [max(map(len, column)) for column in zip(grid.headings, *grid.rows, strict=True)]
    lines = ["\\begin{table}[tbp]", "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}"]
    if grid.caption:
        lines.append(f"\\caption{{{spelled(grid.caption)}}}")
    for columns in fitting(widths, WIDE):
        lines += _tabular(grid, columns)
    return "\n".join([*lines, "\\end{table}"])


def _tabular(grid: Grid, columns: list[int]) -> Iterator[str]:
    """Some columns of a table."""
    kinds = ""
    for i in columns:
        kinds += "l" if i < grid.words else "r"
    yield f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}"
    yield "\\toprule"
    yield _row(grid.headings, columns)
    yield "\\midrule"
    for row in grid.rows:
        yield _row(row, columns)
    yield "\\bottomrule"
    yield "\\end{tabular}\\par\\medskip"


def _row(cells: tuple[str, ...], columns: Iterable[int]) -> str:
    shown = [spelled(cells[i]) for i in columns]
    return f"{' & '.join(shown)} \\\\"
