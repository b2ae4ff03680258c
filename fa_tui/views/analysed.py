"""The runs that an analysis is of: those that the matrix's filter leaves, or all. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fa_core.analysis import deep_gamma
from fa_core.analysis.groups import DEFAULT_HEALTHY
from fa_core.rows import AuditRow
from fa_core.wording import listed
from fa_tui.session import Session
from fa_tui.views.filters import Filter
from fa_tui.views.quantities import has_no_credit

if TYPE_CHECKING:
    from fa_core.table import AuditTable

_NAMED = 6
"""Methods named in a sentence."""


class Analysed:
    """Follows the filter, and the thresholds where the filter depends on them.

    Args:
        session: all runs.
        filter: of the matrix, if there is one.

    Attributes:
        everything: whether the filter is put aside.
        rows: indices of the runs; None for all.
        table: of these runs.
        gammas: place in the table → deep Γ where there may be one, each report read once: a slider must not
            read them again.
    """

    def __init__(self, session: Session, filter: Filter | None = None) -> None:
        self._session, self._filter = session, filter
        self.everything = False
        self.read()

    def read(self) -> None:
        """Take the session's runs anew: some came, went or changed."""
        self._gammas = {
            row: deep_gamma(each.report.credit)
            for row, each in enumerate(self._session.rows)
            if not has_no_credit(each)
        }
        self._choose()

    def judge(self) -> bool:
        """Apply a filter that depends on verdicts again; whether other runs are analysed now."""
        before = self.rows
        if self._filter is not None and self._filter.live and not self.everything:
            self._choose()
        return self.rows != before

    def turn(self) -> None:
        """All runs instead of those that pass, or back."""
        self.everything = not self.everything
        self._choose()

    def _choose(self) -> None:
        session = self._session
        self.rows = self._passing()
        rows = range(len(session)) if self.rows is None else self.rows
        self.table: AuditTable = session.table if self.rows is None else session.table.select(self.rows)
        gammas = self._gammas
        self.gammas = {place: gammas[row] for place, row in enumerate(rows) if row in gammas}

    def passing(self) -> list[int] | None:
        """The rows that pass as they are judged now, also before `judge`; None for all."""
        return self._passing() if self._filter is not None and self._filter.live else self.rows

    def _passing(self) -> list[int] | None:
        return None if self._filter is None or self.everything else self._filter.rows(self._session)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def filtered(self) -> bool:
        """Whether there is a filter, followed or not."""
        return self._filter is not None

    @property
    def chosen(self) -> Sequence[AuditRow]:
        """The runs."""
        session = self._session
        return session.rows if self.rows is None else [session.rows[row] for row in self.rows]

    @property
    def title(self) -> tuple[str, str]:
        """How many runs there are, and why not all; the second part stands out."""
        total = f"{len(self._session)} run{'' if len(self._session) == 1 else 's'}"
        if self._filter is None:
            return total, ""
        if self.rows is None:
            return total, "   all, not only those that pass the filter (f)"
        return "", f"of {len(self.rows)} of {total}: {self._filter.text}"

    def counts(self) -> dict[str, tuple[int, int]]:
        """Method → how many of its runs are analysed, and how many there are."""
        # from the tables: rows of a big one are made when they are looked at
        analysed, every = (Counter(table.method.tolist()) for table in (self.table, self._session.table))
        return {method: (analysed[method], count) for method, count in every.items()}

    def measured(self) -> dict[str, int]:
        """Method → how many of its runs are measured, those with none left out."""
        return Counter(self.table.method[self.table.coverage != 0].tolist())

    def healthy(self) -> tuple[str, ...] | None:
        """The healthy methods that the person chose, as far as runs of them are analysed; None for the default."""
        chosen = self._session.healthy
        if chosen is None:
            return None
        present = set(self.table.method.tolist())
        return tuple(name for name in chosen if name in present)

    def left_out_words(self, *, groups: bool) -> Iterator[str]:
        """What an analysis would need, or seem to be of, and the filter leaves out.

        Args:
            groups: whether it sets healthy methods against the others.
        """
        if self.rows is None:
            return
        chosen = self._session.healthy
        healthy = DEFAULT_HEALTHY if chosen is None else chosen
        for words in left_out_words(self.counts(), healthy if groups else None, " (f: all runs)"):
            yield f"- {words}"


def left_out_words(
    counts: Mapping[str, tuple[int, int]], healthy: Collection[str] | None, all_runs: str = ""
) -> Iterator[str]:
    """What an analysis would need, or seem to be of, and a filter leaves out.

    Args:
        counts: method → how many of its runs are analysed, and how many there are.
        healthy: methods that it sets against the others, if it does.
        all_runs: how to have them all.

    >>> list(left_out_words({"bp": (0, 3), "dfa": (1, 3)}, ["bp"]))
    ['The filter leaves out what counts as healthy: bp.', 'Only some runs of a method pass the filter: dfa 1 of 3.']
    """
    if healthy is not None:
        hidden = [name for name, (analysed, _) in counts.items() if not analysed and name in healthy]
        if hidden:
            yield f"The filter leaves out what counts as healthy: {listed(hidden, _NAMED)}{all_runs}."
        others = [analysed for name, (analysed, _) in counts.items() if name not in healthy]
        if others and not any(others):
            yield f"The filter leaves out every degenerate run{all_runs}."
    partly = [f"{name} {analysed} of {every}" for name, (analysed, every) in counts.items() if 0 < analysed < every]
    if partly:
        yield f"Only some runs of a method pass the filter: {listed(partly, _NAMED)}."
