"""Names that are known without torch are those that there are."""

import subprocess
import sys

from fa_core.option_values import DATA_SETS
from fa_core.training import plan
from fa_core.zoo.data import DATA_LOADERS
from fa_core.zoo.methods import METHODS
from fa_core.zoo.models import ARCHS


def test_they_are_the_names_of_the_registries():
    assert tuple(METHODS) == plan.METHODS
    assert tuple(ARCHS) == plan.ARCHS
    assert tuple(DATA_LOADERS) == DATA_SETS


def test_they_are_known_without_torch():
    code = "import sys, fa_core.training.plan; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
