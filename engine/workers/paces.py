"""How fast workers are: the frames that they have made, over the time in which they made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.planner import learning
from engine.protocol.plan import Plan


@dataclass(slots=True)
class _Pace:
    """Of one worker.

    Attributes:
        since: When its clock was read last, s; None while it stands still.
        begun: Frames that were made by the time at which it started, of the next segment.
        frames: Made while it ran.
        seconds: That it ran.
    """

    since: float | None = None
    begun: int = 0
    frames: int = 0
    seconds: float = 0.0


class Paces:
    """A clock for each worker, which runs while it makes frames.

    It starts with the first frames that a worker tells of, so that neither loading models nor
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
        known = {n: one for n, one in self._of.items() if one.frames > 0 and one.seconds > 0}
        counted = (known[number],) if number in known else known.values()
        return max((one.seconds / one.frames for one in counted), default=None)

    def learn(self, plan: Plan, fingerprint_of: Callable[[int], str]) -> None:
        """Keep how fast computers were, for later plans.

        That of several processes of this computer says nothing of one.

        Args:
            plan: Of the job.
            fingerprint_of: Of the computer that a worker belongs to; "" for this one.
        """
        devices: dict[str, list[_Pace]] = {}
        for number, pace in self._of.items():
            whose = fingerprint_of(number)
            counts = whose or len(plan.workers) == 1
            if counts and pace.frames > 0 and pace.seconds > 0:
                devices.setdefault(whose, []).append(pace)
        for whose, paces in devices.items():
            seconds = max(pace.seconds for pace in paces)
            frames = sum(pace.frames / pace.seconds for pace in paces) * seconds
            learning.learn_part(plan, frames, seconds, whose)
