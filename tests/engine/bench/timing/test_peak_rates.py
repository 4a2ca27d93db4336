from __future__ import annotations

import time

import pytest
import torch

from engine.bench.timing import peak_rates
from engine.bench.timing.peak_rates import Clocked, clocked


def test_a_processor_counts_work_and_not_waiting() -> None:
    timing = clocked(lambda: time.sleep(0.05), "cpu", runs=3, warm_ups=1)
    assert timing.wall_s >= 0.05
    assert timing.seconds < 0.04


def test_medians_leave_warm_ups_and_outliers_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 1.0, 2.0])
    monkeypatch.setattr(
        peak_rates, "_on_processor", lambda work: Clocked(seconds=next(seconds), wall_s=1.0)
    )
    calls = []
    assert clocked(lambda: calls.append(1), "cpu", runs=3, warm_ups=2).seconds == 2.0
    assert len(calls) == 2


def test_a_ceiling_is_operations_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        peak_rates, "clocked", lambda *args, **kwargs: Clocked(seconds=0.5, wall_s=9.0)
    )
    found = peak_rates.matrix_ceiling("cpu", torch.float32, quick=True)
    assert found == 2 * 512**3 / 0.5


def test_the_calibration_takes_two_threads_and_puts_them_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []

    def fake(work: object, device: str, *, runs: int, warm_ups: int) -> Clocked:
        seen.append((torch.get_num_threads(), (runs, warm_ups)))
        return Clocked(seconds=0.7, wall_s=0.4)

    monkeypatch.setattr(peak_rates, "clocked", fake)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert peak_rates.calibration() == 0.7
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert seen == [(2, (15, 3))]
