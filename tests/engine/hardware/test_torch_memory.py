from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from engine.hardware import torch_memory


def with_torch(monkeypatch: pytest.MonkeyPatch, *, used: bool) -> None:
    cuda = SimpleNamespace(
        is_initialized=lambda: used,
        memory_reserved=lambda: 700,
        host_memory_stats=lambda: {"allocated_bytes.current": 30},
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


def test_before_torch_is_loaded_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert (torch_memory.card_bytes(), torch_memory.pinned_bytes()) == (0, 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # half loaded by another thread
    assert (torch_memory.card_bytes(), torch_memory.pinned_bytes()) == (0, 0)


def test_before_a_card_is_used_nobody_asks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, used=False)
    assert (torch_memory.card_bytes(), torch_memory.pinned_bytes()) == (0, 0)


def test_both_ways_of_pinning_count(monkeypatch: pytest.MonkeyPatch) -> None:
    with_torch(monkeypatch, used=True)
    ours = SimpleNamespace(registered_bytes=lambda: 5)
    monkeypatch.setitem(sys.modules, "engine.ops.transfer.pinned", ours)
    assert (torch_memory.card_bytes(), torch_memory.pinned_bytes()) == (700, 35)
    monkeypatch.delitem(sys.modules, "engine.ops.transfer.pinned")
    assert torch_memory.pinned_bytes() == 30
