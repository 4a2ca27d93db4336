"""First stage: frames of the source, gathered into clips, or read shot by shot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.core.control import Control
from engine.core.messages import Message
from engine.pipeline.segments import Span
from engine.pipeline.stream import Stream
from engine.protocol.media import FrameMark
from engine.protocol.plan import Plan, WorkPlan
from engine.video.read.frames import PlanarFrame
from engine.video.shots import HISTORY, ShotDetector


class Reader(Protocol):
    """Frames of a source, in order; see `FrameReader`."""

    @property
    def problems(self) -> Sequence[Message]:
        """Messages about frames that were left out."""
        ...

    def __iter__(self) -> Iterator[PlanarFrame]: ...

    def iter_after(self, mark: FrameMark) -> Iterator[PlanarFrame]:
        """Frames after a finished one."""
        ...

    def close(self) -> None:
        """Give the source back."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Frames that a model takes together."""

    first: int  # number of its first frame, counted from the job's first
    frames: tuple[PlanarFrame, ...]


def frames_behind(reader: Reader, mark: FrameMark | None) -> Iterator[PlanarFrame]:
    """Frames of the source after a mark; None for all."""
    return iter(reader) if mark is None else reader.iter_after(mark)


def read(reader: Reader, plan: Plan, span: Span, target: Stream[Clip], control: Control) -> None:
    """Send the frames of a span, `plan.work.clip_frames` at a time.

    No clip reaches over the end of a segment, so that the same clips are made wherever a span
    begins. Frames before and after the span that those in it depend on are sent, too.
    """
    blended = span.done - _frames_blended(plan.work, span)
    first = max(0, blended - plan.work.sees_neighbours)
    mark = span.mark_before(first)
    waiting: list[PlanarFrame] = []
    for number, frame in enumerate(frames_behind(reader, mark), start=mark.count if mark else 0):
        control.check_cancelled()  # a full queue stops it while the device is paused
        if number < first:
            continue
        waiting.append(frame)
        end = number + 1
        ends_clip = end % plan.segment_frames == 0 or end in (blended, span.done)
        if len(waiting) == plan.work.clip_frames or ends_clip:
            target.put(Clip(first=end - len(waiting), frames=tuple(waiting)))
            first, waiting = end, []
            if span.stop is not None and end >= span.stop + plan.work.reach:
                break
    if waiting:
        target.put(Clip(first=first, frames=tuple(waiting)))
    target.close()


def _frames_blended(work: WorkPlan, span: Span) -> int:
    """Frames of the last clip before a span, where those after it are blended with it."""
    if work.steadiness == "off" or not span.marks:
        return 0
    return (span.frames_of_last - 1) % work.clip_frames + 1


# --- shot by shot


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotSlice:
    """Some frames of a shot, in the pieces that a video VAE takes."""

    shot: int  # number of the shot's first frame, counted from the job's first
    first: int  # number of its own first frame
    frames: tuple[PlanarFrame, ...]
    begins: bool  # the first slice of the shot that is sent
    ends: bool  # the shot ends with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Place to begin: the first frame of a job, or inside a shot."""

    shot: int = 0  # first frame of the shot that the first wanted frame belongs to
    wanted: int = 0  # first frame of the span
    needed: int = 0  # first frame to be sent, `shot` or later


class ShotReader:
    """Finds the shots of a video and sends them slice by slice.

    Memory: one slice.
    """

    def __init__(self, reader: Reader, detector: ShotDetector, *, slice_frames: int) -> None:
        self._reader = reader
        self._detector = detector
        self._slice = slice_frames

    def run(
        self, span: Span, beginning: Beginning, target: Stream[ShotSlice], control: Control
    ) -> None:
        """Send frames from the beginning of a span on, until no more are wanted.

        A slice waits for the frame after it, because only that shows whether the shot ends.
        """
        shot, begins = beginning.shot, True
        waiting: list[PlanarFrame] = []
        first = beginning.needed
        for number, frame, is_cut in self._frames(span, beginning):
            control.check_cancelled()  # a full queue stops it while the device is paused
            ends = is_cut and number > first
            if ends or len(waiting) == self._slice + begins:
                target.put(_slice(shot, first, waiting, begins=begins, ends=ends))
                begins, waiting, first = ends, [], number
            if is_cut:
                shot = number
            waiting.append(frame)
        if waiting:
            target.put(_slice(shot, first, waiting, begins=begins, ends=True))
        target.close()

    def _frames(self, span: Span, beginning: Beginning) -> Iterator[tuple[int, PlanarFrame, bool]]:
        """Number, frame and whether a new shot begins with it, for each frame to be sent.

        What is known of the video before a span stands: no new cut before `wanted`.
        """
        mark = span.mark_before(beginning.needed - HISTORY)
        start = mark.count if mark else 0
        for number, frame in enumerate(frames_behind(self._reader, mark), start):
            looks_new = self._detector.starts_shot(frame)
            if number >= beginning.needed:
                is_new = looks_new and number >= beginning.wanted and number > beginning.shot
                yield number, frame, is_new


def _slice(
    shot: int, first: int, frames: list[PlanarFrame], *, begins: bool, ends: bool
) -> ShotSlice:
    return ShotSlice(shot=shot, first=first, frames=tuple(frames), begins=begins, ends=ends)
