"""Spans of a job: where each begins, which ones workers have, and what is left of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentLog, SegmentRecord, Span, first_lacking
from engine.pipeline.stages.read import frames_behind
from engine.planner.workers import SpanLengths
from engine.protocol.media import FrameMark
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.shots import HISTORY, ShotDetector
from engine.workers.pool import SpanFuture


class Survey:
    """Finds the spans of a video, with what has to be known before each, from the source alone.

    Memory: one frame, and a mark of each segment.

    Attributes:
        frames: Number of frames that were read so far.

    Args:
        context: Context of the job.
        segments: Finished segments, which belong to no span.
        reader: Reader of the source.
    """

    def __init__(self, context: JobContext, segments: SegmentLog, reader: FrameReader) -> None:
        plan = context.plan
        self._control, self._reader = context.control, reader
        self._segment, self._lengths = plan.segment_frames, SpanLengths.of(plan)
        self._begin = first_lacking(segments, plan.segment_frames)
        self.frames = self._begin.done
        self._there = {record.number for record in segments.ahead}
        self._detector = None
        if plan.work.takes_shots:
            sensitivity = plan.work.shot_sensitivity
            self._detector = ShotDetector(context.media.video, sensitivity=sensitivity)

    def spans(self) -> Iterator[Span]:
        """All missing spans, in order; the last one has no `stop` if the video ends with it.

        Of the segments at which one may end it ends at the one that begins soonest after a cut:
        what lies between is computed for the next span, too.
        """
        marks, shot, number = list(self._begin.marks), self._begin.shot, self._begin.first
        waiting: Span | None = None  # until it is known where it stops
        ends: list[Span] = []  # what may follow it
        last: PlanarFrame | None = None
        for index, frame, is_cut in self._frames():
            shot = index if is_cut else shot
            if index == self._begin.done or index % self._segment == 0:
                if last is not None:
                    marks.append(FrameMark(count=index, pts=last.pts, crc=last.crc))
                    number += 1
                here = Span(first=number, marks=self._needed(marks, shot), shot=shot)
                is_there = number in self._there
                if waiting is not None and is_there:
                    yield replace(waiting, stop=index)
                    waiting, ends = None, []
                if waiting is None:
                    waiting = None if is_there else here
                elif number - waiting.first in (lengths := self._lengths.at(waiting.first)):
                    ends.append(here)
                    if len(ends) == len(lengths):
                        following = min(reversed(ends), key=lambda one: one.done - one.shot)
                        yield replace(waiting, stop=following.done)
                        waiting, ends = following, []
            last = frame
        if waiting is not None:
            yield waiting

    def _needed(self, marks: list[FrameMark], shot: int) -> tuple[FrameMark, ...]:
        """The last marks, from which a span may have to be read."""
        if self._detector is None:
            return tuple(marks[-2:])
        first = bisect_right(marks, shot - HISTORY, key=lambda mark: mark.count)
        return tuple(marks[max(0, min(first - 1, len(marks) - 2)) :])

    def _frames(self) -> Iterator[tuple[int, PlanarFrame, bool]]:
        """Number, frame and whether a shot begins with it, from the first missing frame on."""
        done = self._begin.done
        history = HISTORY if self._detector is not None else 0
        mark = self._begin.mark_before(done - history)
        for index, frame in enumerate(
            frames_behind(self._reader, mark), start=mark.count if mark else 0
        ):
            self._control.check_cancelled()
            self.frames = max(self.frames, index + 1)
            looks_new = self._detector is not None and self._detector.starts_shot(frame)
            if index >= done:
                yield index, frame, looks_new and index > self._begin.shot


class OpenSpans:
    """Spans that workers have. Used by the thread of the job, but for `is_open`.

    Args:
        finished: Records of finished segments.
        survey: Survey of the video, for its length.
        segment_frames: Frames of a segment, by the plan.

    Attributes:
        frames: Number of frames in finished segments.
        largest: Bytes of the largest segment.
    """

    def __init__(
        self, finished: Iterable[SegmentRecord], survey: Survey, segment_frames: int
    ) -> None:
        self._survey, self._segment_frames = survey, segment_frames
        self._open: dict[SpanFuture, Span] = {}
        self._shared: set[SpanFuture] = set()  # that two workers have, or had
        self._finished: dict[int, SegmentRecord] = {}
        self.frames = self.largest = 0
        for record in finished:
            self.add(record)

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, future: SpanFuture) -> bool:
        return future in self._open

    def __iter__(self) -> Iterator[SpanFuture]:
        return iter(tuple(self._open))

    @property
    def finished(self) -> Container[int]:
        """Segments that are finished, by their number."""
        return self._finished

    def begin(self, futures: Iterable[SpanFuture], spans: Iterable[Span]) -> None:
        """Add spans that are handed out."""
        self._open.update(zip(futures, spans, strict=True))

    def end(self, future: SpanFuture) -> Span | None:
        """Remove a span that has ended, whichever way; None if it is unknown."""
        self._shared.discard(future)
        return self._open.pop(future, None)

    def share(self, future: SpanFuture, other: SpanFuture) -> None:
        """Add a second worker for the rest of a span."""
        self._open[other] = self.rest_of(future)
        self._shared |= {future, other}

    def outrun(self) -> list[SpanFuture]:
        """End shared spans that another worker has made; they are returned."""
        found = [
            one
            for one in self._shared
            if one.status == "pending" and self.is_made(self.rest_of(one))
        ]
        for one in found:
            self.end(one)
        return found

    def is_elsewhere(self, rest: Span, but: Container[SpanFuture]) -> bool:
        """Whether a worker has the rest of a span, other than by some futures."""
        others = (self.rest(span) for one, span in self._open.items() if one not in but)
        return any((one.first, one.stop) == (rest.first, rest.stop) for one in others)

    def rest_of(self, future: SpanFuture) -> Span:
        """Rest of a span that is handed out."""
        return self.rest(self._open[future])

    def frames_of(self, rest: Span) -> int:
        """Number of frames of the rest of a span."""
        return (self._survey.frames if rest.stop is None else rest.stop) - rest.done

    def add(self, record: SegmentRecord) -> None:
        """Add a finished segment."""
        self._finished[record.number] = record
        self.frames += record.frames
        self.largest = max(self.largest, record.bytes)

    def rest(self, span: Span) -> Span:
        """Rest of a span, whose worker may have finished some segments."""
        made: list[SegmentRecord] = []
        while (record := self._finished.get(span.first + len(made))) is not None:
            if span.stop is not None and record.begins >= span.stop:
                break
            made.append(record)
        return span.rest(made)

    def rests(self) -> Iterator[Span]:
        """Rest of each span that is not finished."""
        rests = map(self.rest, self._open.values())
        return (rest for rest in rests if not self.is_made(rest))

    def is_made(self, rest: Span) -> bool:
        """Whether a rest is empty."""
        return self.frames_of(rest) <= 0

    def has(self, first: int) -> bool:
        """Whether a span begins with a segment."""
        return any(span.first == first for span in self._open.values())

    def is_open(self, segment: int) -> bool:
        """Whether a segment belongs to a span and is not finished; in any thread."""
        return segment not in self._finished and any(
            span.first <= segment <= self._last_of(span) for span in tuple(self._open.values())
        )

    def _last_of(self, span: Span) -> int:
        """Largest number that a segment of a span may have."""
        if span.stop is None:  # its segments may be short
            return span.first + self._survey.frames - span.done
        length = self._segment_frames
        return span.first + (span.stop - 1) // length - span.done // length
