"""Reads a film ahead of the workers: where its segments begin, and in which shot."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace

from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentLog, Span, first_lacking
from engine.pipeline.stages.read import frames_behind
from engine.planner.workers import SpanLengths
from engine.video.read.frame_mark import FrameMark
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.shots import HISTORY, ShotDetector


class Survey:
    """Finds what has to be known of a film before each span, which depends on the source alone.

    Memory: one frame, and a mark of each segment.

    Attributes:
        frames: That the film has, as far as it has been read.

    Args:
        context: Of the job.
        segments: What is finished is not handed out.
        reader: Of the source.
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
        """All spans that lack, in order; the last one has no `stop` if the film ends with it.

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
        """The last marks: those from which a span may have to be read."""
        if self._detector is None:
            return tuple(marks[-2:])
        first = bisect_right(marks, shot - HISTORY, key=lambda mark: mark.count)
        return tuple(marks[max(0, min(first - 1, len(marks) - 2)) :])

    def _frames(self) -> Iterator[tuple[int, PlanarFrame, bool]]:
        """Number, frame and whether a shot begins with it, from the first lacking frame on."""
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
