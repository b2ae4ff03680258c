"""Child processes that run Python: the one place that starts them.

``python -m`` and ``python -c`` put the current folder first on the path: a torch.py in it would
run. Of Python's own flags against that, -P is too new (3.11), and -I drops the user's PYTHONPATH
and packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_HOME = str(Path(__file__).resolve().parents[1])
"""The folder of this project's packages: a child finds them however its parent did."""

_BEGIN = (
    "import sys; home, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path[:] = [*filter(None, sys.path), home]; "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
"""Only `sys`, which is built in, is imported before the current folder has left the path."""

OFFLINE: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}
"""A file that names a model of a hub opens no connection, and its names stand in no report, unless
the user set these otherwise."""


_TEMPORARY: set[str] = set()


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A new folder for the time of the body; gone, too, where `remove_temporary` precedes the end
    of a process that is not Python's own."""
    with tempfile.TemporaryDirectory() as folder:
        _TEMPORARY.add(folder)
        yield folder


def remove_temporary() -> None:
    """Remove every `temporary_folder`."""
    for folder in tuple(_TEMPORARY):
        shutil.rmtree(folder, ignore_errors=True)


def python_environment() -> dict[str, str]:
    """This process's environment for a child.

    Relative folders of PYTHONPATH are made absolute, since a child may start in another folder.
    Empty ones, which mean the current folder and are a slip of ``PYTHONPATH=$PYTHONPATH:x``, go.
    """
    environment = {**OFFLINE, **os.environ}
    if "PYTHONPATH" in environment:
        paths = filter(None, environment["PYTHONPATH"].split(os.pathsep))
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    return environment


def start_python(
    module: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    own_session: bool = False,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start a module of this project as a child process, like ``python -m`` but without the current
    folder on its path.

    Args:
        module: its name.
        arguments: its arguments.
        environment: its environment; None = `python_environment`.
        folder: where it starts; None = here.
        own_session: whether signals of this terminal leave it alone.
        streams: ``stdin``, ``stdout``, ``stderr``, as in `subprocess.Popen`.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _BEGIN, _HOME, module, *arguments],
        cwd=folder,
        env=python_environment() if environment is None else environment,
        start_new_session=own_session,
        **streams,
    )
