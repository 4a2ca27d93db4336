from collections import Counter

import pytest

from engine.core.errors import SettingsError
from engine.hardware import devices
from engine.hardware.devices import GPU_VARIABLE as NAME
from engine.hardware.devices import VRAM_VARIABLE as MEMORY
from engine.hardware.devices import fastest, from_environment, pretended
from engine.hardware.gpu_table import GIB, find, gpu_specs, named

PUBLISHED = {  # NVIDIA's white papers: TFLOP/s of matrices in half precision, sums in float32
    "NVIDIA GeForce RTX 2080 Ti": 53.8,  # at the reference clock of 1545 MHz
    "NVIDIA GeForce RTX 3090": 71.0,
    "NVIDIA GeForce RTX 4090": 165.2,
    "NVIDIA GeForce RTX 5090": 209.5,
}


def test_every_gpu_has_plausible_figures_and_is_found_by_what_the_driver_reports() -> None:
    for gpu in gpu_specs():
        assert gpu.generation in ("turing", "ampere", "ada", "blackwell")
        assert (7, 5) <= gpu.capability <= (12, 0)
        assert gpu.form_factor in ("desktop", "laptop")
        assert 4 * GIB <= gpu.memory_bytes <= 32 * GIB
        assert 100e9 <= gpu.bandwidth <= 2000e9
        assert 10e12 <= gpu.half_flops <= 250e12
        assert 4e12 <= gpu.single_flops <= 120e12
        assert 7e9 <= gpu.link_bandwidth <= 64e9
        assert 50 <= gpu.half_flops / gpu.bandwidth <= 450, gpu.title  # a wrong figure leaves it
        assert find(gpu.name, gpu.memory_bytes) == gpu
        assert find(gpu.name, gpu.memory_bytes - 300 * 2**20) == gpu  # the driver keeps a little


def test_multiprocessors_are_those_of_the_white_papers() -> None:
    known = {"RTX 2080 Ti": 68, "RTX 3090": 82, "RTX 4090": 128, "RTX 5090": 170}
    assert {name: named(name).multiprocessors for name in known} == known


def test_gpus_differ_and_every_generation_has_desktop_and_laptop_ones() -> None:
    seen = Counter((gpu.name, gpu.memory_bytes) for gpu in gpu_specs())
    assert set(seen.values()) == {1}
    assert len({(gpu.generation, gpu.form_factor) for gpu in gpu_specs()}) == 8


def test_matrix_rates_are_those_of_the_white_papers() -> None:
    for name, teraflops in PUBLISHED.items():
        found = find(name)
        assert found is not None
        assert found.half_flops == pytest.approx(teraflops * 1e12, rel=0.01)


def test_names_may_be_short_and_memory_of_another_size() -> None:
    for name in ("NVIDIA GeForce RTX 5070 Ti", "GeForce RTX 5070 Ti", "rtx 5070 ti", "5070 Ti"):
        assert named(name).title == "RTX 5070 Ti, 16 GB"
    assert named("RTX 3060", 8 * GIB).bandwidth == 240e9  # there is such a GPU
    assert named("RTX 5070 Ti", 12 * GIB).title == "RTX 5070 Ti, 12 GB"


def test_an_unknown_gpu_names_the_nearest() -> None:
    nearest = {"NVIDIA GeForce RTX 5075 Ti": "RTX 5070 Ti", "?": "for example NVIDIA"}
    for name, hint in nearest.items():
        with pytest.raises(SettingsError) as caught:
            named(name)
        assert hint in caught.value.hint


def test_a_name_of_gpus_of_two_sizes_asks_which() -> None:
    with pytest.raises(SettingsError) as caught:
        pretended("RTX 3080")
    assert "RTX 3080, 10 GB / RTX 3080, 12 GB" in str(caught.value)
    for text, memory, size in (
        *(("RTX 3080 10 GB", "", 10), ("RTX 3080, 12 GB", "", 12), ("3080 12GiB", "", 12)),
        *(("RTX 3080", "10GiB", 10), ("RTX 3080", "8GiB", 8), ("RTX 3090", "", 24)),
    ):
        (gpu,) = pretended(text, memory=memory)
        assert gpu.memory_bytes == size * GIB, text


def test_the_environment_may_request_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.delenv(MEMORY, raising=False)
    assert pretended("") == from_environment() == ()
    monkeypatch.setenv(NAME, "RTX 4060 Ti")
    monkeypatch.setenv(MEMORY, "16GiB")
    (found,) = from_environment()
    assert found.title == "RTX 4060 Ti, 16 GB"
    monkeypatch.setenv(NAME, "RTX 5090, RTX 3060 12 GB")
    monkeypatch.delenv(MEMORY)
    both = from_environment()
    assert [gpu.memory_bytes // GIB for gpu in both] == [32, 12]
    assert fastest(both) == both[0]
    assert fastest(()) is None
    monkeypatch.setenv(NAME, "RTX 9999")
    with pytest.raises(SettingsError, match="RTX 9999") as caught:
        from_environment()
    assert NAME in caught.value.hint


def test_memory_alone_means_the_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"total_bytes": 12 * GIB, "free_bytes": 11 * GIB}
    own = devices.Gpu(name="NVIDIA GeForce RTX 4070", driver="580.1", capability=(8, 9), **sizes)
    monkeypatch.setattr(devices, "gpus", lambda: (own,))
    (found,) = pretended("", memory="8GiB")
    assert found.title == "RTX 4070, 8 GB"
    monkeypatch.setattr(devices, "gpus", tuple)
    with pytest.raises(SettingsError, match="no NVIDIA GPU"):
        pretended("", memory="8GiB")
