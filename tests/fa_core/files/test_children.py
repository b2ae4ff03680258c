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

STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"},
    "pty": {"spawn", "fork"},
}
"""Module → its functions that start a process; also every os.exec… and os.spawn…."""

WHOLE = {"multiprocessing", "concurrent.futures.process", "torch.multiprocessing"}
"""Modules whose import is taken for a start."""

MAY = {
    "fa_core/files/children.py": "the one place",
    "fa_tui/share.py": "tmux, which takes a copy",
}


def names(tree):
    """Names that a module's code reads or imports; `subprocess.Popen[bytes]` is a type."""
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        if id(node) in types:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in WHOLE)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"


def is_start(name):
    module, _, function = name.rpartition(".")
    if module == "os" and function.startswith(("exec", "spawn")):
        return True
    if name == "sys.executable" or function == "ProcessPoolExecutor":
        return True
    return bool(WHOLE & {name, module}) or function in STARTERS.get(module, ())


def test_every_process_is_started_by_the_one_function():
    found = {
        (str(path.relative_to(ROOT)), name)
        for package in ("fa_core", "fa_tui")
        for path in (ROOT / package).rglob("*.py")
        for name in names(ast.parse(path.read_text()))
        if is_start(name)
    }
    assert {path for path, _ in found} == MAY.keys()


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
        f"audit {SAMPLE_RUNS}/main/frozen_s42 --out a.json --device cpu",
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
