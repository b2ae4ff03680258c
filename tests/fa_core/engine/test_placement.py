from __future__ import annotations

import math

import pytest

from fa_core.engine.devices import Placement
from fa_core.errors import UsageError


@pytest.mark.parametrize("patience", [math.nan, 0.0, -math.inf])
def test_no_patience_at_all_is_refused(patience: float) -> None:
    with pytest.raises(UsageError, match=f"--patience {patience:g}; give seconds above 0"):
        Placement(engine="ray", patience=patience).check()


def test_endless_patience_is_one() -> None:
    Placement(engine="ray", patience=math.inf).check()
