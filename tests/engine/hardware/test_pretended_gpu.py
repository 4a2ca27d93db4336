from __future__ import annotations

import pytest

from engine.core.errors import SettingsError
from engine.hardware import devices, gpu_table
from engine.hardware.gpu_table import GIB, from_environment, pretended

OWN = devices.Gpu(
    name="NVIDIA GeForce RTX 4070",
    total_bytes=12 * GIB,
    free_bytes=11 * GIB,
    driver="580.1",
    capability=(8, 9),
)


def test_without_a_request_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(gpu_table.GPU_VARIABLE, raising=False)
    monkeypatch.delenv(gpu_table.VRAM_VARIABLE, raising=False)
    assert pretended("") is None
    assert from_environment() is None


def test_the_environment_requests_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpu_table.GPU_VARIABLE, "RTX 4060 Ti")
    monkeypatch.setenv(gpu_table.VRAM_VARIABLE, "16GiB")
    found = from_environment()
    assert found is not None
    assert found.title == "RTX 4060 Ti, 16 GB"


def test_an_error_in_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpu_table.GPU_VARIABLE, "RTX 9999")
    with pytest.raises(SettingsError, match="RTX 9999") as caught:
        from_environment()
    assert gpu_table.GPU_VARIABLE in caught.value.hint


def test_memory_alone_means_the_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: (OWN,))
    found = pretended("", "8GiB")
    assert found is not None
    assert found.title == "RTX 4070, 8 GB"
    monkeypatch.setattr(devices, "gpus", tuple)
    with pytest.raises(SettingsError, match="no NVIDIA GPU"):
        pretended("", "8GiB")
