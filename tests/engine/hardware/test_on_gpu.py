"""Readings of a real GPU, by its driver and by torch for memory of this process."""

import os

import pytest
import torch

from engine.hardware import devices, gpu_reading, torch_memory

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch can use no GPU here"),
]
MB = 2**20


def read() -> gpu_reading.GpuReading:
    found = gpu_reading.read(frozenset({os.getpid()}), torch_memory.OWN)
    assert found is not None
    return found


def test_the_first_gpu_is_the_one_that_torch_takes() -> None:
    about, gpu = torch.cuda.get_device_properties(0), devices.gpus()[0]
    assert gpu.name == about.name
    assert gpu.capability == (about.major, about.minor)
    assert gpu.total_bytes == pytest.approx(about.total_memory, rel=0.03)


def test_a_reading_is_whole() -> None:
    found = read()
    assert found.link.startswith("PCIe ")
    assert 0 < found.temperature_c < 110
    assert 0 < found.power_w < 1500
    assert found.driver


def test_memory_of_torch_is_ours() -> None:
    before = read().ours_mb
    held = torch.empty(512 * MB, dtype=torch.uint8, device="cuda")
    assert read().ours_mb - before >= 480
    assert torch_memory.gpu_bytes() >= 512 * MB
    assert held.nbytes == 512 * MB


def test_this_process_is_not_among_the_other_programs() -> None:
    torch.zeros(1, device="cuda")
    assert all(program.mb is None or program.mb > 0 for program in gpu_reading.other_programs())
