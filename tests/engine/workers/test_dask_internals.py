"""What Dask does otherwise in a process of this program."""

from __future__ import annotations

import itertools
import time

import pytest
from distributed import metrics
from distributed.comm import inproc

from engine.workers import dask_internals, worker  # it adapts Dask, in each process

_READINGS = 100


def test_a_clock_that_is_fine_already_is_read_once() -> None:
    assert worker.dask_internals
    start, count = time.time(), itertools.count()

    def fine() -> float:
        reading = next(count)
        assert reading < _READINGS, "it reads without an end"
        return start + 1e-7 * reading

    found = metrics._WindowsTime(fine, is_monotonic=False).time()
    assert found == pytest.approx(start, abs=1.0)


def test_connections_inside_a_process_ask_no_computer_of_the_internet() -> None:
    assert worker.dask_internals
    assert inproc.new_address().startswith("inproc://127.0.0.1/")


def test_a_process_loads_its_libraries_for_good_before_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order is in the attributes, whose classes would load the same."""
    done: list[str] = []
    monkeypatch.setattr(dask_internals, "load_for_good", done.append)
    begins, _, attributes = dask_internals.WorkerProcess(name="one").__reduce__()
    assert attributes["_name"] == "one"
    assert type(begins()) is dask_internals.WorkerProcess
    assert done == [worker.__name__]
