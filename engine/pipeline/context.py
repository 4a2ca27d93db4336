"""What every stage of a job is given: the job, where to look for a stop, whom to tell."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from engine.control import Control
from engine.events import EventSink
from engine.media import MediaInfo
from engine.plan import Plan


class Throttle:
    """Lets something happen at most every `period` seconds."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._last = -period

    def __call__(self) -> bool:
        """True when it is time again; then the clock starts anew."""
        now = time.monotonic()
        if now - self._last < self._period:
            return False
        self._last = now
        return True


@dataclass(slots=True, kw_only=True)
class Context:
    """One running job."""

    job_id: str
    media: MediaInfo
    plan: Plan  # replaced by a smaller one when memory runs out
    control: Control
    events: EventSink
    pictures: bool = True  # False where nobody looks: no previews are made
    began: float = field(default_factory=time.monotonic)  # s
    picture_due: Throttle = field(default_factory=lambda: Throttle(1 / 12))
    preview_due: Throttle = field(default_factory=lambda: Throttle(1.0))
