import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from engine.hardware import budget as budgets
from engine.hardware import devices
from engine.hardware.budget import Budget, measure_budget, pretended_budget
from engine.hardware.commit import Commit
from engine.hardware.gpu_reading import PcieLink
from engine.hardware.gpu_table import GIB, gpu_specs, named
from engine.planner import availability
from engine.settings.schema import EngineSettings

GPU = named("RTX 5070 Ti")
LEFT = 1860 * 2**20  # to the driver, Windows and its desktop
ROOT = Path(__file__).parents[3]


def device(free_bytes: int) -> devices.Gpu:
    """That GPU in this machine."""
    options = {"total_bytes": 16303 * 2**20, "driver": "580.1", "capability": (12, 0)}
    return devices.Gpu(name=GPU.name, free_bytes=free_bytes, **options)


def test_a_pretended_gpu_has_the_memory_that_a_desktop_leaves(tmp_path: Path) -> None:
    plain = measure_budget(EngineSettings(), tmp_path, tmp_path)
    found = measure_budget(EngineSettings(), tmp_path, tmp_path, (GPU,))
    assert found.cuda
    assert found.is_pretended
    assert (found.gpu, found.capability) == (GPU, (12, 0))
    assert found.vram_limit_bytes == pytest.approx(16 * GIB - LEFT)
    assert found.vram_bytes == pytest.approx(0.96 * found.vram_limit_bytes)
    assert (found.threads, found.same_disk) == (plain.threads, plain.same_disk)


def test_the_own_gpu_is_not_pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: (device(15 * GIB),))
    monkeypatch.setattr(budgets, "torch_has_cuda", lambda: True)
    narrow = PcieLink(generation=4, width=8, gpu_generation=5, gpu_width=16)
    monkeypatch.setattr(budgets, "link_of", lambda _: narrow)
    found = measure_budget(EngineSettings(), tmp_path, tmp_path)
    assert found.gpu == replace(GPU, link_bandwidth=narrow.bandwidth)
    assert found.gpu_memory_bytes == 16 * GIB
    assert not found.is_pretended
    assert 14 * GIB < found.vram_limit_bytes < 15 * GIB


def test_a_budget_is_that_of_the_chosen_gpu(tmp_path: Path) -> None:
    """Of those that are here; of the fastest, where the chosen one is gone."""
    here = (named("RTX 3060"), GPU)
    for wanted, spec, is_gone in (
        *(("auto", GPU, False), ("cpu", GPU, False), ("cuda", GPU, False)),
        *(("3060", here[0], False), ("cuda:0", here[0], False), ("RTX 4090", GPU, True)),
    ):
        found = measure_budget(EngineSettings(), tmp_path, tmp_path, here, device=wanted)
        assert (found.gpu, found.gpu_is_gone) == (spec, is_gone), wanted
        assert found.gpu_value == spec.name
        assert found.vram_limit_bytes == pytest.approx(spec.memory_bytes - LEFT)


def test_a_budget_of_all_gpus_has_that_of_each(tmp_path: Path) -> None:
    here = (named("RTX 3060"), GPU, named("RTX 3060"))

    def measured(*excluded: str) -> Budget:
        return measure_budget(
            EngineSettings(), tmp_path, tmp_path, here, device="all", excluded=excluded
        )

    found = measured()
    assert [one.title for one in found.gpus] == [
        "RTX 5070 Ti, 16 GB",
        "RTX 3060, 12 GB (0)",
        "RTX 3060, 12 GB (2)",
    ]
    assert [one.gpu_value for one in found.gpus] == [GPU.name, "cuda:0", "cuda:2"]
    assert (found.gpu, found.vram_bytes) == (GPU, found.gpus[0].vram_bytes)
    assert [one.gpu for one in measured("5070 Ti").gpus] == [here[0], here[0]]
    least = found.gpus[1].vram_bytes
    busy = replace(
        found, vram_bytes=0, gpus=tuple(replace(one, vram_bytes=0) for one in found.gpus)
    )
    assert busy.idle.vram_bytes == least
    assert [one.vram_bytes for one in busy.idle.gpus] == [one.vram_bytes for one in found.gpus]


def test_gpus_that_are_too_old_are_left_out_next_to_newer_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = replace(device(15 * GIB), number=1)
    old = replace(new, name="NVIDIA GeForce GTX 1080", capability=(6, 1), number=0)
    monkeypatch.setattr(budgets, "torch_has_cuda", lambda: True)
    for here, usable in (((old, new), (new,)), ((old,), (old,)), ((), ())):
        monkeypatch.setattr(devices, "gpus", lambda here=here: here)
        assert budgets.gpus_here() == usable
    monkeypatch.setattr(devices, "gpus", lambda: (old, new))
    listed = availability.devices_here()
    assert [one.title for one in listed.devices] == ["RTX 5070 Ti, 16 GB", ""]
    assert listed.automatic == listed.devices[0]
    monkeypatch.setattr(budgets, "torch_has_cuda", lambda: False)
    assert budgets.gpus_here() == ()
    assert availability.devices_here().automatic.value == "cpu"


def test_less_of_larger_gpus_is_for_tensors_and_none_can_be_pretended_too() -> None:
    for gpu in gpu_specs():
        found = pretended_budget(gpu, ram_bytes=16 * GIB)
        assert found.vram_limit_bytes == pytest.approx(gpu.memory_bytes - LEFT)
        assert found.vram_bytes == pytest.approx(0.96 * found.vram_limit_bytes)
    found = pretended_budget(None, ram_bytes=16 * GIB, threads=4)
    assert not found.cuda
    assert not found.is_pretended
    assert (found.ram_bytes, found.threads, found.vram_bytes) == (16 * GIB, 4, 0)


def test_the_size_of_a_gpu_does_not_depend_on_its_free_memory() -> None:
    assert pretended_budget(GPU, ram_bytes=GIB).gpu_memory_bytes == 16 * GIB
    assert pretended_budget(None, ram_bytes=GIB).gpu_memory_bytes == 0
    unknown = Budget(ram_bytes=GIB, threads=1, cuda=True, vram_bytes=12 * GIB)
    assert unknown.gpu_memory_bytes == 12.5 * GIB + LEFT


def test_memory_of_a_running_job_is_free_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A film that was added while another ran was planned into the rest of the memory."""
    monkeypatch.setattr(devices, "gpus", lambda: (device(2 * GIB),))
    monkeypatch.setattr(budgets, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(budgets.torch_memory, "gpu_bytes", lambda number: 12 * GIB)
    monkeypatch.setattr(devices, "ram", lambda: (32 * GIB, 10 * GIB))
    monkeypatch.setattr(devices, "own_ram", lambda: 12 * GIB)
    found = measure_budget(EngineSettings(memory_share=0.5), tmp_path, tmp_path)
    assert found.vram_limit_bytes == pytest.approx(14 * GIB - 900 * 2**20)
    assert found.ram_bytes == 11 * GIB


def test_memory_that_the_system_does_not_promise_is_not_in_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PC with 32 GB and no page file: browsers were promised more than they use."""
    monkeypatch.setattr(devices, "ram", lambda: (32 * GIB, 20 * GIB))
    monkeypatch.setattr(devices, "own_ram", lambda: GIB)
    promised = Commit(limit_bytes=32 * GIB, left_bytes=9 * GIB, counts_vram=True)
    for state in (None, promised, replace(promised, counts_vram=False)):
        monkeypatch.setattr(budgets.commit, "commit", lambda state=state: state)
        found = measure_budget(EngineSettings(memory_share=0.5), tmp_path, tmp_path, (GPU,))
        assert found.ram_bytes == 10.5 * GIB
        assert found.ram_beside(0) == (10.5 * GIB if state is None else 9 * GIB)
        beside = 3 * GIB if state == promised else found.ram_beside(0)
        assert found.ram_beside(6 * GIB) == beside
        assert (found.ram_beside(16 * GIB) == 0) == (state == promised)


def test_the_users_limit_of_gpu_memory_counts_where_less_is_free_anyway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "torch_has_cuda", lambda: True)
    total = device(0).total_bytes
    for free, limit, is_limited in ((15, 1.0, False), (15, 0.5, True), (6, 0.5, False)):
        monkeypatch.setattr(devices, "gpus", lambda free=free: (device(free * GIB),))
        settings = EngineSettings(vram_limit=limit)
        found = measure_budget(settings, tmp_path, tmp_path)
        left = free * GIB - 900 * 2**20
        assert found.vram_limit_bytes == pytest.approx(min(left, limit * total))
        assert found.is_vram_limited == is_limited
        assert found.idle.vram_limit_bytes <= limit * 16 * GIB + 1
        pretended = measure_budget(settings, tmp_path, tmp_path, (GPU,))
        assert pretended.vram_limit_bytes == pytest.approx(min(16 * GIB - LEFT, limit * 16 * GIB))
        assert pretended.gpu_memory_bytes == 16 * GIB  # the file that suits it stays the same


def test_own_memory_grows_by_an_allocation() -> None:
    """In a process of its own: here freed memory of other tests could be taken again."""
    script = (
        "import os; from engine.hardware import devices; before = devices.own_ram();"
        "held = os.urandom(64 * 2**20); print(devices.own_ram() - before)"
    )
    grown = subprocess.check_output([sys.executable, "-c", script], text=True, cwd=ROOT)
    assert 48 * 2**20 < int(grown) < 96 * 2**20
