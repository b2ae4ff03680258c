from fa_core.audit import audit
from fa_core.audit.devices import Execution


def test_a_gpu_that_is_not_used_is_said_before_anything_is_measured(
    monkeypatch,
):
    monkeypatch.setattr(audit, "idle_gpu", lambda devices: f"a GPU is idle: {devices}")
    said = []
    audit.Measuring(Execution(device="cpu"), on_notice=said.append).pool(1).close()
    assert said == ["a GPU is idle: ['cpu']"]
