import os
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from engine.hardware import gpu_reading, nvml, shared_memory
from engine.hardware.gpu_reading import OwnMemory, PcieLink, link_text
from engine.hardware.shared_memory import Adapter, MemoryUse
from engine.protocol.gpu_reading import GpuProcess, GpuReading

MIB = 2**20
ME = os.getpid()
NAMES = {ME: "python.exe", 10: "chrome.exe", 11: "chrome.exe", 12: "game.exe", 13: "dwm.exe"}
COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"


def process(pid: int, mib: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers of NVML for a GPU of 16 GiB with 9 GiB in use."""
    answers: dict[str, Any] = {
        "nvmlDeviceGetName": "NVIDIA GeForce RTX 5070 Ti",
        "nvmlSystemGetDriverVersion": "580.1",
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97),
        "nvmlDeviceGetTemperature": 66,
        "nvmlDeviceGetPowerUsage": 254_600,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkGeneration": 4,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": 5,
        COMPUTE: [process(ME, 6000), process(12, 900)],
        GRAPHICS: [process(10, 1200), process(11, 900)],
    }
    monkeypatch.setattr(nvml, "handles", lambda: ("gpu",))
    monkeypatch.setattr(nvml, "query", lambda name, *_: answers.get(name))
    memory = nvml.GpuMemory(total=16384 * MIB, used=9216 * MIB)
    monkeypatch.setattr(nvml, "memory", lambda _: memory)
    monkeypatch.setattr(gpu_reading, "_name", lambda pid: NAMES.get(pid, ""))
    return answers


def on_windows(monkeypatch: pytest.MonkeyPatch, shared_mib: int | None) -> None:
    dedicated = {ME: 6000 * MIB, 10: 2100 * MIB, 13: 3 * MIB, 12: 0}
    uses = {pid: MemoryUse(size, 0) for pid, size in dedicated.items()}
    monkeypatch.setattr(shared_memory, "adapter", lambda _: Adapter(processes=uses))
    shared = None if shared_mib is None else shared_mib * MIB
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: shared)


def reading(own: OwnMemory | None = None) -> GpuReading:
    found = gpu_reading.read(frozenset({ME}), own or OwnMemory())
    assert found is not None
    return found


def test_a_reading_has_everything_that_the_driver_reports(driver: dict[str, Any]) -> None:
    found = reading()
    assert (found.name, found.driver) == ("NVIDIA GeForce RTX 5070 Ti", "580.1")
    assert (found.total_mb, found.ours_mb, found.others_mb) == (16384, 6000, 3216)
    assert (found.load_percent, found.temperature_c, found.power_w) == (97, 66, 255)
    assert found.link == "PCIe 4.0 x8"
    assert found.spilled_mb == 0
    assert found.processes == gpu_reading.other_programs()
    assert found.processes == (
        GpuProcess(name="chrome.exe", mb=2100),
        GpuProcess(name="game.exe", mb=900),
    )


def test_a_driver_without_bytes_by_process_still_names_programs(driver: dict[str, Any]) -> None:
    driver[COMPUTE] = [process(ME, None), process(12, None)]
    driver[GRAPHICS] = [process(10, None)]
    found = reading(OwnMemory(gpu_bytes=lambda: 5000 * MIB))
    assert (found.ours_mb, found.others_mb) == (5000, 4216)
    assert {program.name: program.mb for program in found.processes} == {
        "chrome.exe": None,
        "game.exe": None,
    }
    driver[COMPUTE] = [process(987_654, 6000)]  # a container has other process ids
    assert reading(OwnMemory(gpu_bytes=lambda: 5800 * MIB)).ours_mb == 5800


def test_windows_counts_what_its_driver_does_not_report(
    driver: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_windows(monkeypatch, shared_mib=20)
    driver[COMPUTE], driver[GRAPHICS] = [process(ME, None)], [process(10, None)]
    found = reading()
    assert found.ours_mb == 6000
    assert found.processes == (GpuProcess(name="chrome.exe", mb=2100),)
    assert found.spilled_mb == 0


def test_pinned_memory_is_not_spilled(
    driver: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [(None, 0, 0), (0, 0, 0), (150, 0, 0), (700, 0, 700), (4700, 4000, 700)]
    for shared, pinned, spilled in (*cases, (4100, 4000, 0)):
        on_windows(monkeypatch, shared)
        own = OwnMemory(pinned_bytes=lambda pinned=pinned: pinned * MIB)
        assert reading(own).spilled_mb == spilled


def test_an_old_driver_leaves_values_empty(driver: dict[str, Any]) -> None:
    driver.clear()
    found = reading()
    assert (found.power_w, found.link, found.processes) == (0, "", ())
    assert (found.load_percent, found.temperature_c) == (0, 0)


def test_without_a_gpu_there_is_no_reading(
    driver: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([("gpu",)])
    monkeypatch.setattr(nvml, "handles", lambda: next(found, ()))  # the driver just lost it
    assert gpu_reading.read(frozenset({ME}), OwnMemory()) is None
    monkeypatch.setattr(nvml, "handles", tuple)
    assert gpu_reading.read(frozenset({ME}), OwnMemory()) is None
    assert gpu_reading.other_programs() == ()


def test_only_the_largest_programs_that_run_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "Process", Mock(side_effect=psutil.NoSuchProcess(5)))
    assert gpu_reading.programs({5: 100 * MIB}, ()) == ()
    monkeypatch.setattr(gpu_reading, "_name", lambda pid: f"p{pid}")
    found = gpu_reading.programs({pid: pid * 10 * MIB for pid in range(40)} | {99: None}, {39})
    assert [program.mb for program in found] == [380, 370, 360, 350, 340, 330, 320, 310]


def test_the_link_is_limited_by_slot_and_gpu(driver: dict[str, Any]) -> None:
    found = gpu_reading.link("gpu")
    assert found == PcieLink(generation=4, width=8, gpu_generation=5, gpu_width=16)
    assert found.bandwidth == pytest.approx(15.75e9, rel=0.01)
    assert found.gpu_bandwidth == pytest.approx(63e9, rel=0.01)
    assert link_text(None) == ""
