"""First stage: frames of the source, gathered into clips, or read shot by shot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.core.control import Control
from engine.pipeline.segments import SegmentRecord
from engine.pipeline.stream import Stream
from engine.protocol.plan import Plan, WorkPlan
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import FrameMark, PlanarFrame
from engine.video.shots import HISTORY, ShotDetector


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Frames that a model takes together."""

    first: int  # number of its first frame, counted from the job's first
    frames: tuple[PlanarFrame, ...]


def frames_behind(reader: FrameReader, finished: Sequence[SegmentRecord]) -> Iterator[PlanarFrame]:
    """Frames of the source after some finished segments."""
    if not finished:
        return iter(reader)
    count = sum(record.frames for record in finished)
    last = finished[-1]
    return reader.iter_after(FrameMark(count=count, pts=last.pts[-1], crc=last.crcs[-1]))


def read(
    reader: FrameReader,
    plan: Plan,
    finished: list[SegmentRecord],
    target: Stream[Clip],
    control: Control,
) -> None:
    """Send the frames that are not finished yet, `plan.work.clip_frames` at a time.

    No clip reaches over the end of a segment, so that a resumed job makes the same clips. Where
    frames are blended with their neighbours the last clip that is finished is sent once more.
    """
    done = sum(record.frames for record in finished)
    first = done - _warm_up(plan.work, finished)
    before = _before(finished, first)
    frames = frames_behind(reader, before)
    waiting: list[PlanarFrame] = []
    for number, frame in enumerate(frames, start=sum(record.frames for record in before)):
        control.check_cancelled()  # a full queue stops it while the device is paused
        if number < first:
            continue
        waiting.append(frame)
        ends_segment = (number + 1) % plan.segment_frames == 0 or number + 1 == done
        if len(waiting) == plan.work.clip_frames or ends_segment:
            target.put(Clip(first=number + 1 - len(waiting), frames=tuple(waiting)))
            first, waiting = number + 1, []
    if waiting:
        target.put(Clip(first=first, frames=tuple(waiting)))
    target.close()


def _warm_up(work: WorkPlan, finished: Sequence[SegmentRecord]) -> int:
    """Frames of the last finished clip, where those after it depend on them."""
    if work.steadiness == "off" or not finished:
        return 0
    return (finished[-1].frames - 1) % work.clip_frames + 1


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
    """Where to begin: at the first frame of a job, or inside a shot when it goes on.

    Attributes:
        shot: First frame of the shot that the first wanted frame belongs to.
        wanted: First frame that is not finished.
        needed: First frame to be sent, `shot` or later.
    """

    shot: int = 0
    wanted: int = 0
    needed: int = 0


class ShotReader:
    """Finds the shots of a film and sends them slice by slice.

    Memory: one slice.
    """

    def __init__(self, reader: FrameReader, detector: ShotDetector, *, slice_frames: int) -> None:
        self._reader = reader
        self._detector = detector
        self._slice = slice_frames

    def run(
        self,
        finished: Sequence[SegmentRecord],
        beginning: Beginning,
        target: Stream[ShotSlice],
        control: Control,
    ) -> None:
        """Send all frames from the beginning on.

        A slice waits for the frame after it, because only that shows whether the shot ends.
        """
        shot, begins = beginning.shot, True
        waiting: list[PlanarFrame] = []
        first = beginning.needed
        for number, frame, is_cut in self._frames(finished, beginning):
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

    def _frames(
        self, finished: Sequence[SegmentRecord], beginning: Beginning
    ) -> Iterator[tuple[int, PlanarFrame, bool]]:
        """Number, frame and whether a new shot begins with it, for each frame to be sent.

        What was found out before a job was interrupted stands: no new cut before `wanted`.
        """
        before = _before(finished, beginning.needed - HISTORY)
        start = sum(record.frames for record in before)
        for number, frame in enumerate(frames_behind(self._reader, before), start):
            looks_new = self._detector.starts_shot(frame)
            if number >= beginning.needed:
                is_new = looks_new and number >= beginning.wanted and number > beginning.shot
                yield number, frame, is_new


def _before(records: Sequence[SegmentRecord], frame: int) -> list[SegmentRecord]:
    """The segments that end at a frame or before it."""
    found, count = [], 0
    for record in records:
        count += record.frames
        if count > frame:
            break
        found.append(record)
    return found


def _slice(
    shot: int, first: int, frames: list[PlanarFrame], *, begins: bool, ends: bool
) -> ShotSlice:
    return ShotSlice(shot=shot, first=first, frames=tuple(frames), begins=begins, ends=ends)
