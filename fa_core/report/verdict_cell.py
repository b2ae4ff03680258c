"""A verdict in five characters."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from fa_core.report.diagnostics import LETTERS
from fa_core.report.judged_run import JudgedRun
from fa_core.report.verdict import CONTROL, TRUSTWORTHY, UNDECIDED, WALKS_BACK, standing


def cell_legend(*, controls: bool = False) -> str:
    """Legend of `cell_text`; at most 78 characters.

    Args:
        controls: whether to include controls.
    """
    marks = f"✗ {WALKS_BACK} ✓ {TRUSTWORTHY}"
    if controls:
        marks = f"{marks} ▫ {CONTROL}"
    return f"{marks}; a fires - passes ~ undecided · unmeasured"


@lru_cache(maxsize=512)
def cell_text(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    *,
    control: bool = False,
    ascii_only: bool = False,
) -> str:
    """A verdict in five characters: a mark, then a sign per diagnostic (`cell_legend`).

    Args:
        flags: letters that fire.
        coverage: letters that were measured.
        undecided: letters that neither fire nor pass.
        control: whether it is a control's.
        ascii_only: for terminals without Unicode.

    >>> (cell_text("abd", "abcd"), cell_text("", "abc", "b"), cell_text("a", "ab", "b"),
    ...     cell_text("", ""))
    ('✗ab-d', '~-~-·', '✗a~··', '?····')
    >>> cell_text("d", "abd", control=True)
    '▫--·d'
    """
    fires, passes, missing, own = "!+.o" if ascii_only else "✗✓·▫"
    marks = {WALKS_BACK: fires, TRUSTWORTHY: passes, CONTROL: own, UNDECIDED: "~"}
    mark = marks.get(standing(flags, coverage, undecided, control=control), "?")
    signs = [mark]
    for letter in LETTERS:
        if letter in undecided:
            signs.append("~")
        elif letter in flags:
            signs.append(letter)
        elif letter in coverage:
            signs.append("-")
        else:
            signs.append(missing)
    return "".join(signs)


def run_cell(run: JudgedRun, *, control: bool | None = None, ascii_only: bool = False) -> str:
    """The `cell_text` of a run.

    Args:
        run: judged by its thresholds.
        control: whether it is a control; None = by its name.
        ascii_only: for terminals without Unicode.
    """
    if control is None:
        control = run.is_control
    return cell_text(run.flags, run.coverage, run.undecided, control=control, ascii_only=ascii_only)
