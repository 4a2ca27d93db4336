"""The workers of a job: who takes part, how fast each is, who is late, who is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.core.messages import Message, Param
from engine.protocol.plan import Notice, Plan
from engine.workers.pool import RemoteWorkers, SpanFuture
from engine.workers.worker import Made

_MOST_FAILURES = 3
_GONE_S = 10.0  # without any worker; then the job waits for none any more
# A computer that slept so long finds all others gone: until this time after, that is no failure.
_ASLEEP_S, _WAKING_S = 20.0, 90.0
LOADING_S = 120.0  # more time for a worker that has made nothing yet: it may load its models
# A worker that takes this many times as long as expected is late, and some seconds more: a computer
# does other things as well. What is made twice then costs nothing, as only idle workers do it.
_TIMES, _LEAST_S = 2.0, 5.0


@dataclass(slots=True)
class TeamWorker:
    """State of a worker that is not left out."""

    failures: int = 0
    open_frames: int = 0  # made, but in no finished segment yet
    last: Made | None = None
    has_made: bool = False  # any segment
    has_left: bool = False  # its owner wanted it back, or it was sent away


class Team:
    """Workers by their number; those of this computer come first. Used by the thread of the job.

    Attributes:
        workers: All that are not left out.
        may_grow: Others may come, which are not known yet.
    """

    def __init__(self, plan: Plan, remote: RemoteWorkers | None) -> None:
        self._plan, self._remote = plan, remote
        self.workers = {number: TeamWorker() for number in range(len(plan.workers))}
        self.may_grow = remote is not None
        self._seen = time.monotonic()  # when a worker was there
        self._looked, self._awake = time.time(), -_WAKING_S  # awake since then

    def look(self, *, has_workers: bool) -> None:
        """Called again and again: notices that this computer slept, and that no worker is left.

        Args:
            has_workers: Any worker is ready, at work, or starts.
        """
        now, clock = time.monotonic(), time.time()
        if clock - self._looked > _ASLEEP_S:
            self._awake = now
        self._looked = clock
        if has_workers:
            self._seen = now
        elif now - self._seen > _GONE_S:
            self.workers.clear()
            self.may_grow = False

    def is_own(self, number: int) -> bool:
        """Whether a worker is one of this computer."""
        return number < len(self._plan.workers)

    def joined(self, number: int) -> bool:
        """Add a worker of another computer; False if it joins again."""
        if number in self.workers:
            self.workers[number].has_left = False
            return False
        self.workers[number] = TeamWorker()
        return True

    def left(self, number: int) -> None:
        """What a worker loses from now on, until it joins again, is no failure."""
        if number in self.workers:
            self.workers[number].has_left = True

    def failed(self, number: int, why: Message) -> Notice | None:
        """Count a failure of a worker; the notice where it is left out from now on."""
        worker = self.workers.get(number)
        has_slept = time.monotonic() - self._awake < _WAKING_S
        if worker is None or worker.has_left or has_slept:
            return None
        worker.failures += 1
        if worker.failures < _MOST_FAILURES:
            return None
        del self.workers[number]
        return self._notice("worker-left-out", number, count=str(_MOST_FAILURES), why=why)

    def may_load(self, number: int) -> bool:
        """Whether a worker has made no segment yet."""
        return number in self.workers and not self.workers[number].has_made

    def late(self, number: int, seconds: float) -> Notice | None:
        """A worker should have made a segment some seconds ago; the notice where that is sure.

        One that has made none yet may still load its models.
        """
        if number not in self.workers or (self.may_load(number) and seconds <= LOADING_S):
            return None
        return self._notice("worker-late", number)

    def _notice(self, code: str, number: int, **about: Param) -> Notice:
        name, case = self.name_of(number), "process"
        if name:
            case = "gpu" if self.is_own(number) else "machine"
        params = {"worker": name or str(number + 1), **about}
        return Notice(code=code, case=case, severity="warning", params=params)

    def name_of(self, number: int) -> str:
        """Name of the GPU or the computer that a worker has to itself; "" for a process."""
        if self.is_own(number):
            return self._plan.workers[number].card
        return "" if self._remote is None else self._remote.name_of(number)


@dataclass(slots=True)
class _Pace:
    """Clock of one worker."""

    since: float | None = None  # when it was read last, s; None while it stands still
    begun: int = 0  # frames of the next segment that were made when it started
    frames: int = 0  # made while it ran
    seconds: float = 0.0  # while it ran


class Paces:
    """A clock for each worker, which runs while it makes frames.

    It starts with the first frames that a worker reports, so that neither loading models nor
    waiting for a span counts, and is read with each finished segment.

    Args:
        now: Seconds, without pauses of the job.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._of: dict[int, _Pace] = {}

    def works(self, number: int, begun: int) -> None:
        """A worker has made frames, some since its last finished segment."""
        pace = self._of.setdefault(number, _Pace())
        if pace.since is None:
            pace.since, pace.begun = self._now(), begun

    def made(self, number: int, frames: int) -> None:
        """A worker has finished a segment of so many frames."""
        pace = self._of.setdefault(number, _Pace())
        now = self._now()
        if pace.since is not None:
            pace.seconds += now - pace.since
            pace.frames += frames - pace.begun
        pace.since, pace.begun = now, 0

    def rests(self, number: int) -> None:
        """A worker has nothing to do, or is not there."""
        if number in self._of:
            self._of[number].since = None

    def seconds_per_frame(self, number: int) -> float | None:
        """How long a worker takes for a frame; the slowest of all where it has made none yet.

        Returns:
            None where nobody has made any.
        """
        known = self.measured
        counted = (known[number],) if number in known else known.values()
        return max((seconds / frames for frames, seconds in counted), default=None)

    @property
    def measured(self) -> dict[int, tuple[float, float]]:
        """Frames and seconds of each worker that has made any."""
        return {
            number: (pace.frames, pace.seconds)
            for number, pace in self._of.items()
            if pace.frames > 0 and pace.seconds > 0
        }


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
        self._looked = self._reported = now()

    def reported(self) -> None:
        """Any worker has reported something of its work."""
        self._reported = self._now()

    def late(self, held: Mapping[SpanFuture, Held]) -> dict[SpanFuture, float]:
        """Spans that are late, and by how many seconds; called again and again.

        Args:
            held: All spans that workers have now.
        """
        now = self._now()
        if now - self._looked > _ASLEEP_S:
            self._since.clear()
            self._reported = now
        self._looked = now
        before = self._since
        self._since = {
            one: before[one] if one in before and before[one][0] == at else (at, now)
            for one, at in held.items()
        }
        over = {one: now - s - self._patience(at) for one, (at, s) in self._since.items()}
        return {one: seconds for one, seconds in over.items() if seconds > 0}

    def is_silent(self, *, may_load: bool) -> bool:
        """Whether no worker has reported anything for twice as long as the slowest span may take.

        Args:
            may_load: Some worker has made nothing yet.
        """
        longest = max((self._patience(at) for at, _ in self._since.values()), default=_LEAST_S)
        loading = LOADING_S if may_load else 0.0
        return self._now() - self._reported > _TIMES * longest + loading

    def _patience(self, at: Held) -> float:
        """Seconds that the rest of a span may take."""
        pace = self._paces.seconds_per_frame(at.worker)
        return _LEAST_S + _TIMES * at.frames * (self._planned if pace is None else pace)
