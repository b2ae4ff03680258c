"""Some reports as columns: their numbers in arrays, and what names each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fa_core.columns import Floats, Indices, Mask, Objects, Ragged, joined, objects, optional, thrifty
from fa_core.formats.reports import identities_of
from fa_core.report import DiagnosticReport

SCALARS = ("growth_bound", "cross_batch_stability", "headline_acc", "frozen_baseline_acc")
NAMES = ("key", "method", "seed", "checkpoint", "axes", "recorded_verdict")


class Numbers(NamedTuple):
    """The numbers of some reports: ‖h_l‖, ‖g_l‖, and per name in `SCALARS` the values and where there is one."""

    residual: Ragged
    gradient: Ragged
    scalars: tuple[tuple[Floats, Mask], ...]

    @classmethod
    def of(cls, reports: Sequence[DiagnosticReport]) -> Numbers:
        """The numbers of reports (or of anything with their attributes)."""
        return cls(
            Ragged.of(_column(reports, "residual_norms")),
            Ragged.of(_column(reports, "bp_grad_norms")),
            tuple(optional(_column(reports, name)) for name in SCALARS),
        )

    @classmethod
    def concat(cls, parts: Sequence[Numbers]) -> Numbers:
        """One after another."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Ragged.concat([part.residual for part in parts]),
            Ragged.concat([part.gradient for part in parts]),
            tuple(
                (
                    thrifty(np.concatenate([np.zeros(0), *(part.scalars[place][0] for part in parts)])),
                    thrifty(np.concatenate([np.zeros(0, np.bool_), *(part.scalars[place][1] for part in parts)])),
                )
                for place in range(len(SCALARS))
            ),
        )

    def take(self, indices: Indices) -> Numbers:
        """Some of them, in the order given."""
        return Numbers(
            self.residual.take(indices),
            self.gradient.take(indices),
            tuple((values[indices], present[indices]) for values, present in self.scalars),
        )

    def against(self, baselines: Sequence[float | None]) -> Numbers:
        """The same with other frozen-baseline accuracies."""
        return self._replace(scalars=(*self.scalars[:-1], optional(baselines)))

    def surely_valid(self) -> bool:
        """Whether every report holds something and passes `DiagnosticReport.check`; False when in doubt."""
        h, g, (_, (cosine, has_cosine), *accs) = self
        return bool(
            h.lengths.min() > 0
            and np.array_equal(h.lengths, g.lengths)
            and _within(h.flat, 0.0, np.inf)
            and _within(g.flat, 0.0, np.inf)
            and _within(cosine[has_cosine], -1.0, 1.0)
            and all(_within(acc[has_acc], 0.0, 1.0) for acc, has_acc in accs)
        )


@dataclass(frozen=True, eq=False)
class ReportColumns:
    """Runs as columns; each array has one entry per run.

    Attributes:
        key: the run's name in its file. method, seed, checkpoint, axes: as in `AuditRow`.
        recorded_verdict: the verdict text found in the file, or None.
        numbers: what was measured.
        inexact: whose reports say that a number of theirs is no exact one.
        has_credit: whether any report says something of credit quality.
    """

    key: Objects
    method: Objects
    seed: Objects
    checkpoint: Objects
    axes: Objects
    recorded_verdict: Objects
    numbers: Numbers
    inexact: Mask
    has_credit: bool = True

    @classmethod
    def of(
        cls, keys: Sequence[str], reports: Sequence[DiagnosticReport], recorded: list[str | None], numbers: Numbers
    ) -> ReportColumns:
        """The columns of reports (or of anything with their attributes).

        Args:
            keys: their names.
            reports: the reports.
            recorded: the verdicts recorded in them.
            numbers: the numbers in them.
        """
        method, seed, axes, checkpoint = identities_of(keys, reports)
        texts: dict[str | None, str | None] = {}  # one text for all equal ones
        recorded = [texts.setdefault(text, text) for text in recorded]
        has_credit = any(map(attrgetter("credit"), reports))
        return cls(
            key=objects(keys),
            method=objects(method),
            seed=objects(seed),
            checkpoint=objects(checkpoint),
            axes=objects(axes),
            recorded_verdict=objects(recorded),
            numbers=numbers,
            inexact=inexact_of(reports),
            has_credit=has_credit,
        )

    @classmethod
    def concat(cls, parts: Sequence[ReportColumns]) -> ReportColumns:
        """One after another."""
        if len(parts) == 1:
            return parts[0]
        names: dict[str, Any] = {name: joined([getattr(part, name) for part in parts]) for name in NAMES}
        has_credit = any(part.has_credit for part in parts)
        return cls(
            **names,
            numbers=Numbers.concat([part.numbers for part in parts]),
            inexact=thrifty(np.concatenate([np.zeros(0, np.bool_), *(part.inexact for part in parts)])),
            has_credit=has_credit,
        )

    def names(self) -> list[Objects]:
        """The columns named in `NAMES`."""
        return [getattr(self, name) for name in NAMES]

    def __len__(self) -> int:
        return len(self.key)


def inexact_of(reports: Sequence[DiagnosticReport]) -> Mask:
    """Whose `evidence` says something, of reports (or of anything with that attribute)."""
    return np.fromiter(map(bool, map(attrgetter("evidence"), reports)), np.bool_, len(reports))


def _column(reports: Iterable[DiagnosticReport], name: str) -> list[Any]:
    return list(map(attrgetter(name), reports))


def _within(values: Floats, low: float, high: float) -> bool:
    """Whether all values lie in [low, high]; a NaN does not."""
    return bool(((values >= low) & (values <= high)).all())
