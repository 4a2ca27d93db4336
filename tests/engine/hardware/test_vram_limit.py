"""Torch stays within the budget of a plan."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from engine.hardware.out_of_memory import give_back
from engine.hardware.vram_limit import share_of, within

GIB = 2**30


@pytest.fixture
def fractions(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A card of 8 GiB that writes down its limits."""
    told: list[float] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    card = SimpleNamespace(total_memory=8 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, device: told.append(share)
    )
    return told


def test_a_budget_is_the_limit_and_is_lifted_afterwards(fractions: list[float]) -> None:
    with within(6 * GIB):
        assert fractions == [0.75]
    assert fractions == [0.75, 1.0]


def test_the_limit_is_lifted_after_an_error_too(fractions: list[float]) -> None:
    with pytest.raises(ZeroDivisionError), within(2 * GIB):
        raise ZeroDivisionError
    assert fractions == [0.25, 1.0]


def test_a_processor_has_no_limit(fractions: list[float]) -> None:
    with within(0):
        pass
    assert fractions == []


@pytest.mark.parametrize(("budget", "share"), [(4, 0.5), (16, 1.0), (0, 0.01)])
def test_the_share_is_one_that_torch_takes(budget: int, share: float) -> None:
    assert share_of(budget * GIB, 8 * GIB) == share


@pytest.mark.gpu
def test_the_card_refuses_more_than_the_budget() -> None:
    give_back()
    held = torch.cuda.memory_reserved()
    with within(held + GIB):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
        assert torch.empty(GIB // 4, dtype=torch.uint8, device="cuda").is_cuda
    assert torch.empty(2 * GIB, dtype=torch.uint8, device="cuda").is_cuda
