"""What is finished of a job: pieces of the new picture that survive a crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    crcs: tuple[int, ...]  # of the pictures of the source, as they were read
    shot: int = 0  # first frame of the shot that the next frame belongs to
    sha256: str = ""  # of the file, from the log that keeps it

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.pts)

    @property
    def marks(self) -> Iterator[tuple[int, int]]:
        """Time stamp and CRC of each picture of the source."""
        return zip(self.pts, self.crcs, strict=True)


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

    def first_damaged(self, control: Control) -> int | None:
        """Number of the first segment whose file is not what was written; None for none.

        Raises:
            Cancelled: The user stopped.
        """
        ...

    def drop(self, first: int) -> int:
        """Forget a segment and those after it.

        Returns:
            Segments that have to be made again.
        """
        ...

    def add_publication(self, publication: Publication) -> None:
        """Keep that the result is finished and about to get its name."""
        ...
