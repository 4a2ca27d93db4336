from __future__ import annotations

import pytest
import torch

from engine.bench.timing.peak_allocations import peak_bytes

_MIB = 2**20


def test_the_peak_is_what_tensors_take_at_once() -> None:
    def work() -> torch.Tensor:
        first = torch.zeros(4 * _MIB, dtype=torch.uint8)
        second = first + 1  # 8 MiB at once
        del first
        return second + 1  # still 8

    assert peak_bytes(work, "cpu") == pytest.approx(8 * _MIB, rel=1e-4)
    assert peak_bytes(work, "cpu") == pytest.approx(8 * _MIB, rel=1e-4)


def test_what_was_there_before_does_not_count() -> None:
    kept = [torch.zeros(_MIB)]
    assert peak_bytes(lambda: kept.clear() or torch.zeros(1024), "cpu") < _MIB


@pytest.mark.gpu
def test_the_peak_of_a_card() -> None:
    found = peak_bytes(lambda: torch.zeros(8 * _MIB, dtype=torch.uint8, device="cuda") + 1, "cuda")
    assert found == 16 * _MIB
