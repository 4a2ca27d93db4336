"""First stage: frames of the source, gathered into clips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.core.control import Control
from engine.pipeline.segments import SegmentRecord
from engine.pipeline.stream import Stream
from engine.protocol.plan import Plan
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import FrameMark, PlanarFrame


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
    return reader.iter_after(FrameMark(count=count, pts=last.pts[-1], crc=last.crc))


def read(
    reader: FrameReader,
    plan: Plan,
    finished: list[SegmentRecord],
    target: Stream[Clip],
    control: Control,
) -> None:
    """Send the frames that are not finished yet, `plan.work.clip_frames` at a time.

    No clip reaches over the end of a segment, so that a resumed job makes the same clips.
    """
    done = sum(record.frames for record in finished)
    frames = frames_behind(reader, finished)
    waiting: list[PlanarFrame] = []
    for number, frame in enumerate(frames, start=done):
        control.check_cancelled()  # a full queue stops it while the device is paused
        waiting.append(frame)
        ends_segment = (number + 1) % plan.segment_frames == 0
        if len(waiting) == plan.work.clip_frames or ends_segment:
            target.put(Clip(first=number + 1 - len(waiting), frames=tuple(waiting)))
            done, waiting = number + 1, []
    if waiting:
        target.put(Clip(first=done, frames=tuple(waiting)))
    target.close()
