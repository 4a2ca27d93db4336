"""Wall time and processor time of a piece of work: medians of several runs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds of one run; `cpu_s` counts every thread of the process."""

    wall_s: float
    cpu_s: float


def measure(work: Callable[[], object], *, runs: int, warm_ups: int = 1) -> Timing:
    """Medians of `runs` runs, after `warm_ups` that do not count."""
    for _ in range(warm_ups):
        work()
    timings = [_once(work) for _ in range(runs)]
    return Timing(
        wall_s=statistics.median(timing.wall_s for timing in timings),
        cpu_s=statistics.median(timing.cpu_s for timing in timings),
    )


def _once(work: Callable[[], object]) -> Timing:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Timing(wall_s=time.perf_counter() - wall, cpu_s=time.process_time() - cpu)


class ThreadTimes:
    """Processor seconds of each thread while inside, by the name of the thread.

    Threads that Python did not start (codecs, torch) are summed up as "native". Looked at twenty
    times a second: what a thread does in its very last moment is missed.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._names: dict[int, str] = {}
        self._begin: dict[int, float] = {}
        self._latest: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench", daemon=True)

    def __enter__(self) -> ThreadTimes:
        self._begin = self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._look()
        for number, seconds in self._latest.items():
            name = self._names.get(number, "native")
            spent = seconds - self._begin.get(number, 0.0)
            self.seconds[name] = self.seconds.get(name, 0.0) + spent

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self._look()

    def _look(self) -> dict[int, float]:
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._names[thread.native_id] = thread.name
        now = {t.id: t.user_time + t.system_time for t in psutil.Process().threads()}
        self._latest |= now
        return now
