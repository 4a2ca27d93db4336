"""Deadlines of spans: by when a worker should have made the next segment of what it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.protocol.plan import Plan
from engine.workers.crew import SpanFuture
from engine.workers.paces import Paces

# A worker that is this many times as slow as expected is late, and some seconds more: a computer
# does other things as well. What is made twice then costs nothing, as only idle workers do it.
_TIMES, _LEAST_S = 2.0, 5.0
LOADING_S = 120.0  # more, of a worker that has made nothing yet: it may load its models
_ASLEEP_S = 20.0  # between two looks: this computer slept, or did nothing of this job


@dataclass(frozen=True, slots=True)
class Held:
    """A span at a worker: the worker's number, and the frames that are left of the span."""

    worker: int
    frames: int


class Deadlines:
    """Time that spans take, compared with what was planned and with the paces seen in this job.

    The clock of a span starts as its worker gets it, and again with each segment that is finished.

    Args:
        plan: Of the job.
        paces: Seen in it.
        now: Seconds, without pauses of the job.
    """

    def __init__(self, plan: Plan, paces: Paces, now: Callable[[], float]) -> None:
        self._paces, self._now = paces, now
        seconds = max(plan.seconds, plan.seconds_high) * max(1, len(plan.workers))
        self._planned = seconds / max(1, plan.frames)  # of one worker for a frame
        self._since: dict[SpanFuture, tuple[Held, float]] = {}
        self._looked = self._heard = now()

    def hear(self) -> None:
        """Any worker has said something of its work."""
        self._heard = self._now()

    def late(self, held: Mapping[SpanFuture, Held]) -> dict[SpanFuture, float]:
        """Spans that are late, and by how many seconds; called again and again.

        Args:
            held: All spans that workers have now.
        """
        now = self._now()
        if now - self._looked > _ASLEEP_S:
            self._since.clear()
            self._heard = now
        self._looked = now
        before = self._since
        self._since = {
            one: before[one] if one in before and before[one][0] == at else (at, now)
            for one, at in held.items()
        }
        over = {one: now - s - self._patience(at) for one, (at, s) in self._since.items()}
        return {one: seconds for one, seconds in over.items() if seconds > 0}

    def is_silent(self, *, may_load: bool) -> bool:
        """Whether no worker has said anything for twice as long as the slowest span may take.

        Args:
            may_load: Some worker has made nothing yet.
        """
        longest = max((self._patience(at) for at, _ in self._since.values()), default=_LEAST_S)
        loading = LOADING_S if may_load else 0.0
        return self._now() - self._heard > _TIMES * longest + loading

    def _patience(self, at: Held) -> float:
        """Seconds that the rest of a span may take."""
        pace = self._paces.seconds_per_frame(at.worker)
        return _LEAST_S + _TIMES * at.frames * (self._planned if pace is None else pace)
