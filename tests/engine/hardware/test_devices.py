import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pynvml
import pytest

from engine.core.errors import SettingsError
from engine.hardware import devices, gpu_reading, nvml

GIB = 2**30


def test_the_processor_has_a_name_threads_and_memory() -> None:
    assert devices.cpu_name()
    assert 1 <= devices.cpu_threads() <= (os.cpu_count() or 1)
    total, available = devices.ram()
    assert 0 < available <= total


def test_bfloat16_is_known_without_torch_on_linux() -> None:
    had_torch = "torch" in sys.modules
    devices.cpu_has_bf16.cache_clear()
    assert devices.cpu_has_bf16() in (True, False)
    assert had_torch or sys.platform != "linux" or "torch" not in sys.modules


@pytest.mark.parametrize(
    ("name", "flags", "expected"),
    [
        ("AMD EPYC 9R45", "avx512f avx512_bf16", True),
        ("AMD EPYC 7R13", "avx2", False),
        ("Intel(R) Xeon(R) Processor", "avx512f avx512_bf16", False),  # slower than float32
        ("Intel(R) Xeon(R) Processor", "avx512f avx512_bf16 amx_bf16", True),
    ],
)
def test_bfloat16_is_used_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, name: str, flags: str, expected: bool
) -> None:
    monkeypatch.setattr(devices, "cpu_name", lambda: name)
    monkeypatch.setattr(devices, "cpu_flags", lambda: flags)
    monkeypatch.setattr(devices, "_linux_cpu", lambda *_: iter([flags]))
    devices.cpu_has_bf16.cache_clear()
    assert devices.cpu_has_bf16() is expected
    devices.cpu_has_bf16.cache_clear()


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_session", None)
    monkeypatch.setattr(nvml, "_failure", "")


def fake_gpu(monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int | None]) -> None:
    """A driver with one GPU of 16 GiB of which 5 GiB are used; bytes by process."""
    processes = [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in sizes.items()]
    begin = Mock()

    def driver() -> str:
        if not begin.called:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return "580.1"

    answers = {
        "nvmlInit": begin,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"gpu {index}",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=16 * GIB, used=5 * GIB),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: processes[:1],
        "nvmlDeviceGetName": lambda _: b"NVIDIA Test",
        "nvmlSystemGetDriverVersion": driver,
        "nvmlDeviceGetCudaComputeCapability": lambda _: [12, 0],
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    monkeypatch.setattr(pynvml, "nvmlInit", Mock(side_effect=missing))
    assert devices.gpus() == ()
    assert "Not Found" in nvml.failure()


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu(monkeypatch, {})
    (gpu,) = devices.gpus()
    sizes = {"total_bytes": 16 * GIB, "free_bytes": 11 * GIB}
    expected = devices.Gpu(name="NVIDIA Test", driver="580.1", capability=(12, 0), **sizes)
    assert gpu == expected
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)  # an old driver
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", Mock(side_effect=unknown))
    assert devices.gpus() == (replace(expected, capability=None),)


def test_a_process_counts_once_and_unknown_bytes_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {7: 3 * GIB, 8: GIB, 9: None}
    fake_gpu(monkeypatch, sizes)
    assert nvml.memory("gpu 0") == nvml.GpuMemory(total=16 * GIB, used=5 * GIB)
    assert nvml.processes("gpu 0") == sizes


NAMES = ("NVIDIA GeForce RTX 3060", "NVIDIA GeForce GT 1030", "NVIDIA GeForce RTX 5070 Ti")


def several_gpus(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    fake_gpu(monkeypatch, {})
    answers = {
        "nvmlDeviceGetCount": lambda: len(names),
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: names[handle],
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}ab",
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


def test_gpus_are_those_that_cuda_shows_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    several_gpus(monkeypatch, *NAMES)
    for value, indices in {
        None: [0, 1, 2],
        "1": [1],
        "2, 0": [2, 0],
        "GPU-1": [1],
        "0,7,1": [0],
        "": [],
        "-1": [],
        "GPU-9": [],
    }.items():
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if value is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
        found = devices.gpus()
        assert [gpu.index for gpu in found] == indices, value
        assert [gpu.number for gpu in found] == list(range(len(indices)))


def test_a_gpu_is_named_by_number_id_or_a_part_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    several_gpus(monkeypatch, *NAMES, "NVIDIA GeForce RTX 5070")
    here = devices.gpus()
    for text, number in (
        *(("auto", 2), ("cuda", 2), ("cpu", 2), ("1", 1), ("cuda:3", 3), ("gpu-0ab", 0)),
        *(("5070 Ti", 2), ("geforce rtx 5070", 3), ("rtx 5070", 3), ("1030", 1), ("3060", 0)),
    ):
        gpu = devices.chosen(text, here)
        assert gpu is not None, text
        assert gpu.number == number, text
    assert devices.named("5070 ti", here) == NAMES[2]
    assert devices.named("auto", here) == "auto"
    for text, case in (
        *(("7", "no-such-gpu"), ("cuda:9", "no-such-gpu"), ("tpu", "no-such-gpu")),
        *(("5070", "several-gpus"), ("RTX", "several-gpus"), ("cuda:x", "no-such-gpu")),
    ):
        assert devices.chosen(text, here) is None
        with pytest.raises(SettingsError) as caught:
            devices.named(text, here)
        assert caught.value.case == case
        assert f"cuda:2 ({NAMES[2]})" in caught.value.hint
    assert devices.chosen("auto", ()) is None


def test_equal_gpus_are_told_apart_by_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    several_gpus(monkeypatch, NAMES[0], NAMES[0])
    here = devices.gpus()
    assert [devices.value_of(gpu, here) for gpu in here] == ["GPU-0ab", "GPU-1ab"]
    assert devices.named("1", here) == "GPU-1ab"
    assert devices.chosen(NAMES[0], here) == here[0], "a job that was kept when there was one"
    with pytest.raises(SettingsError, match="several GPUs"):
        devices.named("3060", here)
    assert devices.chosen("auto", here) == here[0]
    sizes = {0: 8 * GIB, 1: 16 * GIB}
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetMemoryInfo",
        lambda handle: SimpleNamespace(total=sizes[handle], used=0),
    )
    fastest = devices.chosen("auto", devices.gpus())
    assert fastest is not None
    assert fastest.number == 1, "the one with more memory"


def test_all_gpus_are_those_that_are_not_excluded_the_fastest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    several_gpus(monkeypatch, *NAMES, NAMES[0])
    here = devices.gpus()

    def all_but(*excluded: str) -> list[int]:
        return [gpu.number for gpu in devices.together(here, excluded)]

    assert all_but() == [2, 0, 3, 1]
    assert all_but("5070 Ti", "GPU-3ab", "RTX 4090") == [0, 1], "one that is not here is no matter"
    assert all_but("3060") == [2, 1], "both"
    assert devices.together((), ("3060",)) == ()
    with pytest.raises(SettingsError, match="1030") as caught:
        all_but("RTX", "1030")
    assert caught.value.case == "all-gpus-excluded"
    assert devices.chosen("all", here) == here[2]
    assert devices.named("all", here) == "all"
    assert devices.named_each(("1030", "3060", "1"), here) == f"{NAMES[1]}, GPU-0ab, GPU-3ab"
    with pytest.raises(SettingsError, match="no GPU 4090"):
        devices.named_each(("4090",), here)


def test_readings_are_about_the_gpu_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    several_gpus(monkeypatch, *NAMES)
    for wanted, number in (("auto", 2), (NAMES[0], 0), ("gone", 2)):
        before = devices.use(wanted)
        gpu = devices.in_use()
        assert gpu is not None
        assert gpu.number == number
        reading = gpu_reading.read(frozenset(), gpu_reading.OwnMemory())
        assert reading is not None
        assert reading.name == NAMES[number]
        others = [one.number for one in gpu_reading.read_others(frozenset())]
        assert others == sorted({0, 1, 2} - {number})
        assert devices.use(before) == wanted
