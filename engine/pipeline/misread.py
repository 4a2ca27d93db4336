"""Finds segments made of frames that were read wrongly, as by a decoder that lacked memory once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentRecord
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame


def first_misread(context: JobContext, records: Sequence[SegmentRecord]) -> int | None:
    """Number of the first segment that was made of other frames than the source has now.

    Where frames are blended with the next ones it is the segment before: its last frame was, too.
    Reads the source up to there; damage that is there each time is no difference.

    Args:
        context: The job.
        records: All its segments.

    Returns:
        None where all were made of these frames.

    Raises:
        InputError: The source is gone.
        OutOfMemory: The machine refused memory.
        ResultHeldBack: Frames cannot be read, and all must be.
        Cancelled: The user stopped.
    """
    plan, must_be_whole = context.plan, not context.accepts_damage
    with FrameReader(
        context.media, start=plan.start, stop=plan.stop, must_be_whole=must_be_whole
    ) as reader:
        marks = _marks(reader, context)
        for record in records:
            if any(next(marks, None) != mark for mark in record.marks):
                return max(0, record.number - (plan.work.steadiness != "off"))
        is_longer = bool(records) and next(marks, None) is not None
    return records[-1].number if is_longer else None


def _marks(frames: Iterable[PlanarFrame], context: JobContext) -> Iterator[tuple[int, int]]:
    for frame in frames:
        context.control.check()
        yield frame.pts, frame.crc
