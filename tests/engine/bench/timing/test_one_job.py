from __future__ import annotations

import threading
import time

from engine.bench.timing.one_job import ThreadTimes


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def test_threads_are_distinguished_by_name() -> None:
    def work() -> None:
        busy(0.3)
        time.sleep(0.5)  # still alive at the next sample, also on a busy machine

    with ThreadTimes() as times:
        thread = threading.Thread(target=work, name="read")
        thread.start()
        thread.join()
    assert 0.1 < times.seconds["read"] < 0.5
