"""Time that stages of a job take, and what they and their parts take of the GPU at most."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from engine.hardware import torch_memory
from engine.protocol.report import MemoryPeak

_PASSES = 4  # of a part that are measured: later ones are alike, and cost nothing
_ASIDE = ("read", "write")  # stages with threads of their own
_WAITS = {"wait-read": "read", "wait-write": "write"}
_SHORTEST_PAUSE_S = 0.05  # a busy computer takes milliseconds between readings of two clocks
_JUDGED_S = 10.0  # of work; a shorter time says nothing about the next
_LEAST_LOAD = 0.8  # with less of it something is worth changing
_this_thread = threading.local()


def end_part(name: str) -> None:
    """Called by a model where a part of it has ended; the meter of this thread counts it."""
    meter: StageMeter | None = getattr(_this_thread, "meter", _no_meter)()
    if meter is not None:
        meter.end_part(name)


def _no_meter() -> None:
    """Stands for the meter in threads that never had one."""


class StageMeter:
    """Seconds of stages, and their peaks of the GPU that this thread uses; none where it uses none.

    One thread computes stages in turns: each piece of work that ends takes the time since the one
    before, and torch's peak, whose count starts again. Where torch uses a GPU the time is the one
    between two events of the GPU, so that work counts for its stage though the host is ahead.
    Nothing waits for the GPU: times of events become known later.

    Models report the ends of their parts (`end_part`): of each part the first passes are measured.

    Args:
        clock: Seconds of work: it stands still in pauses.

    Attributes:
        peaks: Peak of each stage, bytes.
        parts: By stage and part, most bytes of tensors while the part worked.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.peaks: dict[str, MemoryPeak] = {}
        self.parts: dict[str, dict[str, int]] = {}
        self._clock = clock
        self._passes: Counter[str] = Counter()  # of each part
        self._piece_parts: dict[str, MemoryPeak] = {}  # of the piece that is in work
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()  # of the seconds
        self._ends: deque[_PieceEnd] = deque()  # the last one that is known, and those after it

    @property
    def largest(self) -> MemoryPeak | None:
        """Peak of all stages together; None where nothing was measured."""
        peaks = self.peaks.values()
        return reduce(MemoryPeak.larger, peaks) if peaks else None

    def restart(self) -> None:
        """Forget the peaks, for another try; seconds are of all tries, without what is between.

        From now on this meter counts parts that end in this thread.
        """
        torch_memory.take_peak()
        self._count()
        self.peaks, self.parts = {}, {}
        self._passes.clear()
        self._piece_parts = {}
        _this_thread.meter = weakref.ref(self)
        self._ends = deque([self._piece_end("")])

    def end(self, stage: str) -> None:
        """A piece of a stage's work has ended; what went before it is counted with it."""
        found = torch_memory.take_peak()
        if found is not None:
            found = reduce(MemoryPeak.larger, self._piece_parts.values(), found)
            self.peaks[stage] = found.larger(self.peaks.get(stage, found))
            self._keep_parts(stage)
        self._ends.append(self._piece_end(stage))
        self._count()

    def end_part(self, name: str) -> None:
        """A part has ended; what went before it in the piece is counted with it."""
        if self._passes[name] == _PASSES:
            return
        self._passes[name] += 1
        found = torch_memory.take_tensor_peak()
        if found is not None:
            self._piece_parts[name] = found.larger(self._piece_parts.get(name, found))

    def _keep_parts(self, stage: str) -> None:
        if self._piece_parts:
            kept = self.parts.setdefault(stage, {})
            for name, peak in self._piece_parts.items():
                kept[name] = max(kept.get(name, 0), peak.requested)
            self._piece_parts = {}

    def add(self, stage: str, seconds: float) -> None:
        """Count time of a stage that has a thread of its own; called from any thread."""
        with self._lock:
            self._seconds[stage] = self._seconds.get(stage, 0.0) + seconds

    def seconds(self, *, wait: bool = False) -> dict[str, float]:
        """Seconds of each stage so far.

        Args:
            wait: For the GPU, so that nothing is missing.
        """
        if wait and self._ends:
            self._ends[-1].wait()
            self._count()
        with self._lock:
            return dict(self._seconds)

    def _piece_end(self, stage: str) -> _PieceEnd:
        event = torch_memory.timing_event()
        return _PieceEnd(stage=stage, work=self._clock(), host=time.monotonic(), event=event)

    def _count(self) -> None:
        """Add the times that are known by now."""
        while len(self._ends) > 1 and self._ends[1].is_known:
            before = self._ends.popleft()
            self.add(self._ends[0].stage, self._ends[0].since(before))


@dataclass(frozen=True, slots=True, kw_only=True)
class _PieceEnd:
    """End of a piece of work."""

    stage: str
    work: float  # by the clock of the work, s
    host: float  # by `time.monotonic`, s
    event: Any  # event of the GPU after that work; None where torch uses no GPU

    @property
    def is_known(self) -> bool:
        """Whether the GPU is there by now."""
        return self.event is None or bool(self.event.query())

    def wait(self) -> None:
        """Until the GPU is there."""
        if self.event is not None:
            self.event.synchronize()

    def since(self, before: _PieceEnd) -> float:
        """Seconds of work between two of them."""
        worked = self.work - before.work
        if self.event is None or before.event is None:
            return worked
        paused = self.host - before.host - worked
        passed = float(before.event.elapsed_time(self.event)) / 1000
        return passed if paused < _SHORTEST_PAUSE_S else max(0.0, passed - paused)


class Waits:
    """Waiting of the device for the threads that read and write, out of the seconds of stages."""

    def __init__(self) -> None:
        self._seen: deque[dict[str, float]] = deque()  # of about the last `_JUDGED_S`

    def of(self, seconds: Mapping[str, float]) -> tuple[str, float]:
        """Stage that the device waits for, and its share of waiting in the last ten seconds.

        Args:
            seconds: Seconds of each stage so far, as of `StageMeter.seconds`.

        Returns:
            "read" or "write", the one that it waited for longer, and the share of both; ("", 0.0)
            where the device works at least 80 % of the time.
        """
        now = {stage: taken for stage, taken in seconds.items() if stage not in _ASIDE}
        self._seen.append(now)
        whole = sum(now.values())
        while len(self._seen) > 1 and whole - sum(self._seen[1].values()) >= _JUDGED_S:
            self._seen.popleft()
        first = self._seen[0]
        passed = whole - sum(first.values())
        if passed < _JUDGED_S:
            return "", 0.0
        waited = {of: now.get(at, 0.0) - first.get(at, 0.0) for at, of in _WAITS.items()}
        share = sum(waited.values()) / passed
        if share <= 1 - _LEAST_LOAD:
            return "", 0.0
        return max(waited, key=waited.__getitem__), share
