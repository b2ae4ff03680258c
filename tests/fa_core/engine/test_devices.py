from __future__ import annotations

import platform
import sys
from types import SimpleNamespace

import pytest

from fa_core.engine import devices
from fa_core.engine.devices import list_devices, resolve_devices, threads_per_worker, workers_for
from fa_core.errors import UsageError


class FakeNvml:
    """NVML with three cards, one of which tells nothing about itself."""

    NVMLError = RuntimeError
    cards = ("GPU-aaaa", "GPU-abbb", "GPU-cccc")

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return self.cards[index]

    def nvmlDeviceGetUUID(self, handle: str) -> bytes:
        return handle.encode()

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return f"Card {handle[-4:]}".encode()

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        if handle == "GPU-cccc":
            raise RuntimeError("not supported")
        return SimpleNamespace(used=2 << 30, total=8 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=25)


@pytest.fixture
def cards(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr(devices, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(devices, "_has_mps", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def no_cards(monkeypatch):
    monkeypatch.setattr(devices, "_torch_has_cuda", lambda: False)
    monkeypatch.setattr(devices, "_has_mps", lambda: False)


def test_every_card_is_listed_with_its_memory_and_load_and_the_cpu_last(cards):
    first, _, third, cpu = list_devices()
    assert (first.name, first.label, first.memory_used, first.memory_total) == ("cuda:0", "Card aaaa", 2 << 30, 8 << 30)
    assert first.load == 0.25
    assert (third.name, third.memory_total) == ("cuda:2", None)
    assert cpu.name == "cpu"


@pytest.mark.parametrize("lost", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetUUID"])
def test_a_card_that_is_lost_while_somebody_looks_keeps_its_place(cards, monkeypatch, lost):
    answer = getattr(FakeNvml, lost)

    def asked(self, about):
        if about in (None, 1, FakeNvml.cards[1]):
            raise RuntimeError("GPU is lost")
        return answer(self, about)

    monkeypatch.setattr(FakeNvml, lost, asked)
    if lost != "nvmlDeviceGetName":
        name = FakeNvml.nvmlDeviceGetName
        monkeypatch.setattr(FakeNvml, "nvmlDeviceGetName", lambda self, handle: name(self, _there(handle)))
    listed = {device.name: device.label for device in list_devices()}
    assert (listed["cuda:0"], listed["cuda:2"]) == ("Card aaaa", "Card cccc")
    if lost != "nvmlDeviceGetUUID":
        assert "does not answer any more" in listed["cuda:1"]


def _there(handle):
    if handle is None:
        raise RuntimeError("GPU is lost")
    return handle


def test_a_driver_that_goes_away_leaves_the_cpu(cards, monkeypatch):
    def gone(self):
        raise RuntimeError("driver not loaded")

    monkeypatch.setattr(FakeNvml, "nvmlDeviceGetCount", gone)
    monkeypatch.setattr(FakeNvml, "nvmlShutdown", gone)
    assert [device.name for device in list_devices()] == ["cpu"]
    assert devices.why_no_cuda()


@pytest.mark.parametrize(
    ("visible", "labels"),
    [
        ("2,0", ["Card cccc", "Card aaaa"]),
        ("GPU-cc", ["Card cccc"]),
        ("GPU-a", []),
        ("", []),
        ("-1", []),
        ("1,7,0", ["Card abbb"]),
    ],
)
def test_cuda_visible_devices_picks_orders_and_ends_at_the_first_unknown_one(cards, monkeypatch, visible, labels):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [device.label for device in list_devices()[:-1]] == labels


@pytest.mark.parametrize(
    ("spec", "jobs", "expected"),
    [
        ("auto", None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:all", None, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda:1", None, ["cuda:1"]),
        ("cpu", None, ["cpu"]),
        ("CUDA:1, cpu", None, ["cuda:1", "cpu"]),
        ("auto", 2, ["cuda:0", "cuda:1"]),
        ("cuda:0,cuda:1", 3, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cpu", 2, ["cpu", "cpu"]),
    ],
)
def test_a_device_spec_names_one_worker_each(cards, spec, jobs, expected):
    assert resolve_devices(spec, jobs) == expected


def test_without_cards_auto_is_the_cpu(no_cards):
    assert resolve_devices("auto") == ["cpu"]


@pytest.mark.parametrize("spec", ["cuda", "cuda:0", "tpu", "", "cuda:all", "mps", "cpu,mps"])
def test_a_device_that_is_not_there_names_those_that_are(no_cards, spec):
    with pytest.raises(UsageError, match="devices here: cpu"):
        resolve_devices(spec)


@pytest.mark.parametrize(
    ("system", "machine", "listed"),
    [("darwin", "arm64", True), ("darwin", "x86_64", False), ("linux", "arm64", False)],
)
def test_mps_is_there_on_a_mac_that_has_it_alone(monkeypatch, system, machine, listed):
    monkeypatch.setattr(devices, "_torch_has_cuda", lambda: False)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert [device.name for device in list_devices()] == ["mps"] * listed + ["cpu"]
    assert resolve_devices("auto") == ["cpu"]
    if listed:
        assert resolve_devices("mps") == ["mps"]
    else:
        with pytest.raises(UsageError, match="--device 'mps' is not there; devices here: cpu"):
            resolve_devices("mps")


def test_no_jobs_at_a_time_is_refused(no_cards):
    with pytest.raises(UsageError, match="--jobs 0"):
        resolve_devices("cpu", 0)


def test_cores_are_shared_out_between_workers(monkeypatch):
    monkeypatch.setattr(devices, "usable_cores", lambda: 8)
    assert threads_per_worker(["cpu"]) is None
    assert threads_per_worker(["cpu"] * 3) == 2
    assert threads_per_worker(["cpu"] * 20) == 1


@pytest.mark.parametrize(("runs", "workers"), [(1, 1), (7, 1), (16, 2), (1000, 4)])
def test_many_runs_on_a_cpu_are_worth_several_workers(no_cards, monkeypatch, runs, workers):
    monkeypatch.setattr(devices, "usable_cores", lambda: 4)
    assert workers_for(runs) == ["cpu"] * workers


def test_a_number_of_workers_that_was_given_is_kept_but_for_idle_ones(cards):
    assert workers_for(100, "cpu", 3) == ["cpu"] * 3
    assert workers_for(2, "cuda:all") == ["cuda:0", "cuda:1"]
    assert workers_for(0) == []


def test_a_cpu_build_of_torch_has_no_cards_whatever_the_driver_says(tmp_path, monkeypatch):
    package = tmp_path / "torch"
    package.mkdir()
    monkeypatch.setattr(
        devices.importlib.util, "find_spec", lambda name: SimpleNamespace(origin=str(package / "__init__.py"))
    )
    for line, expected in (("cuda: Optional[str] = None", False), ("cuda: Optional[str] = '13.0'", True)):
        (package / "version.py").write_text(f"from typing import Optional\n{line}\nhip: Optional[str] = None\n")
        assert devices._torch_has_cuda() is expected
