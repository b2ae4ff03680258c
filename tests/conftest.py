"""What every test needs before anything of Textual or NumPy is imported."""

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.vision import DeclaredOperators

# The same examples every time: a change is judged by what it changed. Other ones, and more of them, are looked for with
# `pytest --hypothesis-profile=search`. How long an example takes is the machine's affair.
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.load_profile("same")

# a grey screen fails every snapshot, and it is decided when the first App is built
for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(name, None)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# torch's threads spin while they wait, which costs other processes, and parallel tests, most of a core
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# a shell has a command in the background ignore Ctrl-C, and what it starts, too: tests press it
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )

sys.meta_path.insert(0, DeclaredOperators())

# what collecting makes lives as long as the tests: looking for garbage in it takes a tenth of their time
gc.disable()


def pytest_collection_finish():
    """From now on only what tests make is looked through."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch, tmp_path_factory):
    """No test sees the user's settings, or what another test has the explorer remember."""
    home = tmp_path_factory.mktemp("home", numbered=True)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))


REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def sample_runs():
    """The sample runs of this checkout."""
    return REPOSITORY / "sample_runs"


@pytest.fixture(scope="session")
def published_table(sample_runs):
    """The published audit of five methods and three seeds."""
    return sample_runs / "audit_table_s42_s123_s456.json"


@pytest.fixture(scope="session")
def published_cnn(sample_runs):
    """The published CNN audit: no (c), no (d)."""
    return sample_runs / "audit_cnn_3seed.json"
