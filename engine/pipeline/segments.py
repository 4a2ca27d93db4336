"""Finished segments of a job: parts of the new video that survive a crash."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.core import atomic_file
from engine.core.control import Control
from engine.ops.choices import Choices
from engine.pipeline.publication import Publication
from engine.protocol.media import FrameMark


def segment_path(folder: Path, number: int) -> Path:
    """File of a segment, finished or not, in the folder of its job."""
    return folder / f"segment_{number:06d}.mkv"


def made_path(folder: Path, number: int, worker: int) -> Path:
    """File of a segment that a worker has made, until the process of the job takes it.

    Two workers may make the same one, where the first takes too long.
    """
    return folder / f"segment_{number:06d}.{worker}.mkv"


def forget_made(folder: Path) -> None:
    """Delete what workers have made, or begun to make, and no job has taken."""
    for pattern in ("segment_*.*.mkv", "segment_*.*.mkv.part"):
        for path in folder.glob(pattern):
            atomic_file.discard(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """One closed segment: its file and the times of its frames."""

    number: int
    pts: tuple[int, ...]  # time stamps of the source, in its time base
    durations: tuple[int, ...]
    bytes: int
    crcs: tuple[int, ...]  # CRCs of the source's frames that were read
    shot: int = 0  # first frame of the shot that the next frame belongs to
    begins: int = -1  # its first frame, counted from the job's first; -1: an earlier version's
    sha256: str = ""  # SHA-256 of the file, filled in by the log

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.pts)

    @property
    def end(self) -> FrameMark:
        """Its last frame."""
        return FrameMark(count=self.begins + self.frames, pts=self.pts[-1], crc=self.crcs[-1])

    @property
    def marks(self) -> Iterator[tuple[int, int]]:
        """Time stamp and CRC of each picture of the source."""
        return zip(self.pts, self.crcs, strict=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Run of missing segments, and what has to be known of the video before them.

    With this and the source they can be made anywhere: they are the same as those of a job that
    makes all segments in a row.

    Attributes:
        first: Number of the first segment.
        marks: Last frame of segments before it, in order: of every one, or of as many as it takes
            to read the shot, and always of the last two.
        shot: First frame of the shot that the span's first frame belongs to, where the model looks
            at shots.
        stop: First frame after the span, counted from the job's first; the first one of a segment.
            None: the span goes on to the end of the video.
    """

    first: int = 0
    marks: tuple[FrameMark, ...] = ()
    shot: int = 0
    stop: int | None = None

    def __contains__(self, frame: int) -> bool:
        """Whether a frame, counted from the job's first, is made with it."""
        return frame >= self.done and (self.stop is None or frame < self.stop)

    @property
    def done(self) -> int:
        """Frames before it."""
        return self.marks[-1].count if self.marks else 0

    @property
    def frames_of_last(self) -> int:
        """Frames in the segment before it."""
        return self.done - (self.marks[-2].count if len(self.marks) > 1 else 0)

    def rest(self, made: Sequence[SegmentRecord]) -> Span:
        """Rest of the span after its first segments."""
        if not made:
            return self
        marks = (*self.marks, *(record.end for record in made))
        first = self.first + len(made)
        return Span(first=first, marks=marks, shot=made[-1].shot, stop=self.stop)

    def mark_before(self, frame: int) -> FrameMark | None:
        """The last frame of the last segment that ends at a frame or before it; None: the start."""
        return next((mark for mark in reversed(self.marks) if mark.count <= frame), None)


def first_lacking(segments: SegmentLog, segment_frames: int) -> Span:
    """The first missing segments, up to the next finished one or to the end of the video.

    Segments after them that begin elsewhere than their number says are forgotten: one that was cut
    short before them is lost.

    Args:
        segments: Segments of a job that is not complete.
        segment_frames: Frames per segment of the plan: segments end at multiples of it.
    """
    marks, count = [], 0
    for record in segments.records:
        count += record.frames
        marks.append(FrameMark(count=count, pts=record.pts[-1], crc=record.crcs[-1]))
    first = len(marks)
    begins = [
        (count // segment_frames + one.number - first) * segment_frames for one in segments.ahead
    ]
    if begins != [one.begins for one in segments.ahead]:
        segments.drop(first)
    shot = segments.records[-1].shot if segments.records else 0
    stop = segments.ahead[0].begins if segments.ahead else None
    return Span(first=first, marks=tuple(marks), shot=shot, stop=stop)


class FinishedSegments:
    """Records of finished segments, which may come in any order; what a SegmentLog is made of.

    Attributes:
        records: In order, without gaps.
        ahead: Segments after the first missing one, in order.
    """

    def __init__(self, found: Iterable[SegmentRecord] = ()) -> None:
        self.records: list[SegmentRecord] = []
        self.ahead: list[SegmentRecord] = []
        for record in found:
            self.add(record)

    def __iter__(self) -> Iterator[SegmentRecord]:
        return iter((*self.records, *self.ahead))

    def add(self, record: SegmentRecord) -> None:
        """Add one; those that follow it without a gap any more are no longer ahead."""
        insort(self.ahead, record, key=lambda one: one.number)
        while self.ahead and self.ahead[0].number == len(self.records):
            self.records.append(self.ahead.pop(0))

    def drop(self, first: int) -> list[SegmentRecord]:
        """Forget those from a number on, which are returned."""
        dropped = [record for record in self if record.number >= first]
        del self.records[first:]
        self.ahead = [record for record in self.ahead if record.number < first]
        return dropped


class SpanLog(Protocol):
    """Takes the segments of a span."""

    @property
    def records(self) -> Sequence[SegmentRecord]:
        """Finished segments, in order, without gaps."""
        ...

    def path(self, number: int) -> Path:
        """File of a segment, finished or not."""
        ...

    def add(self, record: SegmentRecord) -> None:
        """Keep a segment whose file is closed; survives a crash from now on."""
        ...

    def complete(self) -> None:
        """The source has no more frames than those of `records`."""
        ...


class SegmentLog(SpanLog, Protocol):
    """Store of finished segments; `jobs.checkpoint` keeps them in the job's folder."""

    @property
    def choices(self) -> Choices:
        """Choices that they were made by; `add` keeps those that were made since.

        Raises:
            CheckpointMismatch: They cannot be read.
        """
        ...

    @property
    def ahead(self) -> Sequence[SegmentRecord]:
        """Finished segments after the first missing one, in order."""
        ...

    @property
    def is_complete(self) -> bool:
        """True when the last frame of the source is among them."""
        ...

    def first_damaged(self, control: Control) -> int | None:
        """Number of the first segment whose file is not what was written; None for none.

        Raises:
            Cancelled: The user stopped.
        """
        ...

    def drop(self, first: int) -> Sequence[SegmentRecord]:
        """Forget all segments from a number on, which are returned."""
        ...

    def add_publication(self, publication: Publication) -> None:
        """Keep that the result is finished and about to get its name."""
        ...
