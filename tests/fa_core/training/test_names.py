"""Names that are known without torch are those that there are."""

import subprocess
import sys

import pytest

from fa_core.option_values import DATA_SETS
from fa_core.training import plan
from fa_core.zoo.data import DATA_LOADERS
from fa_core.zoo.methods import METHODS
from fa_core.zoo.models import ARCHS


def test_they_are_the_names_of_the_registries():
    assert tuple(METHODS) == plan.METHODS
    assert tuple(ARCHS) == plan.ARCHS
    assert tuple(DATA_LOADERS) == DATA_SETS


@pytest.mark.parametrize(
    "data", ["synthetic", "digits:test=300", "cifar10:/data", "my_lab.data:load"]
)
def test_what_there_is_passes_in_any_spelling(data):
    plan.check_names("State Bridge", "resmlp", data)


def test_they_are_known_without_torch():
    code = "import sys, fa_core.training.plan; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
