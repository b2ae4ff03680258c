r"""A report's blocks as LaTeX to \input: booktabs tables that fit a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, fitting
from fa_core.sanitize import sanitize

WIDE, LONG = 96, 45
"""Characters of a line in footnotesize, and rows on a page: a table with more goes on below, or on
the next page."""

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
_PLAIN |= {sign: f"${code}$" for sign, code in _GREEK.items()} | {
    pair[0]: pair[1:] for pair in _WORDS.split()
}
_PLAIN |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGNS = str.maketrans(_PLAIN)


def to_latex(blocks: Iterable[Block]) -> str:
    """LaTeX without a preamble; figures are left to their own files."""
    parts = ["% needs \\usepackage{booktabs}"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"\\{'sub' * max(block.level - 2, 0)}section*{{{spelled(block.text)}}}")
        elif isinstance(block, Grid):
            parts += _tables(block)
        elif isinstance(block, Bullets):
            if block.numbered:
                kind = "enumerate"
            else:
                kind = "itemize"
            items = (f"  \\item {spelled(item)}" for item in block.items)
            parts.append("\n".join([f"\\begin{{{kind}}}", *items, f"\\end{{{kind}}}"]))
        elif not isinstance(block, Figure):
            parts.append(spelled(block.text))
    return "\n\n".join(parts) + "\n"


def spelled(words: str) -> str:
    r"""Words of which nothing is markup; numbers and norms as mathematics.

    >>> print(spelled("dfa_s42: ‖h_L‖ 5.18e8, -0.02 & 50 %"))
    dfa\_s42: $\|h_{L}\|$ $5.18\times10^{8}$, $-0.02$ \& 50 \%
    >>> print(spelled("(5.18 ± 1.50)e-4"))
    (5.18 $\pm$ 1.50)$\times10^{-4}$
    """
    text, parts, end = sanitize(words), list[str](), 0
    for found in _CODES.finditer(text):
        parts.append(_literal(text[end : found.start()]))
        parts.append(f"${_coded(found)}$")
        end = found.end()
    return "".join([*parts, _literal(text[end:])])


def _literal(words: str) -> str:
    """Words without mathematics; two hyphens are no dash."""
    return re.sub("-(?=-)", "-{}", words.translate(_SIGNS))


def _coded(found: re.Match[str]) -> str:
    if norm := found["norm"]:
        if found["at"]:
            return rf"\|{norm}_{{{found['at']}}}\|"
        return rf"\|{norm}\|"
    if greek := found["greek"]:
        return f"{_GREEK[greek]}_{{{found['layer']}}}"
    return found["signed"] or rf"{found['mantissa']}\times10^{{{found['power']}}}"


def _tables(grid: Grid) -> Iterator[str]:
    """The parts of a table that is too wide below each other, each led by the first column; a long
    one on pages."""
    widths = [max(map(len, column)) for column in zip(grid.headings, *grid.rows, strict=True)]
    for start in range(0, max(len(grid.rows), 1), LONG):
        lines = ["\\begin{table}[tbp]", "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}"]
        if grid.caption:
            lines.append(f"\\caption{{{spelled(grid.caption)}{' (continued)' if start else ''}}}")
        for columns in fitting(widths, WIDE):
            kinds = "".join("l" if i < grid.words else "r" for i in columns)
            lines += [f"\\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", "\\toprule"]
            lines += [_row(grid.headings, columns), "\\midrule"]
            lines += [_row(row, columns) for row in grid.rows[start : start + LONG]]
            lines += ["\\bottomrule", "\\end{tabular}\\par\\medskip"]
        yield "\n".join([*lines, "\\end{table}"])


def _row(cells: tuple[str, ...], columns: Iterable[int]) -> str:
    return f"{' & '.join(spelled(cells[i]) for i in columns)} \\\\"
