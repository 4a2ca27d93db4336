"""The workers of a job: who takes part, how fast each is, who is late, who is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from engine.core.errors import ChoiceMissing
from engine.core.messages import Message, Param, message
from engine.protocol.plan import Notice, Plan
from engine.workers.pool import RemoteWorkers, SpanFuture
from engine.workers.reports import Made

_MOST_FAILURES = 3
_GONE_S = 10.0  # without any worker; then the job waits for none any more
# A computer that slept so long finds all others gone: until this time after, that is no failure.
_ASLEEP_S, _WAKING_S = 20.0, 90.0
# Time to start the process of a worker, and more time for one that has made nothing since: it may
# load its models.
LOADING_S = 120.0
# A worker that takes this many times as long as expected is late, and some seconds more: a computer
# does other things as well. What is made twice then costs nothing, as only idle workers do it.
_TIMES, _LEAST_S = 2.0, 5.0


@dataclass(slots=True)
class TeamWorker:
    """State of a worker, and its clock, which runs while it makes frames."""

    failures: int = 0
    open_frames: int = 0  # made, but in no finished segment yet
    last: Made | None = None
    has_made: bool = False  # any segment since its models were loaded
    has_left: bool = False  # its owner wanted it back, or it was sent away
    since: float | None = None  # when its clock was read last, s; None while it stands still
    begun: int = 0  # frames of the next segment that were made when its clock started
    frames: int = 0  # made while its clock ran
    seconds: float = 0.0  # its clock


class Team:
    """Workers by their number; those of this computer come first. Used by the thread of the job.

    The clock of a worker starts with the first frames that it reports, so that neither loading
    models nor waiting for a span counts, and is read with each finished segment.

    Args:
        plan: Plan of the job.
        remote: Workers of other computers.
        now: Seconds, without pauses of the job.

    Attributes:
        workers: All that are not left out.
        may_grow: Others may come, which are not known yet.
    """

    def __init__(self, plan: Plan, remote: RemoteWorkers | None, now: Callable[[], float]) -> None:
        self._plan, self._remote, self._now = plan, remote, now
        self._all = {number: TeamWorker() for number in range(len(plan.workers))}
        self.workers = dict(self._all)
        self.may_grow = remote is not None
        self._seen = time.monotonic()  # when a worker was there
        self._connected = dict.fromkeys(self._all, now())  # when each was last, of this computer
        self._looked, self._awake = time.time(), -_WAKING_S  # awake since then

    # --- who takes part

    def look(self, connected: Container[int], *, has_workers: bool) -> dict[int, Notice]:
        """Notice that this computer slept, and which workers are gone; called again and again.

        Args:
            connected: Numbers of the workers that are ready or at work.
            has_workers: Any worker is connected, or a process starts.

        Returns:
            Notices of workers that are left out from now on, because their processes do not start.
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
        self._connected |= {one: self._now() for one in self._connected if one in connected}
        late = [one for one, at in self._connected.items() if self._now() - at > LOADING_S]
        why = message("reason.worker.absent")
        return {one: self._left_out(one, why) for one in late if one in self.workers}

    def is_own(self, number: int) -> bool:
        """Whether a worker is one of this computer."""
        return number < len(self._plan.workers)

    def name_of(self, number: int) -> str:
        """Name of the GPU or the computer that a worker has to itself; "" for a process."""
        if self.is_own(number):
            return self._plan.workers[number].card
        return "" if self._remote is None else self._remote.name_of(number)

    def joined(self, number: int) -> bool:
        """Add a worker of another computer; False if it joins again."""
        self.rests(number)
        if number in self.workers:
            self.workers[number].has_left = self.workers[number].has_made = False
            return False
        self.workers[number] = self._all.setdefault(number, TeamWorker())
        return True

    def left(self, number: int) -> None:
        """Count nothing that a worker loses from now on as a failure, until it joins again."""
        if number in self.workers:
            self.workers[number].has_left = True

    def failed(self, number: int, why: Message) -> Notice | None:
        """Count a failure of a worker; the notice if it is left out from now on.

        One that cannot compute as the job does is left out at once. Any other one loads its models
        again, as a rule in another process.
        """
        self.loads(number)
        worker = self.workers.get(number)
        has_slept = time.monotonic() - self._awake < _WAKING_S
        if worker is None or worker.has_left or has_slept:
            return None
        if worker.failures + 1 >= _MOST_FAILURES or why.code == ChoiceMissing.code:
            return self._left_out(number, why)
        worker.failures += 1
        return None

    def _left_out(self, number: int, why: Message) -> Notice:
        """Leave out a worker that has failed once more."""
        count = str(self.workers.pop(number).failures + 1)
        return self._notice("worker-left-out", number, count=count, why=why)

    def loads(self, number: int) -> None:
        """Take note that a worker, which has let its models go, loads them with its next frames."""
        self.rests(number)
        if number in self._all:
            self._all[number].has_made = False

    def may_load(self, number: int) -> bool:
        """Whether a worker has made no segment since it began to load its models."""
        return number in self.workers and not self.workers[number].has_made

    def late(self, number: int, seconds: float) -> Notice | None:
        """The notice that a worker is late by some seconds, if that is sure.

        One that has made no segment yet may still load its models.
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

    # --- how fast workers are

    def works(self, number: int, begun: int) -> None:
        """Take the frames that a worker has made since its last finished segment."""
        worker = self._all[number]
        worker.open_frames = begun
        if worker.since is None:
            worker.since, worker.begun = self._now(), begun

    def made(self, number: int, frames: int) -> None:
        """Take a segment of some frames that a worker has finished."""
        worker, now = self._all.setdefault(number, TeamWorker()), self._now()
        if worker.since is not None:
            worker.seconds += now - worker.since
            worker.frames += frames - worker.begun
        worker.since, worker.begun = now, 0
        worker.has_made = True

    def starts_over(self, number: int) -> None:
        """Forget the frames that a worker has made, but in no finished segment."""
        if number in self._all:
            self._all[number].open_frames = 0

    def rests(self, number: int) -> None:
        """Stop the clock of a worker: it has nothing to do, or is not connected."""
        if number in self._all:
            self._all[number].since = None

    @property
    def open_frames(self) -> int:
        """Frames that workers have made, but in no finished segment yet."""
        return sum(one.open_frames for one in self.workers.values())

    @property
    def measured(self) -> dict[int, tuple[float, float]]:
        """Frames and seconds of each worker that has made any, also of those that were left out."""
        return {
            number: (one.frames, one.seconds)
            for number, one in self._all.items()
            if one.frames > 0 and one.seconds > 0
        }

    def seconds_per_frame(self, number: int) -> float | None:
        """Seconds that a worker takes for a frame; the slowest of all if it has made none yet.

        Returns:
            None if no worker has made any.
        """
        known = self.measured
        counted = (known[number],) if number in known else known.values()
        return max((seconds / frames for frames, seconds in counted), default=None)


@dataclass(frozen=True, slots=True)
class Held:
    """A span at a worker: the worker's number, and the frames that are left of the span."""

    worker: int
    frames: int


class Deadlines:
    """Time that spans take, compared with what was planned and with the paces seen in this job.

    The clock of a span starts as its worker gets it, and again with each segment that is finished.

    Args:
        plan: Plan of the job.
        team: Paces of its workers so far.
        now: Seconds, without pauses of the job.
    """

    def __init__(self, plan: Plan, team: Team, now: Callable[[], float]) -> None:
        self._team, self._now = team, now
        seconds = max(plan.seconds, plan.seconds_high) * max(1, len(plan.workers))
        self._planned = seconds / max(1, plan.frames)  # of one worker for a frame
        self._since: dict[SpanFuture, tuple[Held, float]] = {}
        self._looked = self._reported = now()

    def begun(self) -> None:
        """Take note that workers have something to do, or have reported something of it."""
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
        pace = self._team.seconds_per_frame(at.worker)
        return _LEAST_S + _TIMES * at.frames * (self._planned if pace is None else pace)
