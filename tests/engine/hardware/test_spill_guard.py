"""The decision that a GPU spills, with made-up readings and a fake clock."""

from __future__ import annotations

import pytest

from engine.hardware.spill_guard import (
    LIKELY_BYTES,
    SURE_BYTES,
    Spilled,
    SpillGuard,
)

MIB = 2**20


class FakeGpu:
    """Readings, and a clock."""

    def __init__(self, shared: int | None = 0, pinned: int = 0) -> None:
        self.shared, self.pinned, self.now, self.reads = shared, pinned, 0.0, 0

    def read(self) -> int | None:
        self.reads += 1
        return self.shared

    def guard(self, **expected: float) -> SpillGuard:
        return SpillGuard(self.read, lambda: self.pinned, clock=lambda: self.now, expected=expected)

    def works(self, guard: SpillGuard, seconds: float, kind: str = "tile", times: int = 1) -> None:
        for _ in range(times):
            self.now += seconds
            guard.check(kind)


def test_steady_work_is_no_spill():
    gpu = FakeGpu(300 * MIB)
    gpu.works(gpu.guard(), 0.5, times=100)


def test_much_shared_memory_is_enough():
    gpu = FakeGpu(100 * MIB)
    guard = gpu.guard()
    gpu.works(guard, 0.5, times=3)
    gpu.shared = 100 * MIB + SURE_BYTES
    with pytest.raises(Spilled) as caught:
        gpu.works(guard, 0.5)
    assert caught.value.spilled_bytes == SURE_BYTES


def test_pinned_memory_is_no_spill():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.shared = gpu.pinned = 10 * SURE_BYTES
    gpu.works(guard, 0.5, times=5)
    gpu.shared += SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 0.5)


def test_some_shared_memory_counts_where_work_is_slow():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 0.5, times=6)
    gpu.shared = LIKELY_BYTES
    gpu.works(guard, 0.5, times=6)  # as fast as before
    with pytest.raises(Spilled):
        gpu.works(guard, 2.0)


def test_slow_work_alone_is_no_spill():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 0.5, times=6)
    gpu.works(guard, 50.0, times=6)


def test_the_first_pieces_are_compared_with_the_prediction():
    gpu = FakeGpu()
    guard = gpu.guard(tile=0.1)
    gpu.shared = LIKELY_BYTES
    gpu.works(guard, 0.3, times=3)
    with pytest.raises(Spilled):
        gpu.works(guard, 0.7)


def test_work_of_different_kinds_is_not_compared():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.shared = LIKELY_BYTES
    gpu.works(guard, 0.1, "layer", times=8)
    gpu.works(guard, 5.0, "tile", times=8)
    for _ in range(8):
        gpu.works(guard, 0.1, "layer")
        gpu.works(guard, 9.0, "")  # other work in between


def test_a_spill_within_one_tile_is_found():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 5.0, times=3)
    gpu.shared = SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 5.0)


def test_quick_work_does_not_read_the_counter_every_time():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 0.001, times=1000)  # one second
    assert gpu.reads <= 8


def test_shared_memory_that_was_freed_does_not_hide_a_spill():
    gpu = FakeGpu(2 * SURE_BYTES)
    guard = gpu.guard()
    gpu.shared = 0
    gpu.works(guard, 0.5, times=3)
    gpu.shared = SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 0.5)


def test_without_a_counter_nothing_is_decided():
    gpu = FakeGpu(None)
    guard = gpu.guard(tile=0.01)
    gpu.works(guard, 0.5, times=9)
    gpu.works(guard, 500.0, times=9)


def test_a_new_attempt_has_times_of_its_own():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 0.1, times=9)
    guard.begin()
    gpu.shared = LIKELY_BYTES
    gpu.works(guard, 2.0, times=9)


def test_memory_spilled_by_an_earlier_attempt_does_not_count():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.shared = 2 * SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 0.5)
    guard.begin()  # Windows does not fetch everything back at once
    gpu.works(guard, 0.5, times=9)
    gpu.shared += SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 0.5)
