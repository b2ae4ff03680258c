"""How runs are looked at: what a cell shows, along which axes, which runs, in which order. As options, and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_core.rows import AuditRow
from fa_tui.session import Session
from fa_tui.views.axes import METHODS_BY_SEEDS, Axes, axes_of, own_axes
from fa_tui.views.filters import Filter, meant
from fa_tui.views.quantities import BY_NAME

CELL_LETTERS = "letters"
"""What a cell shows where it shows no number."""


class Look(NamedTuple):
    """How the explorer begins; empty where the user gave nothing.

    Attributes:
        show: `CELL_LETTERS`, or the name of a quantity.
        rows: the axis that the lines of the matrix are.
        columns: the axis that its columns are.
        filter: as it is typed.
        sort: what the long view is sorted by: ``growth``, ``-growth``.
        long: whether the long view is on screen; it is if there is something to sort.
    """

    show: str = ""
    rows: str = ""
    columns: str = ""
    filter: str = ""
    sort: str = ""
    long: bool = False

    @property
    def axes(self) -> Axes:
        """Of the matrix; where only one is named and it is that of the other place, the two change places."""
        axes = METHODS_BY_SEEDS
        for place, axis in (("lines", self.rows), ("columns", self.columns)):
            axes = axes.having(place, axis) if axis else axes
        return axes

    def options(self, usual: str = CELL_LETTERS) -> Iterator[str]:
        """The options of `fa-tui open` that begin with this look.

        Args:
            usual: what a cell shows without an option.

        >>> list(Look(show="growth", columns="lam", sort="-acc").options())
        ['--show', 'growth', '--columns', 'lam', '--sort', '-acc']
        """
        if self.show and not self.show == usual == CELL_LETTERS:
            yield from ("--show", self.show)
        for option, axis, default in zip(("--rows", "--columns"), self.axes, METHODS_BY_SEEDS, strict=True):
            if axis != default:
                yield from (option, axis)
        if self.filter:
            yield from ("--filter", self.filter)
        if self.sort:
            yield from ("--sort", self.sort)
        elif self.long:
            yield "--long"


def understood(look: Look, session: Session) -> Look:
    """A look with every name as the program knows it.

    Raises:
        UsageError: a name that is not known here, with those that are; a filter that means nothing.
    """
    if look.show:
        look = look._replace(show=_known("--show", look.show, (CELL_LETTERS, *BY_NAME)))
    if look.rows or look.columns:
        axes = axes_of(session.rows)
        rows = look.rows and _known("--rows", look.rows, axes)
        columns = look.columns and _known("--columns", look.columns, axes)
        if rows == columns:
            raise UsageError(f"--rows and --columns are both {rows}", hint="name two axes")
        look = look._replace(rows=rows, columns=columns)
    if look.filter:
        filter_of(look, session)
    if look.sort:
        from fa_tui.views.columns import every_column

        down = "-" if look.sort.startswith("-") else ""
        names = [column.name for column in every_column(session)]
        look = look._replace(sort=down + _known("--sort", look.sort.removeprefix("-"), names), long=True)
    return look


def filter_of(look: Look, session: Session) -> Filter:
    """The filter of a look.

    Raises:
        UsageError: it means nothing.
    """
    try:
        return Filter(look.filter, own_axes(session.rows))
    except UsageError as wrong:
        raise UsageError(wrong.what, where="--filter", hint=wrong.hint) from wrong


def arranged(look: Look, rows: list[AuditRow], thresholds: DiagnosticThresholds) -> list[AuditRow]:
    """The rows that a look leaves, in its order.

    Raises:
        UsageError: as `understood`.
    """
    if look == Look():
        return rows
    from fa_tui.views.columns import ordered

    session = Session(rows, thresholds=thresholds)
    look = understood(look, session)
    kept = filter_of(look, session).rows(session)
    return [rows[row] for row in ordered(session, range(len(rows)) if kept is None else kept, look.sort)]


def _known(option: str, typed: str, known: Collection[str]) -> str:
    name = meant(typed, known)
    if name is None:
        raise UsageError(f"{option} {typed} is not known", hint=f"there are {', '.join(known)}")
    return name
