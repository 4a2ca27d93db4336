"""The clock of Dask on Windows."""

from __future__ import annotations

import itertools
import time

import pytest
from distributed import metrics

from engine.workers import worker

_READINGS = 100


def test_a_clock_that_is_fine_already_is_read_once() -> None:
    assert worker.clock  # with it the limit comes into each process
    start, count = time.time(), itertools.count()

    def fine() -> float:
        reading = next(count)
        assert reading < _READINGS, "it reads without an end"
        return start + 1e-7 * reading

    found = metrics._WindowsTime(fine, is_monotonic=False).time()
    assert found == pytest.approx(start, abs=1.0)
