from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fa_core.measure import group

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The networks that were measured by themselves, in order."""
    seen: list[nn.Module] = []
    ordinary = group._alone

    def watched(network: nn.Module, *rest: Any) -> Any:
        seen.append(network)
        return ordinary(network, *rest)

    monkeypatch.setattr(group, "_alone", watched)
    return seen
