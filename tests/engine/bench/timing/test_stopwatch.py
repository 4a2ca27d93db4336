from __future__ import annotations

import threading
import time

from engine.bench.timing.stopwatch import ThreadTimes, measure


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def test_warm_ups_do_not_count() -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.2)

    assert measure(work, runs=3).wall_s < 0.1
    assert len(calls) == 4


def test_processor_time_is_that_of_the_work() -> None:
    timing = measure(lambda: busy(0.02), runs=3, warm_ups=0)
    assert 0.015 < timing.cpu_s < 0.2
    assert measure(lambda: time.sleep(0.02), runs=3, warm_ups=0).cpu_s < 0.01


def test_threads_are_told_apart_by_name() -> None:
    def work() -> None:
        busy(0.3)
        time.sleep(0.5)  # still there when somebody looks, on a machine that is busy too

    with ThreadTimes() as times:
        thread = threading.Thread(target=work, name="read")
        thread.start()
        thread.join()
    assert 0.1 < times.seconds["read"] < 0.5
