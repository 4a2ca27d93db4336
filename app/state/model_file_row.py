"""What the window knows of one file of a model, and of those that belong together."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from app.state.tasks_model import TaskState
from engine.protocol.model_file_state import PublishedState

MB = 1e6  # bytes


def size_of(file: PublishedState) -> int:
    """Bytes of the whole file: as published, else as computed; 0 while unknown."""
    return file.bytes or file.about_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A file with those it cannot work without: a transformer with VAE and text embedding.

    The VAEs of Wan need no other file.
    """

    main: PublishedState
    others: tuple[PublishedState, ...] = ()

    @property
    def files(self) -> tuple[PublishedState, ...]:
        """All of them, the small ones first: they are fetched in this order."""
        return (*self.others, self.main)

    @property
    def lacking(self) -> tuple[PublishedState, ...]:
        """Those that are not whole on this machine."""
        return tuple(file for file in self.files if not file.is_here)

    @property
    def is_complete(self) -> bool:
        """True when it could be used now."""
        return not self.lacking

    @property
    def lacking_mb(self) -> float:
        """What is left to fetch, as far as sizes are known."""
        return sum(max(0, size_of(file) - file.done_bytes) for file in self.lacking) / MB


class Standing(enum.Enum):
    """Where a package stands, as the user sees it."""

    MISSING = "missing"
    PARTIAL = "partial"
    INCOMPLETE = "incomplete"  # whole itself, but a companion is not here
    DAMAGED = "damaged"
    UNCHECKED = "unchecked"
    HERE = "here"
    ELSEWHERE = "elsewhere"  # another program is at it
    WAITING = "waiting"
    BUSY = "busy"
    FAILED = "failed"

    @property
    def is_running(self) -> bool:
        """True while there is something to stop."""
        return self in (Standing.WAITING, Standing.BUSY)

    @property
    def is_usable(self) -> bool:
        """True when a job could use it now."""
        return self in (Standing.UNCHECKED, Standing.HERE)


_AT_REST = {
    "missing": Standing.MISSING,
    "partial": Standing.PARTIAL,
    "damaged": Standing.DAMAGED,
    "unverified": Standing.UNCHECKED,
    "here": Standing.HERE,
    "busy": Standing.ELSEWHERE,
}


def standing_of(package: Package, task: TaskState | None) -> Standing:
    """Where a package stands, with what is done to it now."""
    if task is not None:
        if not task.runs:
            return Standing.FAILED
        return Standing.WAITING if task.waits else Standing.BUSY
    if package.main.is_here and not package.is_complete:
        return Standing.INCOMPLETE
    return _AT_REST[package.main.state]
