"""The workers of a job: who takes part, who has failed, who is left out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from engine.core.messages import Message, Param
from engine.protocol.plan import Notice, Plan
from engine.workers.deadlines import LOADING_S
from engine.workers.farm import Farm
from engine.workers.worker import Made

_MOST_FAILURES = 3
_GONE_S = 10.0  # without any worker, after which none is waited for any more
# A computer that slept so long finds everybody gone: until this time after, that is no failure.
_ASLEEP_S, _WAKING_S = 20.0, 90.0


@dataclass(slots=True)
class TeamWorker:
    """What is known of one that is not left out."""

    failures: int = 0
    open_frames: int = 0  # made, but in no finished segment yet
    last: Made | None = None
    has_made: bool = False  # any segment
    has_left: bool = False  # its owner wanted it back, or it was sent away


class Team:
    """Workers by their number; those of this machine come first. Used by the thread of the job.

    Attributes:
        workers: All that are not left out.
        may_grow: Others may come, which are not known yet.
    """

    def __init__(self, plan: Plan, farm: Farm | None) -> None:
        self._plan, self._farm = plan, farm
        self.workers = {number: TeamWorker() for number in range(len(plan.workers))}
        self.may_grow = farm is not None
        self._seen = time.monotonic()  # when a worker was there
        self._looked, self._awake = time.time(), -_WAKING_S  # awake since then

    def look(self, *, is_there: bool) -> None:
        """Called again and again: notices that this computer slept, and that no worker is left.

        Args:
            is_there: Any worker is ready, at work, or starts.
        """
        now, clock = time.monotonic(), time.time()
        if clock - self._looked > _ASLEEP_S:
            self._awake = now
        self._looked = clock
        if is_there:
            self._seen = now
        elif now - self._seen > _GONE_S:
            self.workers.clear()
            self.may_grow = False

    def is_own(self, number: int) -> bool:
        """Whether a worker is one of this machine."""
        return number < len(self._plan.workers)

    def joined(self, number: int) -> bool:
        """A machine takes part from now on; False where it does so again."""
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
        """Of the GPU or the machine that a worker has to itself; "" for a process."""
        if self.is_own(number):
            return self._plan.workers[number].card
        return "" if self._farm is None else self._farm.name_of(number)
