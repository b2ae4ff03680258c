"""What is finished is kept, whoever ends the command. Signals come to processes of their own."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fa_core.audit.worker import MEASURE
from fa_tui.commands.progress import Stopped, stoppable
from tests.json_files import json_of, put_json

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

ENGINE_TESTS = Path(__file__).parents[2] / "fa_core" / "audit"

SCRIPT = """
import sys
from fa_tui.__main__ import main
sys.exit(main())
"""


def audit(folder):
    """An audit of nine runs that are measured at once and one that never ends."""
    rows = {}
    for seed in range(10):
        checkpoint = folder / f"dfa_s{seed}.json"
        described = {
            "provenance": {"arch": "resmlp", "arch_args": {"d": 8, "L": 2}, "data": "synthetic"}
        }
        put_json(checkpoint, described | ({"fault": "stuck"} if seed == 9 else {}))
        rows[f"dfa_s{seed}"] = {
            "method_name": "dfa",
            "seed": seed,
            "headline_acc": 0.5,
            "provenance": {"checkpoint": str(checkpoint)},
        }
    put_json(folder / "runs.json", {"reports": rows})
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
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ENGINE_TESTS), str(ENGINE_TESTS.parents[2])]),
            MEASURE: "faults:measure_described",
        },
    )


def hear(process, word):
    heard = []
    for line in process.stderr:
        heard.append(line)
        if word in line:
            return
    raise AssertionError("".join(heard))


def test_thirty_ctrl_c_while_it_measures_keep_what_is_finished_and_end_in_one_line(tmp_path):
    with audit(tmp_path) as process:
        hear(process, "[9/10]")
        for _ in range(30):
            process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "fa-tui: interrupted; out.json holds what is finished, --resume goes on\n"
    assert '"dfa_s8"' in (tmp_path / "out.json").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_every_run_that_was_reported_done_is_in_the_file(tmp_path, number, code):
    with audit(tmp_path) as process:
        hear(process, "[9/10]")
        process.send_signal(number)
        hear(
            process,
            f"fa-tui: stopped by {number.name}; out.json holds what is finished, --resume goes on",
        )
        assert process.wait(60) == code
    assert len(json_of(tmp_path / "out.json")["reports"]) == 9


@pytest.fixture
def nothing_handled():
    """Both signals as a new process has them, whatever earlier tests loaded that handles them."""
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("nothing_handled")
def test_both_signals_stop_once():
    with pytest.raises(Stopped) as caught, stoppable() as stop:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGHUP)
    assert (caught.value.exit_code, stop.exit_code, str(stop)) == (143, 143, "stopped by SIGTERM")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("nothing_handled")
def test_a_signal_that_is_handled_elsewhere_stays_so():
    signal.signal(signal.SIGTERM, lambda *_: None)
    theirs = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped), stoppable():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGTERM) is theirs


@pytest.mark.usefixtures("nothing_handled")
def test_what_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable() as stop:
            signal.raise_signal(signal.SIGHUP)
        assert stop.exit_code == 130
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_is_not_asked_for_handlers():
    reached = []

    def within():
        with stoppable() as stop:
            reached.append(stop.exit_code)

    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert reached == [130]
