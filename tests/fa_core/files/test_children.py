"""Child processes, none of which takes a file of the current folder for a library."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fa_core.files.children import python_environment, start_python

ROOT = Path(__file__).parents[3]
SAMPLE_RUNS = ROOT / "sample_runs"

STARTS = (
    *("subprocess.", "multiprocessing", "concurrent.futures.process", "torch.multiprocessing"),
    *("concurrent.futures.ProcessPool", "pty.", "sys.executable", "ctypes", "ray.init"),
    *("os.system", "os.popen", "os.fork", "os.posix_spawn", "os.exec", "os.spawn", "os.startfile"),
    *("asyncio.create_subprocess", "asyncio.subprocess", "torch.utils.cpp_extension"),
    *("webbrowser", "pydoc", "click.edit", "click.launch", "click.echo_via_pager", "typer.launch"),
)
"""How the names begin of what starts a process, or may."""

HARMLESS = {
    *(f"subprocess.{name}" for name in ("PIPE", "DEVNULL", "TimeoutExpired", "SubprocessError")),
    "torch.multiprocessing.reductions.StorageWeakRef",
}

MAY = {
    "fa_core/files/children.py": "the one place",
    "fa_core/audit/cluster.py": "Ray's own processes, from a child in a folder of its own",
    "fa_tui/share.py": "tmux, which takes a copy",
}


def names(tree):
    """The full names that a module imports and uses, whatever it calls them."""
    nodes, known = list(ast.walk(tree)), {}
    # a type in a subscript starts nothing
    types = {node.value for node in nodes if isinstance(node, ast.Subscript)}
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for name in node.names:
                known[name.asname or name.name] = full = f"{module}{name.name}"
                yield full
    for node in nodes:
        if isinstance(node, ast.Attribute) and node not in types:
            owner = ast.unparse(node.value)
            yield f"{known.get(owner, owner)}.{node.attr}"


@pytest.mark.parametrize(
    "code",
    ["import subprocess as s; s.run", "from os import system as f", "import os; os.execvp"],
)
def test_a_start_is_seen_under_any_name(code):
    assert any(map(is_start, names(ast.parse(code))))


def is_start(name):
    return name.startswith(STARTS) and name not in HARMLESS


def test_every_process_is_started_by_the_one_function():
    found = {
        str(path.relative_to(ROOT))
        for package in ("fa_core", "fa_tui")
        for path in (ROOT / package).rglob("*.py")
        if any(map(is_start, names(ast.parse(path.read_text()))))
    }
    assert found == MAY.keys()


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder whose modules and matplotlibrc leave a trace when something reads them."""
    for name in ("torch", "json", "numpy", "runpy", "types", "multiprocessing", "timm"):
        (tmp_path / f"{name}.py").write_text(f"open('ran', 'a').write('{name} ')\n")
    (tmp_path / "matplotlibrc").write_text("evil\x1b]0;owned\x07: 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "doctor",
        f"report {SAMPLE_RUNS}/audit_cnn_3seed.json --out f.svg",
        "train --method bp --epochs 1 --out r --jobs 2 --device cpu --seeds 1,2 "
        "--data synthetic:test=200,train=200",
    ],
    ids=lambda words: words.split()[0],
)
def test_nothing_of_the_current_folder_is_taken_for_a_library(hostile, words):
    child = start_python("fa_tui", *words.split(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    printed, wrong = child.communicate(timeout=240)
    assert child.returncode == 0, (printed + wrong).decode()
    assert not (hostile / "ran").exists()
    assert b"\x1b]0" not in printed + wrong and b"evil" not in printed + wrong


def test_python_m_takes_no_torch_of_the_current_folder(hostile):
    for name in ("runpy", "types"):  # Python itself imports these before any program
        (hostile / f"{name}.py").unlink()
    environment = python_environment() | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "fa_tui", "doctor"]
    assert subprocess.run(words, env=environment, capture_output=True).returncode == 0
    assert not (hostile / "ran").exists()


def test_a_matplotlibrc_that_never_ends_is_not_waited_for(hostile):
    (hostile / "matplotlibrc").unlink()
    os.mkfifo(hostile / "matplotlibrc")
    code = f"import fa_core.reporting.plotting, os; assert os.getcwd() == {str(hostile)!r}"
    done = subprocess.run([sys.executable, "-Ic", code], timeout=60, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_empty_folders_of_the_users_path_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "own", "/there"]))
    expected = os.pathsep.join([str(tmp_path / "own"), "/there"])
    assert python_environment()["PYTHONPATH"] == expected


def test_a_child_is_offline_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert python_environment()["HF_HUB_OFFLINE"] == "1"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert python_environment()["HF_HUB_OFFLINE"] == "0"
