from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from engine.hardware import devices, nvml

GIB = 2**30


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_session", None)
    monkeypatch.setattr(nvml, "_why_not", "")


def fake_card(monkeypatch: pytest.MonkeyPatch, processes: list[Any]) -> None:
    """A driver with one card of 16 GiB of which 5 GiB are used."""
    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: f"card {index}",
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=16 * GIB, used=5 * GIB),
        "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: processes[:1],
        "nvmlDeviceGetName": lambda _: b"NVIDIA Test",
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCudaComputeCapability": lambda _: [12, 0],
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=87, memory=40),
        "nvmlDeviceGetTemperature": lambda _, __: 63,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)


def process(pid: int, amount: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=amount)


def test_without_a_driver_there_are_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert devices.gpus() == ()
    works, why = nvml.state()
    assert not works
    assert "Not Found" in why


def test_a_card_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_card(monkeypatch, [])
    assert devices.gpus() == (
        devices.Gpu(
            name="NVIDIA Test",
            total_bytes=16 * GIB,
            free_bytes=11 * GIB,
            driver="580.1",
            capability=(12, 0),
        ),
    )


def test_an_old_driver_without_capability_still_has_its_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake_card(monkeypatch, [])

    def unknown(_: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCudaComputeCapability", unknown)
    (card,) = devices.gpus()
    assert card.capability is None


def test_our_part_counts_a_process_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_card(monkeypatch, [process(7, 3 * GIB), process(8, GIB)])
    memory = nvml.memory("card 0", frozenset({7}))
    assert memory == nvml.CardMemory(total=16 * GIB, used=5 * GIB, ours=3 * GIB)


def test_a_driver_that_hides_processes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_card(monkeypatch, [process(7, None)])
    memory = nvml.memory("card 0", frozenset({7}))
    assert memory is not None
    assert memory.ours is None
