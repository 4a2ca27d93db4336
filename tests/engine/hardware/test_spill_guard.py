"""The decision that a GPU spills, with made-up readings and a fake clock."""

import pytest

from engine.hardware.spill_guard import LIKELY_BYTES, SURE_BYTES, Spilled, SpillGuard

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


# Shared memory at the start; of some pieces of work: shared memory, seconds, number. Then the bytes
# that are reported as spilled while the last piece runs; 0: none.
CASES = {
    "steady work": (300 * MIB, [(300 * MIB, 0.5, 100)], 0),
    "slow work alone": (0, [(0, 0.5, 6), (0, 50.0, 6)], 0),
    "much": (100 * MIB, [(100 * MIB, 0.5, 3), (100 * MIB + SURE_BYTES, 0.5, 1)], SURE_BYTES),
    "some, as fast as before": (0, [(0, 0.5, 6), (LIKELY_BYTES, 0.5, 6)], 0),
    "some, slower": (0, [(0, 0.5, 6), (LIKELY_BYTES, 2.0, 1)], LIKELY_BYTES),
    "freed before": (2 * SURE_BYTES, [(0, 0.5, 3), (SURE_BYTES, 0.5, 1)], SURE_BYTES),
    "no counter": (None, [(None, 0.5, 9), (None, 500.0, 9)], 0),
}


@pytest.mark.parametrize("case", CASES)
def test_a_spill_is_much_shared_memory_or_some_and_slow_work(case):
    start, steps, spilled = CASES[case]
    gpu = FakeGpu(start)
    guard = gpu.guard()
    *before, (gpu_shared, seconds, times) = steps
    for gpu.shared, took, count in before:
        gpu.works(guard, took, times=count)
    gpu.shared = gpu_shared
    if spilled:
        with pytest.raises(Spilled) as caught:
            gpu.works(guard, seconds, times=times)
        assert caught.value.spilled_bytes == spilled
    else:
        gpu.works(guard, seconds, times=times)


def test_pinned_memory_is_no_spill():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.shared = gpu.pinned = 10 * SURE_BYTES
    gpu.works(guard, 0.5, times=5)
    gpu.shared += SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 0.5)


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


def test_quick_work_does_not_read_the_counter_every_time():
    gpu = FakeGpu()
    gpu.works(gpu.guard(), 0.001, times=1000)  # one second
    assert gpu.reads <= 8


def test_a_new_attempt_has_times_and_memory_of_its_own():
    gpu = FakeGpu()
    guard = gpu.guard()
    gpu.works(guard, 0.1, times=9)
    guard.begin()
    gpu.shared = LIKELY_BYTES
    gpu.works(guard, 2.0, times=9)
    gpu.shared = 3 * SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 2.0)
    guard.begin()  # Windows does not fetch everything back at once
    gpu.works(guard, 2.0, times=9)
    gpu.shared += SURE_BYTES
    with pytest.raises(Spilled):
        gpu.works(guard, 2.0)
