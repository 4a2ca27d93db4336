from __future__ import annotations

from collections import Counter

import pytest

from engine.core.errors import SettingsError
from engine.hardware.gpu_table import GIB, find, gpu_specs, named

# Operations of the matrix units for a byte of memory: a wrong figure leaves this range.
FLOPS_PER_BYTE = (50, 450)
PUBLISHED = {  # NVIDIA's white papers: TFLOP/s of matrices in half precision, sums in float32
    "NVIDIA GeForce RTX 2080 Ti": 53.8,  # at the reference clock of 1545 MHz
    "NVIDIA GeForce RTX 3090": 71.0,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA GeForce RTX 5090": 209.5,
}


def test_every_gpu_has_plausible_figures() -> None:
    for gpu in gpu_specs():
        assert gpu.generation in ("turing", "ampere", "ada", "blackwell")
        assert (7, 5) <= gpu.capability <= (12, 0)
        assert gpu.form_factor in ("desktop", "laptop")
        assert 4 * GIB <= gpu.memory_bytes <= 32 * GIB
        assert 100e9 <= gpu.bandwidth <= 2000e9
        assert 10e12 <= gpu.half_flops <= 250e12
        assert 4e12 <= gpu.single_flops <= 120e12
        assert 7e9 <= gpu.link_bandwidth <= 64e9
        assert FLOPS_PER_BYTE[0] <= gpu.half_flops / gpu.bandwidth <= FLOPS_PER_BYTE[1], gpu.title


def test_every_gpu_is_found_by_the_name_and_memory_that_the_driver_reports() -> None:
    for gpu in gpu_specs():
        assert find(gpu.name, gpu.memory_bytes) == gpu
        assert find(gpu.name, gpu.memory_bytes - 300 * 2**20) == gpu  # the driver keeps a little


def test_names_differ_or_memory_does() -> None:
    seen = Counter((gpu.name, gpu.memory_bytes) for gpu in gpu_specs())
    assert set(seen.values()) == {1}


def test_every_generation_has_desktop_and_laptop_gpus() -> None:
    kinds = {(gpu.generation, gpu.form_factor) for gpu in gpu_specs()}
    assert len(kinds) == 8


def test_matrix_rates_are_those_of_the_white_papers() -> None:
    for name, teraflops in PUBLISHED.items():
        found = find(name)
        assert found is not None
        assert found.half_flops == pytest.approx(teraflops * 1e12, rel=0.01)


def test_a_laptop_gpu_is_not_faster_than_the_desktop_gpu_of_its_name() -> None:
    pairs = 0
    for gpu in gpu_specs():
        desktop = find(gpu.name.removesuffix(" Laptop GPU").removesuffix(" with Max-Q Design"))
        if gpu.form_factor == "laptop" and desktop and desktop.form_factor == "desktop":
            pairs += 1
            assert gpu.half_flops <= desktop.half_flops * 1.2, gpu.title
    assert pairs > 10


def test_names_may_be_short() -> None:
    for name in ("NVIDIA GeForce RTX 5070 Ti", "GeForce RTX 5070 Ti", "rtx 5070 ti", "5070 Ti"):
        assert named(name).title == "RTX 5070 Ti, 16 GB"


def test_another_size_of_memory() -> None:
    assert named("RTX 3060", 8 * GIB).bandwidth == 240e9  # there is such a GPU
    assert named("RTX 5070 Ti", 12 * GIB).title == "RTX 5070 Ti, 12 GB"


def test_an_unknown_gpu_names_the_nearest() -> None:
    with pytest.raises(SettingsError) as caught:
        named("NVIDIA GeForce RTX 5075 Ti")
    assert "RTX 5070 Ti" in caught.value.hint
    with pytest.raises(SettingsError) as caught:
        named("?")
    assert "The first is NVIDIA" in caught.value.hint
