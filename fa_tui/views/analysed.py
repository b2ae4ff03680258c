"""Warnings about runs that a filter takes from an analysis. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fa_core.option_values import listed

_NAMED = 6
"""Methods named in a sentence."""


def left_out_words(
    counts: Mapping[str, tuple[int, int]], groups: Mapping[str, str], all_runs: str = ""
) -> Iterator[str]:
    """Warnings about runs that an analysis would need and a filter leaves out.

    Args:
        counts: method → number of its analysed runs, and of all.
        groups: method → its group, if the analysis compares the groups.
        all_runs: how to widen the filter.

    >>> list(left_out_words({"bp": (0, 3)}, {"bp": "healthy"}))
    ['The filter leaves out every healthy run.']
    >>> list(left_out_words({"dfa": (1, 3)}, {}))
    ['Only some runs of a method pass the filter: dfa 1 of 3.']
    """
    partly = []
    in_group: Counter[str] = Counter()
    for name, (analysed, every) in counts.items():
        if 0 < analysed < every:
            partly.append(f"{name} {analysed} of {every}")
        if name in groups:
            in_group[groups[name]] += analysed
    for group in ("healthy", "degenerate"):
        if group in in_group and not in_group[group]:
            yield f"The filter leaves out every {group} run{all_runs}."
    if partly:
        yield f"Only some runs of a method pass the filter: {listed(partly, _NAMED)}."
