"""Ctrl-C at any moment, once or thirty times, ends a command in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fa_core.audit.worker import MEASURE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

ROOT = Path(__file__).parents[3]
PROGRAM = """
import builtins, os, signal, sys
sys.argv = ["fa-tui", "show", "--format", "json"]
from fa_tui.__main__ import main
real, wanted, times = builtins.__import__, {wanted!r}, {times}

def strike(name, *rest):
    found = real(name, *rest)
    if name == wanted:
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)
    return found

builtins.__import__ = strike
sys.exit(main())
"""


@pytest.mark.parametrize("times", [1, 30])
@pytest.mark.parametrize("wanted", ["fa_tui.cli", "fa_tui.options", "fa_core.formats"])
def test_ctrl_c_while_the_program_starts_is_one_line(wanted: str, times: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(wanted=wanted, times=times)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fa-tui: interrupted\n")


def test_thirty_ctrl_c_while_it_measures_keep_what_is_finished_and_end_in_one_line(
    tmp_path: Path,
) -> None:
    engine = ROOT / "tests" / "fa_core" / "audit"
    described = {"provenance": {"arch": "resmlp", "arch_args": {}, "data": "synthetic"}}
    rows = {}
    for seed, fault in ((1, {}), (2, {"fault": "stuck"})):
        checkpoint = tmp_path / f"dfa_s{seed}.json"
        checkpoint.write_text(json.dumps(described | fault))
        rows[f"dfa_s{seed}"] = {"headline_acc": 0.5, "provenance": {"checkpoint": str(checkpoint)}}
    (tmp_path / "runs.json").write_text(json.dumps({"reports": rows}))
    script = "import sys; from fa_tui.__main__ import main; sys.exit(main())"
    arguments = [
        "audit",
        "runs.json",
        "--data",
        "synthetic",
        "--out",
        "out.json",
        "--device",
        "cpu",
        "--jobs",
        "1",
    ]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(engine), str(ROOT)]),
            MEASURE: "faults:measure_described",
        },
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "[1/2]" in line:
                break
        for _ in range(30):
            process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) == 130
    assert said == "fa-tui: interrupted; out.json holds what is finished, --resume goes on\n"
    assert '"dfa_s1"' in (tmp_path / "out.json").read_text()
