"""A data set from the user's own callable."""

from __future__ import annotations

from typing import Any

from fa_core.data.arrays import from_arrays
from fa_core.data.dataset import DataSet
from fa_core.errors import UnreadableInput
from fa_core.user_code import import_callable

NAMES = ("train_x", "train_y", "test_x", "test_y")


def load_user_data(spec: str) -> DataSet:
    """Call ``module:callable`` without arguments and take what it returns for a data set.

    Args:
        spec: ``module:callable``, as typed.

    Returns:
        The `DataSet` it returned, or one made of (train_x, train_y, test_x, test_y) arrays or
        tensors, as a tuple or as a mapping with these keys.

    Raises:
        UsageError: it cannot be imported.
        UnreadableInput: it returned something else.
    """
    made: Any = import_callable(spec, "--data")()
    if isinstance(made, DataSet):
        return made
    if isinstance(made, dict) and set(NAMES) <= set(made):
        made = tuple(made[name] for name in NAMES)
    if not isinstance(made, tuple | list) or len(made) != len(NAMES):
        raise UnreadableInput(
            f"returned {type(made).__name__}, not a data set", where=spec, hint=f"return ({', '.join(NAMES)})"
        )
    return from_arrays(spec, *made)
