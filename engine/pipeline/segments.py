"""What is finished of a job: pieces of the new picture that survive a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """One closed segment: its file and the times of its frames."""

    number: int
    pts: tuple[int, ...]  # of the source, in its time base
    durations: tuple[int, ...]
    bytes: int
    crc: int  # of the source's last picture: where to go on reading
    shot: int = 0  # first frame of the shot that the next frame belongs to

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.pts)


class SegmentLog(Protocol):
    """Where finished segments are kept; jobs.checkpoint does it in the job's folder."""

    @property
    def records(self) -> Sequence[SegmentRecord]:
        """Finished segments, in order, without gaps."""
        ...

    @property
    def is_complete(self) -> bool:
        """True when the last frame of the source is among them."""
        ...

    def path(self, number: int) -> Path:
        """File of a segment, finished or not."""
        ...

    def add(self, record: SegmentRecord) -> None:
        """Keep a segment whose file is closed; survives a crash from now on."""
        ...

    def complete(self) -> None:
        """The source has no more frames."""
        ...
