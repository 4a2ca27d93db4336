import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from engine.hardware import devices, torch_memory
from engine.hardware.gpu_table import named
from engine.hardware.out_of_memory import free_memory
from engine.hardware.torch_memory import share_of, within

GIB = 2**30


def with_torch(monkeypatch: pytest.MonkeyPatch, *, used: bool) -> None:
    cuda = SimpleNamespace(
        is_initialized=lambda: used,
        memory_reserved=lambda number: 700 + number,
        host_memory_stats=lambda: {"allocated_bytes.current": 30},
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


def test_before_torch_uses_a_gpu_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert (torch_memory.gpu_bytes(), torch_memory.pinned_bytes()) == (0, 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # half loaded by another thread
    assert (torch_memory.gpu_bytes(), torch_memory.pinned_bytes()) == (0, 0)
    with_torch(monkeypatch, used=False)
    assert (torch_memory.gpu_bytes(), torch_memory.pinned_bytes()) == (0, 0)


def test_pinned_bytes_of_torch_and_our_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, used=True)
    ours = SimpleNamespace(registered_bytes=lambda: 5)
    monkeypatch.setitem(sys.modules, "engine.ops.transfer.pinned", ours)
    assert (torch_memory.gpu_bytes(), torch_memory.pinned_bytes()) == (700, 35)
    monkeypatch.delitem(sys.modules, "engine.ops.transfer.pinned")
    assert torch_memory.pinned_bytes() == 30


@pytest.fixture
def fractions(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Limits that a GPU of 8 GiB gets."""
    limits: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = SimpleNamespace(total_memory=8 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, device: limits.append(share)
    )
    return limits


def test_a_selected_gpu_is_that_of_torch_of_readings_and_of_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = devices.as_gpus((named("RTX 3060"), named("RTX 4090")))
    current, seen = [0], list[tuple[int, int]]()

    @contextmanager
    def device(number: int) -> Iterator[None]:
        before, current[0] = current[0], number
        yield
        current[0] = before

    monkeypatch.setattr(devices, "gpus", lambda: here)
    for name, value in (
        ("device", device),
        ("is_available", lambda: True),
        ("current_device", lambda: current[0]),
        ("get_device_properties", lambda number: SimpleNamespace(total_memory=8 * GIB)),
        ("set_per_process_memory_fraction", lambda _, number: seen.append((number, current[0]))),
        ("is_initialized", lambda: True),
        ("memory_reserved", lambda number: number),
    ):
        monkeypatch.setattr(torch.cuda, name, value)
    for wanted, number in (("auto", 1), (here[0].name, 0), ("gone", 1)):
        seen.clear()
        with torch_memory.selected(wanted), within(GIB):
            assert (current[0], torch_memory.gpu_bytes()) == (number, number)
        assert seen == [(number, number)] * 2
        assert (current[0], devices.in_use()) == (0, here[1])
    assert torch_memory.gpu_bytes(0) == 0


def test_memory_of_the_process_of_a_gpu_is_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = devices.as_gpus((named("RTX 3060"), named("RTX 4090")))
    monkeypatch.setattr(devices, "gpus", lambda: here)
    monkeypatch.setattr(torch_memory, "_elsewhere", (0, 0, 0))
    torch_memory.note_elsewhere(5 * GIB, 3 * GIB, GIB)
    assert torch_memory.OWN.gpu_bytes() == torch_memory.gpu_bytes(1) == 5 * GIB
    assert torch_memory.gpu_bytes(0) == 0, "it uses the fastest one"
    assert torch_memory.OWN.pinned_bytes() == 3 * GIB
    assert torch_memory.OWN.shared_bytes() == GIB


def test_a_budget_is_the_limit_and_is_lifted_afterwards(fractions: list[float]) -> None:
    with within(0):  # a processor has none
        pass
    assert fractions == []
    with pytest.raises(ZeroDivisionError), within(6 * GIB):
        assert fractions == [0.75]
        raise ZeroDivisionError
    assert fractions == [0.75, 1.0]


def test_the_share_is_within_the_range_of_torch() -> None:
    for budget, share in ((4, 0.5), (16, 1.0), (0, 0.01)):
        assert share_of(budget * GIB, 8 * GIB) == share


@pytest.mark.gpu
def test_the_gpu_refuses_more_than_the_budget() -> None:
    free_memory()
    held = torch.cuda.memory_reserved()
    with within(held + GIB):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
        assert torch.empty(GIB // 4, dtype=torch.uint8, device="cuda").is_cuda
    assert torch.empty(2 * GIB, dtype=torch.uint8, device="cuda").is_cuda
