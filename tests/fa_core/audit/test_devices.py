import sys

import pytest

from fa_core.audit import audit, devices
from fa_core.audit.devices import (
    Execution,
    TorchAnswer,
    list_devices,
    resolve_devices,
    threads_per_worker,
    workers_for,
)
from fa_core.errors import UsageError

CARDS = {"cuda:0": "Card a", "cuda:1": "Card b", "cuda:2": "Card c"}


@pytest.fixture
def cards(monkeypatch):
    monkeypatch.setattr(devices, "_gpu_files", lambda: ["/dev/nvidia0"])
    monkeypatch.setattr(devices, "ask_torch", lambda: TorchAnswer("2.13", CARDS))


@pytest.fixture
def no_cards(monkeypatch):
    monkeypatch.setattr(devices, "_gpu_files", list)


def test_the_cards_of_torch_are_listed_and_the_cpu_last(cards):
    assert list(list_devices()) == ["cuda:0", "cuda:1", "cuda:2", "cpu"]
    assert list_devices()["cuda:0"] == "Card a"


@pytest.mark.parametrize(
    ("spec", "jobs", "expected"),
    [
        ("auto", None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:all", None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cpu", None, ["cpu"]),
        ("CUDA:1, cpu", None, ["cuda:1", "cpu"]),
        ("auto", 2, ["cuda:0", "cuda:1"]),
        ("cuda:0,cuda:1", 3, ["cuda:0", "cuda:1", "cuda:0"]),
    ],
)
def test_a_device_spec_names_one_worker_each(cards, spec, jobs, expected):
    assert resolve_devices(spec, jobs) == expected


@pytest.mark.parametrize("spec", ["cuda", "cuda:0", "", "cpu,mps"])
def test_a_device_that_is_not_there_names_those_that_are(no_cards, spec):
    assert resolve_devices("auto") == ["cpu"]
    with pytest.raises(UsageError, match="devices here: cpu"):
        resolve_devices(spec)
    with pytest.raises(UsageError, match="--jobs 0"):
        resolve_devices("cpu", 0)
    with pytest.raises(UsageError, match="--jobs 1000000000; give 1 to 1,000,000"):
        resolve_devices("cpu", 10**9)


def test_mps_is_asked_for_on_a_mac_alone_and_never_chosen_alone(no_cards, monkeypatch):
    monkeypatch.setattr(devices, "ask_torch", lambda: TorchAnswer("2.13", {"mps": "Apple GPU"}))
    assert [*list_devices()] == ["cpu"]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [*list_devices()] == ["mps", "cpu"]
    assert (resolve_devices("auto"), resolve_devices("mps")) == (["cpu"], ["mps"])


def test_cores_are_shared_out_between_workers_and_many_runs_are_worth_several(
    no_cards, monkeypatch
):
    monkeypatch.setattr(devices, "usable_cores", lambda: 4)
    assert [threads_per_worker(["cpu"] * count) for count in (1, 2, 20)] == [None, 2, 1]
    counts = {runs: len(workers_for(runs)) for runs in (0, 1, 7, 16, 1000)}
    assert counts == {0: 0, 1: 1, 7: 1, 16: 2, 1000: 4}
    assert workers_for(100, "cpu", 3) == ["cpu"] * 3


def test_why_there_is_no_gpu_is_said_and_one_that_idles_is_named(cards, monkeypatch):
    idle = "measured on the CPU beside a GPU"
    assert devices.why_no_cuda() == devices.idle_gpu(["cuda:0", "cpu"]) == ""
    assert devices.idle_gpu(["cpu"]) == f"{idle} (/dev/nvidia0): --device or the settings say so"
    monkeypatch.setattr(devices, "ask_torch", lambda: TorchAnswer("2.13+cpu"))
    why = "torch 2.13+cpu can use none, though there is /dev/nvidia0"
    assert devices.why_no_cuda() == f"no GPU: {why}"
    assert devices.idle_gpu(["cpu"]) == f"{idle} (/dev/nvidia0): {why}"
    monkeypatch.setattr(devices, "_gpu_files", list)
    assert devices.idle_gpu(["cpu"]) == ""


def test_a_gpu_that_is_not_used_is_said_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr(audit, "idle_gpu", lambda devices: f"a GPU is idle: {devices}")
    said = []
    audit.Measuring(Execution(device="cpu"), on_notice=said.append).pool(1).close()
    assert said == ["a GPU is idle: ['cpu']"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            'print(\'noise\'); print(\'{"version": "2.13", "gpus": {"cuda:0": "A card"}}\')',
            TorchAnswer("2.13", {"cuda:0": "A card"}),
        ),
        (
            "raise SystemExit('libcudart is missing')",
            TorchAnswer(error="does not import: libcudart is missing"),
        ),
        ("import os; os._exit(7)", TorchAnswer(error="does not import: exit code 7")),
        ("import time; time.sleep(60)", TorchAnswer(error="does not import within 2 s")),
    ],
)
def test_torch_is_asked_in_a_process_of_its_own(tmp_path, monkeypatch, code, expected):
    (tmp_path / "probe_of_test.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    start = devices.start_python
    monkeypatch.setattr(devices, "start_python", lambda _, **how: start("probe_of_test", **how))
    monkeypatch.setattr(devices, "IMPORT_SECONDS", 2)
    assert devices.ask_torch.__wrapped__() == expected
