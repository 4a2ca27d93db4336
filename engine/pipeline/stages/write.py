"""Last stage: the encoder, one closed segment after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.control import Control
from engine.pipeline.context import JobContext
from engine.pipeline.room import check_room
from engine.pipeline.segments import SegmentRecord, Span, SpanLog
from engine.pipeline.stages.restore import Planes
from engine.pipeline.stream import Stream
from engine.protocol.events import SegmentDone
from engine.video.read.frames import PlanarFrame
from engine.video.write.segment_writer import SegmentWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneClip:
    """Frames ready for the encoder, with those of the source."""

    frames: tuple[PlanarFrame, ...]
    planes: list[Planes]
    shot: int = 0  # number of the first frame of their shot, where the model looks at shots
    ends_shot: bool = False


@dataclass(slots=True)
class _Open:
    """The segment that is being written."""

    number: int
    writer: SegmentWriter
    frames: list[tuple[int, int, int]] = field(default_factory=list)  # pts, duration, CRC
    shot: int = 0  # shot of the next frame


class Write:
    """Encodes the frames of a span and closes a segment every `plan.segment_frames` frames."""

    def __init__(self, context: JobContext, log: SpanLog, span: Span) -> None:
        self._context = context
        self._log = log
        self._done, self._next, self._stop = span.done, span.first, span.stop
        self._is_cut = False

    @property
    def frames_done(self) -> int:
        """Frames handed to the encoder, those before the span included."""
        return self._done

    def cut_short(self) -> None:
        """End the open segment at the next end of the stream, though the video goes on.

        The next attempt then begins after all finished frames. Where segments after the span are
        there, whose number stays, it begins with the open segment.
        """
        self._is_cut = True

    def run(self, source: Stream[DoneClip]) -> None:
        """Write everything that comes; an unfinished segment is thrown away on an error."""
        segment: _Open | None = None
        try:
            for clip in source:
                for number, frame in enumerate(clip.frames, 1):
                    segment = segment or self._open()
                    self._write(segment, frame, clip.planes[number - 1], self._context.control)
                    ended = clip.ends_shot and number == len(clip.frames)
                    segment.shot = self._done if ended else clip.shot
                    if self._done % self._context.plan.segment_frames == 0:
                        self._close(segment)
                        segment = None
            if segment is not None:
                self._end(segment)
        except BaseException:
            if segment is not None:
                segment.writer.abort()
            raise
        is_short = self._stop is None or self._done < self._stop
        if is_short and not self._is_cut:
            self._context.check_source()  # one that was cut off ends sooner
            self._log.complete()

    def _end(self, segment: _Open) -> None:
        """End a segment that is shorter than others."""
        if self._is_cut and self._stop is not None:
            segment.writer.abort()
        else:
            self._close(segment)

    def _open(self) -> _Open:
        number = self._next
        path = self._log.path(number)
        largest = max((record.bytes for record in self._log.records), default=0)
        check_room(self._context, path.parent, largest)
        return _Open(number, SegmentWriter(path, self._context.plan.picture))

    def _write(self, segment: _Open, frame: PlanarFrame, planes: Planes, control: Control) -> None:
        control.check_cancelled()
        segment.writer.write(planes)
        segment.frames.append((frame.pts, frame.duration, frame.crc))
        self._done += 1

    def _close(self, segment: _Open) -> None:
        written = segment.writer.close()
        pts, durations, crcs = zip(*segment.frames, strict=True)
        record = SegmentRecord(
            number=segment.number,
            pts=pts,
            durations=durations,
            bytes=written,
            crcs=crcs,
            shot=segment.shot,
            begins=self._done - len(segment.frames),
        )
        context = self._context
        context.check_source(record)
        self._log.add(record)
        self._next += 1
        context.events.emit(
            SegmentDone(
                job_id=context.job_id,
                segment=segment.number,
                frames_done=self._done,
                frames_total=max(self._done, context.plan.frames),
                bytes=written,
            )
        )
