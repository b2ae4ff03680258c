"""A callback whose library is not installed says so in one line, with the command that installs it."""

import importlib
import sys

import pytest

from fa_core.errors import UsageError


@pytest.mark.parametrize(
    ("module", "package"),
    [("lightning_callback", "lightning"), ("trainer_callback", "transformers")],
)
def test_a_missing_library_is_named(module, package, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"fa_core.monitor.{module}", raising=False)
    with pytest.raises(
        UsageError, match=f"needs {package}, which is not installed; pip install '{package}>="
    ):
        importlib.import_module(f"fa_core.monitor.{module}")
