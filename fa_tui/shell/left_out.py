"""What the filter of an analysis leaves out, below its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from fa_core.reporting.blocks import Block, Bullets
from fa_core.rows import AuditRow
from fa_tui.views.analysed import left_out_words


def left_out_blocks(
    kept: Sequence[AuditRow], rows: Sequence[AuditRow], healthy: Collection[str] | None = None
) -> Iterator[Block]:
    """A list of it; nothing where a filter leaves every run of the methods that it leaves.

    Args:
        kept: the runs that pass.
        rows: all runs.
        healthy: methods that the analysis sets against the others, if it does.
    """
    analysed, every = (Counter(row.method for row in each) for each in (kept, rows))
    words = tuple(left_out_words({name: (analysed[name], count) for name, count in every.items()}, healthy))
    if words:
        yield Bullets(words)
