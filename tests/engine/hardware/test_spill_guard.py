"""The decision that a card spills, with made-up readings and a clock that is set by hand."""

from __future__ import annotations

import pytest

from engine.hardware.spill_guard import (
    LIKELY_BYTES,
    SURE_BYTES,
    Spilled,
    SpillGuard,
)

MIB = 2**20


class Card:
    """Readings, and a clock."""

    def __init__(self, shared: int | None = 0, pinned: int = 0) -> None:
        self.shared, self.pinned, self.now, self.asked = shared, pinned, 0.0, 0

    def read(self) -> int | None:
        self.asked += 1
        return self.shared

    def guard(self, **expected: float) -> SpillGuard:
        return SpillGuard(self.read, lambda: self.pinned, clock=lambda: self.now, expected=expected)

    def works(self, guard: SpillGuard, seconds: float, kind: str = "tile", times: int = 1) -> None:
        for _ in range(times):
            self.now += seconds
            guard.check(kind)


def test_work_at_a_steady_pace_is_left_alone():
    card = Card(300 * MIB)
    card.works(card.guard(), 0.5, times=100)


def test_much_shared_memory_is_enough():
    card = Card(100 * MIB)
    guard = card.guard()
    card.works(guard, 0.5, times=3)
    card.shared = 100 * MIB + SURE_BYTES
    with pytest.raises(Spilled) as caught:
        card.works(guard, 0.5)
    assert caught.value.spilled_bytes == SURE_BYTES


def test_what_we_pinned_ourselves_is_no_spill():
    card = Card()
    guard = card.guard()
    card.shared = card.pinned = 10 * SURE_BYTES
    card.works(guard, 0.5, times=5)
    card.shared += SURE_BYTES
    with pytest.raises(Spilled):
        card.works(guard, 0.5)


def test_some_shared_memory_counts_where_work_is_slow():
    card = Card()
    guard = card.guard()
    card.works(guard, 0.5, times=6)
    card.shared = LIKELY_BYTES
    card.works(guard, 0.5, times=6)  # as fast as before
    with pytest.raises(Spilled):
        card.works(guard, 2.0)


def test_slow_work_alone_says_nothing():
    card = Card()
    guard = card.guard()
    card.works(guard, 0.5, times=6)
    card.works(guard, 50.0, times=6)


def test_the_first_pieces_are_compared_with_the_prediction():
    card = Card()
    guard = card.guard(tile=0.1)
    card.shared = LIKELY_BYTES
    card.works(guard, 0.3, times=3)
    with pytest.raises(Spilled):
        card.works(guard, 0.7)


def test_work_of_different_kinds_is_not_compared():
    card = Card()
    guard = card.guard()
    card.shared = LIKELY_BYTES
    card.works(guard, 0.1, "layer", times=8)
    card.works(guard, 5.0, "tile", times=8)
    for _ in range(8):
        card.works(guard, 0.1, "layer")
        card.works(guard, 9.0, "")  # whatever lies between


def test_a_reading_within_one_tile():
    card = Card()
    guard = card.guard()
    card.works(guard, 5.0, times=3)
    card.shared = SURE_BYTES
    with pytest.raises(Spilled):
        card.works(guard, 5.0)


def test_quick_work_does_not_ask_the_system_every_time():
    card = Card()
    guard = card.guard()
    card.works(guard, 0.001, times=1000)  # one second
    assert card.asked <= 8


def test_memory_that_was_shared_before_and_given_back_does_not_hide_a_spill():
    card = Card(2 * SURE_BYTES)
    guard = card.guard()
    card.shared = 0
    card.works(guard, 0.5, times=3)
    card.shared = SURE_BYTES
    with pytest.raises(Spilled):
        card.works(guard, 0.5)


def test_where_the_system_does_not_tell_nothing_is_decided():
    card = Card(None)
    guard = card.guard(tile=0.01)
    card.works(guard, 0.5, times=9)
    card.works(guard, 500.0, times=9)


def test_a_new_try_has_times_of_its_own():
    card = Card()
    guard = card.guard()
    card.works(guard, 0.1, times=9)
    guard.begin()
    card.shared = LIKELY_BYTES
    card.works(guard, 2.0, times=9)


def test_what_an_earlier_try_left_behind_is_not_held_against_the_next_one():
    card = Card()
    guard = card.guard()
    card.shared = 2 * SURE_BYTES
    with pytest.raises(Spilled):
        card.works(guard, 0.5)
    guard.begin()  # Windows does not fetch everything back at once
    card.works(guard, 0.5, times=9)
    card.shared += SURE_BYTES
    with pytest.raises(Spilled):
        card.works(guard, 0.5)
