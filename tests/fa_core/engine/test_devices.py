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

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid == "MIG-gone":
            raise RuntimeError("not found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return f"Card {handle[-4:]}"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        if handle == "GPU-cccc":
            raise RuntimeError("not supported")
        return SimpleNamespace(used=2 << 30, total=8 << 30)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        return SimpleNamespace(gpu=25)


@pytest.fixture(autouse=True)
def no_files(monkeypatch):
    monkeypatch.setattr(devices, "_gpu_files", list)


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
    assert (first.name, first.label, first.memory_used, first.memory_total) == (
        "cuda:0",
        "Card aaaa",
        2 << 30,
        8 << 30,
    )
    assert first.load == 0.25
    assert (third.name, third.memory_total) == ("cuda:2", None)
    assert cpu.name == "cpu"


@pytest.mark.parametrize(
    "lost", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetName", "nvmlDeviceGetUUID"]
)
def test_a_card_that_is_lost_while_somebody_looks_keeps_its_place(cards, monkeypatch, lost):
    answer = getattr(FakeNvml, lost)

    def asked(self, about):
        if about in (None, 1, FakeNvml.cards[1]):
            raise RuntimeError("GPU is lost")
        return answer(self, about)

    monkeypatch.setattr(FakeNvml, lost, asked)
    if lost != "nvmlDeviceGetName":
        name = FakeNvml.nvmlDeviceGetName
        monkeypatch.setattr(
            FakeNvml, "nvmlDeviceGetName", lambda self, handle: name(self, _there(handle))
        )
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
def test_cuda_visible_devices_picks_orders_and_ends_at_the_first_unknown_one(
    cards, monkeypatch, visible, labels
):
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
        devices.importlib.util,
        "find_spec",
        lambda name: SimpleNamespace(origin=str(package / "__init__.py")),
    )
    for line, expected in (
        ("cuda: Optional[str] = None", False),
        ("cuda: Optional[str] = '13.0'", True),
    ):
        (package / "version.py").write_text(
            f"from typing import Optional\n{line}\nhip: Optional[str] = None\n"
        )
        assert devices._torch_has_cuda() is expected


class NoNvml:
    NVMLError = RuntimeError

    def nvmlInit(self) -> None:
        raise RuntimeError("libnvidia-ml.so.1 not found")


@pytest.fixture
def no_nvml(monkeypatch):
    """torch is built for a GPU, and there is no NVML: ROCm, or a container."""
    monkeypatch.setitem(sys.modules, "pynvml", NoNvml())
    monkeypatch.setattr(devices, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(devices, "_has_mps", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def answers(monkeypatch, *gpus):
    monkeypatch.setattr(devices, "_gpu_files", lambda: ["/dev/kfd"])
    monkeypatch.setattr(devices, "ask_torch", lambda: devices.TorchAnswer("2.13", list(gpus)))


def test_mig_instances_are_a_device_each(cards, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-aaaa-1,MIG-bbbb-2")
    first, second, _ = list_devices()
    assert (first.name, first.label, first.memory_total) == ("cuda:0", "Card aa-1", 8 << 30)
    assert (second.name, second.label) == ("cuda:1", "Card bb-2")
    assert resolve_devices("auto") == ["cuda:0", "cuda:1"]
    assert devices.why_no_cuda() == ""


def test_mig_instances_are_listed_without_nvml_too(no_nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-aaaa-1")
    assert [(device.name, device.label) for device in list_devices()[:-1]] == [
        ("cuda:0", "MIG instance MIG-aaaa-1")
    ]
    assert resolve_devices("auto") == ["cuda:0"]


def test_a_worker_sees_its_own_mig_instance_alone():
    visible = {"CUDA_VISIBLE_DEVICES": "MIG-a, MIG-b"}
    assert devices.worker_device("cuda:1", visible) == "cuda:0"
    assert visible == {"CUDA_VISIBLE_DEVICES": "MIG-b"}
    for names in ("0,1", "GPU-a,GPU-b"):
        visible = {"CUDA_VISIBLE_DEVICES": names}
        assert devices.worker_device("cuda:1", visible) == "cuda:1"
        assert visible == {"CUDA_VISIBLE_DEVICES": names}
    assert devices.worker_device("cuda:1", {}) == "cuda:1"
    assert devices.worker_device("cpu", {"CUDA_VISIBLE_DEVICES": "MIG-a"}) == "cpu"


def test_where_nvml_shows_nothing_torch_is_asked(no_nvml, monkeypatch):
    answers(monkeypatch, ("AMD Instinct MI300X", 192 << 30))
    (card, _) = list_devices()
    assert (card.name, card.label, card.memory_total) == (
        "cuda:0",
        "AMD Instinct MI300X",
        192 << 30,
    )
    assert resolve_devices("auto") == ["cuda:0"]
    assert devices.why_no_cuda() == devices.idle_gpu(["cuda:0"]) == ""


def test_without_a_sign_of_a_gpu_torch_is_not_asked(no_nvml, monkeypatch):
    def asked():
        raise AssertionError("the import of torch takes seconds")

    monkeypatch.setattr(devices, "ask_torch", asked)
    assert resolve_devices("auto") == ["cpu"]
    assert devices.why_no_cuda() == "no GPU: no NVIDIA driver answers"
    assert devices.idle_gpu(["cpu"]) == ""


def test_a_gpu_that_torch_cannot_use_is_named(no_nvml, monkeypatch):
    answers(monkeypatch)
    assert resolve_devices("auto") == ["cpu"]
    assert devices.why_no_cuda() == "no GPU: torch can use none, though there is /dev/kfd"
    said = (
        "measured on the CPU beside a GPU (/dev/kfd): torch can use none, though there is /dev/kfd"
    )
    assert devices.idle_gpu(["cpu"]) == said


def test_the_cpu_beside_a_gpu_is_said_with_its_reason(cards, monkeypatch):
    said = "measured on the CPU beside a GPU (Card aaaa): --device or the settings say so"
    assert devices.idle_gpu(["cpu", "cpu"]) == said
    assert devices.idle_gpu(["cuda:0", "cpu"]) == ""
    monkeypatch.setattr(devices, "_torch_has_cuda", lambda: False)
    assert (
        devices.idle_gpu(["cpu"])
        == "measured on the CPU beside a GPU (Card aaaa): this torch is built without CUDA"
    )


def test_what_hides_a_gpu_hides_its_file_too(monkeypatch):
    monkeypatch.undo()
    shown = {"nvidia[0-9]*": [devices.Path("/dev/nvidia3")], "kfd": [devices.Path("/dev/kfd")]}
    monkeypatch.setattr(devices.Path, "glob", lambda path, name: shown.get(name, []))
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    assert devices._gpu_files() == ["/dev/nvidia3", "/dev/kfd"]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "-1")
    assert devices._gpu_files() == []


@pytest.mark.parametrize(
    ("probe", "answer"),
    [
        ('print(\'["2.13", [["A card", 5]]]\')', ("2.13", [("A card", 5)], "")),
        (
            "import sys; sys.exit('libcudart is missing')",
            ("", [], "does not import: libcudart is missing"),
        ),
        ("import os; os._exit(7)", ("", [], "does not import: exit code 7")),
    ],
)
def test_torch_is_asked_in_a_process_of_its_own(probe, answer):
    found = devices.ask_torch(probe)
    assert (found.version, found.gpus, found.error) == answer


@pytest.mark.gpu
def test_torch_and_the_list_agree_on_a_machine_with_a_gpu(monkeypatch):
    monkeypatch.undo()
    assert [device.label for device in list_devices()[:-1]] == [
        name for name, _ in devices.ask_torch().gpus
    ]
