"""Words and numbers as LaTeX."""

from __future__ import annotations

import re

from fa_core.sanitize import sanitize

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
