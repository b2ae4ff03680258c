"""A task small enough to train in a tenth of a second."""

import pytest

from fa_core.audit.jobs import JobProgress
from fa_core.training.plan import Order, Recipe, RunPlan
from fa_core.training.train import train_run
from fa_core.zoo.data import load_data
from tests.fa_core.zoo.methods.conftest import one_thread  # noqa: F401 (a fixture)

SPEC = "synthetic:input=6,train=320,test=300"


@pytest.fixture(scope="session")
def data():
    return load_data(SPEC)


def plan(method="dfa", **changes):
    """Four epochs of ten steps on a net of two blocks of width 8."""
    recipe = {"epochs": 4, "lr": 1e-2, "batch_size": 32} | dict(changes.pop("recipe", {}))
    settings = {"arch": "resmlp", "data": SPEC, "seed": 42, "arch_args": {"d": 8, "L": 2}} | changes
    return RunPlan(method=method, recipe=Recipe(**recipe), **settings)


def trained(a_plan, data, folder, progress=None, **how):
    return train_run(Order(plan=a_plan, **how), data, folder, progress=progress or JobProgress())


class Interrupt(JobProgress):
    """Ctrl-C in the middle of an epoch of ten steps."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch

    def update(self, done, total):
        if done > 10 * (self.epoch - 1):
            raise KeyboardInterrupt
