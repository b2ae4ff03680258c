r"""The LaTeX table of a paper: a row per method over its seeds.

Needs booktabs and siunitx. What was not measured is absent: a column that no method has is left
out, a cell is empty.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from fa_core.analysis.seeds import AVERAGED, SeedGroup, SeedTable, Stat
from fa_core.report.diagnostics import ASSUMED, BOUND, DIAGNOSTICS, LETTERS, PROXY, limit_of
from fa_core.report.method_style import published_name
from fa_core.report.numbers import (
    count_text,
    exact,
    fixed,
    is_rounding,
    on_its_side,
    scientific,
    significant,
    with_axes,
)
from fa_core.report.quantities import Quantity
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.sections.analyses import seeds_notes
from fa_core.sanitize import one_line

COLUMNS = [number for number in AVERAGED if number.name != "h_L"]

_MARKS = {
    BOUND: (r"$\ge$", "a lower bound"),
    PROXY: (r"$\approx$", "of another layer"),
    ASSUMED: ("?", "over a frozen baseline given by hand"),
}


def paper_table(analysis: SeedTable, thresholds: DiagnosticThresholds, name: str) -> str:
    """The table of some methods over their seeds.

    Args:
        analysis: the methods.
        thresholds: they are judged by these.
        name: of the file or folder, for the label.
    """
    groups = [group for group in analysis.groups if any(group.measured.values())]
    columns = [column for column in COLUMNS if _has(groups, column)]
    counts = Counter(len(group.seeds) for group in groups)
    most = max(counts, key=counts.__getitem__, default=0)  # seeds of most methods
    partly = not all(_coverage(group) == LETTERS for group in groups)
    caption = _caption(groups, thresholds, most, partly)
    notes = seeds_notes(analysis)
    lines = [
        *map("% {}".format, map(one_line, notes)),
        r"\begin{table}[tbp]",
        r"\centering\scriptsize\setlength{\tabcolsep}{1.6pt}",
        f"\\caption{{{caption} {spelled('; '.join(notes))}}}",
        f"\\label{{tab:{_label(name)}}}",
        f"\\begin{{tabular}}{{@{{}}ll{'l' * partly}{'r' * len(columns)}@{{}}}}",
        *(r"\toprule", *_headings(columns, partly), r"\midrule"),
    ]
    lines += [_row(group, _name(group, most), columns, partly, thresholds) for group in groups]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"])


def _label(name: str) -> str:
    r"""Letters, digits and hyphens of a name.

    >>> _label("audit_table} s42.json")
    'audit-table-s42-json'
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "audit"


def _has(groups: Sequence[SeedGroup], column: Quantity) -> bool:
    stats = [group.stats[column.stat] for group in groups]
    return any(stat.n or stat.nonfinite for stat in stats)


def _headings(columns: Sequence[Quantity], partly: bool) -> Iterator[str]:
    names = ["method", "fires", *["measured"] * partly]
    above = [""] * len(names)
    for column in columns:
        letter, _, name = column.heading.rpartition(" ")
        above.append(letter)
        names.append(spelled(name))
    yield f"{' & '.join(above)} \\\\"
    yield f"{' & '.join(names)} \\\\"


def _name(group: SeedGroup, usual_seeds: int) -> str:
    """The method in print, with its axes, and its seeds if it has not as many as most."""
    name = with_axes(published_name(group.method), group.axes)
    if len(group.seeds) != usual_seeds:
        name += f", n = {len(group.seeds)}"
    return name


def _row(
    group: SeedGroup,
    name: str,
    columns: Sequence[Quantity],
    partly: bool,
    thresholds: DiagnosticThresholds,
) -> str:
    cells = [spelled(name), _letters(group), *[_coverage(group)] * partly]
    cells += [_cell(group, column, thresholds) for column in columns]
    # an asterisk or a bracket would be an argument of the line end or rule before
    return re.sub(r"^(?= *[*[])", "{}", f"{' & '.join(cells)} \\\\")


def _letters(group: SeedGroup) -> str:
    r"""Letters that fire, on how many seeds if not on all of them; ``~`` before undecided ones."""
    found = []
    for letter in LETTERS:
        doubt = r"$\sim$" if letter in group.undecided else ""
        if group.fired[letter] or doubt:
            found.append(doubt + _on(letter, group.fired[letter], len(group.seeds)))
    return "".join(found)


def _coverage(group: SeedGroup) -> str:
    """Letters that were measured, on how many seeds if not on all of them; marked if not exact."""
    return "".join(
        _mark(group, letter) + _on(letter, runs, len(group.seeds))
        for letter, runs in group.measured.items()
        if runs
    )


def _mark(group: SeedGroup, letter: str) -> str:
    return _MARKS.get(group.evidence.get(letter, ""), ("",))[0]


def _on(text: str, hits: int, seeds: int) -> str:
    """A letter or number, with an index: on how many seeds, if not on all of them."""
    if hits in (0, seeds):
        return text
    return f"{text}$_{{{hits}}}$"


def _cell(group: SeedGroup, column: Quantity, thresholds: DiagnosticThresholds) -> str:
    """A number, of how many seeds if not of all; bold if its diagnostic fires on every seed."""
    stat, seeds = group.stats[column.stat], len(group.seeds)
    number = _number(stat, column.places, limit_of(column, thresholds))
    if not number:
        return ""
    number = _on(_mark(group, column.letter) + number, stat.n + stat.nonfinite, seeds)
    if group.fired.get(column.letter) == seeds:
        return f"\\textbf{{{number}}}"
    return number


def _number(stat: Stat, places: int, limit: float | None) -> str:
    """Mean with its standard deviation, or geometric mean; ``""`` for none."""
    if stat.nonfinite:
        return "NaN/inf"
    value = stat.mean
    if not places and stat.geometric_mean is not None:
        value = stat.geometric_mean
    if value is None:
        return ""
    if places:
        return f"\\num{{{_with_deviation(value, stat.std, places)}}}"
    return f"\\num{{{on_its_side(value, limit, _short, 2)}}}"


def _short(value: float, digits: int) -> str:
    """A few digits, with a power of ten from a thousand on and below a hundredth.

    >>> _short(5.77, 2), _short(1723.4, 2), _short(2.82e-9, 2), _short(57.7, 2), _short(50.4, 3)
    ('5.8', '1.7e3', '2.8e-9', '58', '50.4')
    """
    if value and not 0.01 <= abs(value) < 999.5:
        return scientific(value, digits)
    return significant(value, digits)


def _with_deviation(value: float, std: float | None, places: int) -> str:
    """A number to the first digit of its standard deviation, which is in brackets.

    >>> _with_deviation(0.5506, 0.00042, 3), _with_deviation(-14.4, 39.2, 1)
    ('0.5506(4)', '-14(39)')
    >>> _with_deviation(0.5, None, 3), _with_deviation(1.0, 3e-15, 3)
    ('0.500', '1.000(0)')
    """
    if std is None:
        return fixed(value, places)
    if is_rounding(std, value):
        return f"{fixed(value, places)}(0)"
    exponent = int(f"{std:.0e}".partition("e")[2])
    places = max(0, -exponent)
    deviation = std * 10**places
    return f"{fixed(value, places)}({deviation:.0f})"


def _caption(
    groups: Sequence[SeedGroup], thresholds: DiagnosticThresholds, usual_seeds: int, partly: bool
) -> str:
    """What the columns are; what holds of every row is said here once."""
    limits = []
    for letter, one in DIAGNOSTICS.items():
        limits.append(f"({letter}) {one.sign} {exact(one.limit(thresholds))}")
    seeds = count_text(usual_seeds, "seed")
    said = [
        f"Four-diagnostic audit, {seeds} per method unless said: means, in brackets their standard "
        "deviation in units of the last digit; growth and ‖g_L‖: geometric means. "
        f"Fires: {', '.join(limits)}; bold: on every seed; "
        "an index counts the seeds where not all."
    ]
    if not partly:
        said.append("All four were measured on every seed.")
    words = [spelled(" ".join(said))]
    if any(group.undecided for group in groups):
        words.append(r"$\sim$: undecided on some seed.")
    kinds = {kind for group in groups for kind in group.evidence.values()}
    for kind, (mark, meaning) in _MARKS.items():
        if kind in kinds:
            words.append(f"{mark}: {meaning}.")
    return " ".join(words)


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
    text = one_line(words)
    parts = []
    end = 0
    for found in _CODES.finditer(text):
        parts += [_literal(text[end : found.start()]), f"${_coded(found)}$"]
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
