"""What is finished of a job: pieces of the new picture that survive a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.core.control import Control
from engine.pipeline.output import Publication


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """One closed segment: its file and the times of its frames."""

    number: int
    pts: tuple[int, ...]  # of the source, in its time base
    durations: tuple[int, ...]
    bytes: int
    crc: int  # of the source's last picture: where to go on reading
    shot: int = 0  # first frame of the shot that the next frame belongs to
    sha256: str = ""  # of the file, from the log that keeps it

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

    def drop_damaged(self, control: Control) -> int:
        """Forget the first segment whose file is not what was written, and those after it.

        Returns:
            Segments that have to be made again.

        Raises:
            Cancelled: The user stopped.
        """
        ...

    def add_publication(self, publication: Publication) -> None:
        """Keep that the result is finished and about to get its name."""
        ...
