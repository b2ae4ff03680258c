"""Words and numbers as LaTeX."""

from __future__ import annotations

import re

from fa_core.sanitize import sanitize

_CODES = re.compile(
    r"‖(?P<norm>\w)_(?P<at>\w+)‖|(?<![\w.])(?P<mantissa>\d+(?:\.\d+)?)e(?P<power>-?\d+)(?!\w)"
)
_MATH = (
    r"±\pm ×\times ÷\div ≥\ge ≤\le ≈\approx −- ∞\infty →\to ·\cdot "
    r"✓\surd ✗\times ∂\partial << >> || γ\gamma Γ\Gamma λ\lambda ρ\rho"
)
_WORDS = r"\\textbackslash{} ~\textasciitilde{} ^\textasciicircum{} …\dots{} –\textendash{} “`` ”''"
"""Signs, each followed by its code."""
_PLAIN = {pair[0]: f"${pair[1:]}$" for pair in _MATH.split()}
_PLAIN |= {pair[0]: pair[1:] for pair in _WORDS.split()}
_PLAIN |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
_SIGNS = str.maketrans(_PLAIN)


def spelled(words: str) -> str:
    r"""Escaped text, with numbers and norms as mathematics.

    >>> print(spelled("dfa_s42: ‖h_L‖ 5.18e8 & 50 %"))
    dfa\_s42: $\|h_{L}\|$ $5.18\times10^{8}$ \& 50 \%
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
    if found["norm"]:
        return rf"\|{found['norm']}_{{{found['at']}}}\|"
    return rf"{found['mantissa']}\times10^{{{found['power']}}}"
