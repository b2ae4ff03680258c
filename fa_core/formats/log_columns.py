"""Which column of a log is which number: by its documented name, or by one that the user gives.

Nothing else is read. A name that merely looks like an accuracy may be one of other data, and a
wrong number is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from fa_core.errors import UnreadableInput, UsageError
from fa_core.option_values import check_known
from fa_core.report.numbers import listed
from fa_core.sanitize import sanitize

Given: TypeAlias = Mapping[str, str]
"""Field → its column, as the user named it; ``*`` in it is the layer."""

Place: TypeAlias = tuple[str, int | None]
"""Field of an epoch, and the layer of a column for one layer."""

LAST = 10**6
"""Layer L in a place: its number is not known."""

_AT_LAST = {"h_L": ("residual_norms", LAST), "g_L": ("bp_grad_norms", LAST)}

OWN_STEP = "fa/step"
"""The monitor's own step, where the logger counts others."""

DOCUMENTED: Mapping[str, tuple[str, ...]] = {
    "epoch": ("epoch",),
    "step": (OWN_STEP, "step"),
    "test_acc": ("fa/acc", "test_acc"),
    "frozen_baseline_acc": ("fa/frozen_acc", "frozen_baseline_acc"),
    "residual_norms": ("fa/h_*", "residual_norms", "hidden_norms", "h_norms", "h_*_norm"),
    "bp_grad_norms": ("fa/g_*", "bp_grad_norms", "g_norms", "g_*_norm"),
    "h_L": ("fa/h_L", "h_L_norm"),
    "g_L": ("fa/g_L", "g_L_norm"),
    "growth_bound": ("fa/growth",),
    "cross_batch_stability": ("fa/drift", "cross_batch_stability"),
    **{name: (name,) for name in ("gamma", "loss", "error_norm", "lr", "seconds", "intervals")},
}
"""Field of an epoch, or fact of its stream → names of its column; the first that a log has counts.

The monitor's come first, so that both sides of (d) are measured on the same samples; then those of
docs/protocol.md, §10, items 4 and 5.
"""

GIVEN = {
    "acc": "test_acc",
    "frozen_acc": "frozen_baseline_acc",
    "h": "residual_norms",
    "g": "bp_grad_norms",
    "growth": "growth_bound",
    **{name: name for name in ("h_L", "g_L", "gamma", "loss", "epoch", "step")},
}
"""Name for the user → field."""

POSITIONS = frozenset({"epoch", "step"})
"""What numbers the entries."""

JUDGED = frozenset(GIVEN.values()) - POSITIONS - {"loss"} | {"cross_batch_stability"}
"""What is measured at evaluation."""

_MOST_SHOWN, _LONGEST_SHOWN = 12, 40


def given_columns(items: Iterable[str], where: str = "--columns") -> dict[str, str]:
    """What the user named, e.g. ``acc=val_acc``.

    Raises:
        UsageError: an item of another form, or an unknown number.

    >>> given_columns(["acc=val_acc", "h=norms/h_*"])
    {'test_acc': 'val_acc', 'residual_norms': 'norms/h_*'}
    """
    found = {}
    for item in items:
        number, _, column = map(str.strip, item.partition("="))
        check_known(f"number in {where}", number, GIVEN)
        if not column or column.count("*") > (number in ("h", "g", "gamma")):
            raise UsageError(
                f"{item!r} names no column",
                where=where,
                hint="write acc=val_acc,h=norms/h_*; * is the layer",
            )
        found[GIVEN[number]] = column
    return found


def columns_of(names: Collection[str], given: Given) -> dict[str, Place]:
    """The columns of a log that are read; without a given column the documented one counts.

    >>> columns_of(["epoch", "norms/1", "norms/10"], {"residual_norms": "norms/*"})
    {'epoch': ('epoch', None), 'norms/1': ('residual_norms', 0), 'norms/10': ('residual_norms', 9)}
    """
    found: dict[str, Place] = {}
    for field, known in DOCUMENTED.items():
        for pattern in filter(None, (given.get(field), *known)):
            if pattern in names:
                found[pattern] = _AT_LAST.get(field, (field, None))
            elif layers := _layers(pattern, names):
                # the user may count from 1
                first = 0 if pattern in known else min(layers.values())
                found |= {name: (field, layer - first) for name, layer in layers.items()}
            else:
                continue
            break
    return found


def _layers(pattern: str, names: Iterable[str]) -> dict[str, int]:
    """Column → layer of a name with ``*``."""
    if "*" not in pattern:
        return {}
    match = re.compile(re.escape(pattern).replace(r"\*", r"(\d{1,6})")).fullmatch
    return {name: int(found[1]) for name in names if (found := match(name))}


def _fields(names: Collection[str], given: Given) -> set[str]:
    """The fields of an epoch that a log with these columns has."""
    return {field for field, _ in columns_of(names, given).values()}


def is_log(names: Collection[str], given: Given) -> bool:
    """Whether a log with these columns has something to judge, at an epoch or a step."""
    fields = _fields(names, given)
    return bool(fields & JUDGED and fields & POSITIONS)


def may_be_log(names: Iterable[str]) -> bool:
    """Whether some name ends in a word for a position, such as ``Epoch`` or ``_step``."""
    return not {re.split(r"[\W_]+", name.lower())[-1] for name in names}.isdisjoint(
        {*POSITIONS, "iter", "iteration"}
    )


def no_known_column(path: str, names: Collection[str], given: Given) -> UnreadableInput:
    """The error for a log without a column that is read, or that numbers its entries."""
    shown = listed([sanitize(name)[:_LONGEST_SHOWN] for name in names if name], _MOST_SHOWN)
    if _fields(names, given) & JUDGED:
        what = "no column is named epoch or step"
        hint = "name it, --columns epoch=COLUMN"
        return UnreadableInput(f"{what}: {shown}", where=path, hint=hint)
    documented = (names for field, names in DOCUMENTED.items() if field in JUDGED)
    known = [name for name in chain(*documented) if not name.startswith("fa/")]
    what = f"no column has a name that is read: {shown}"
    hint = f"name them, --columns acc=val_acc,h=norms/h_*, or write fa/…, {', '.join(known)}"
    return UnreadableInput(what, where=path, hint=hint)
