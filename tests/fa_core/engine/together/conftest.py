"""Six small runs, a measurer, and an outlet that writes down."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fa_core.engine.group_runner import GroupRunner
from fa_core.engine.jobs import Job, MeasureOptions

from ..runs_for_tests import make_run
from .hearing import Heard

DATA = "synthetic:input=8,train=64,test=320"

torch.set_num_threads(1)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def measurer() -> GroupRunner:
    return GroupRunner("cpu")


@pytest.fixture
def jobs(tmp_path: Path) -> list[Job]:
    """Six runs of one network and several methods; the id is a letter."""
    methods = ["dfa", "bp", "fa", "dfa", "bp", "frozen"]
    options = MeasureOptions(data=DATA, batches=8, batch_size=32)
    return [
        Job(
            id=letter,
            checkpoint=str(make_run(tmp_path / f"{method}_s{seed}", method, seed)),
            options=options,
        )
        for seed, (letter, method) in enumerate(zip("abcdef", methods, strict=True))
    ]
