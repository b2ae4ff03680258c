import math

import pytest

from fa_core.audit import audit
from fa_core.audit.devices import Execution
from fa_core.errors import UsageError


@pytest.mark.parametrize("patience", [math.nan, 0.0, -math.inf])
def test_no_patience_at_all_is_refused(patience):
    with pytest.raises(UsageError, match=f"--patience {patience:g}; give seconds above 0"):
        Execution(engine="ray", patience=patience).check()


def test_a_gpu_that_is_not_used_is_said_before_anything_is_measured(
    monkeypatch,
):
    monkeypatch.setattr(audit, "idle_gpu", lambda devices: f"a GPU is idle: {devices}")
    said = []
    audit.Measuring(Execution(device="cpu"), on_notice=said.append).pool(1).close()
    assert said == ["a GPU is idle: ['cpu']"]
