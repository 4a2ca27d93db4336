"""Spans that workers have, and the segments that are finished."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from engine.pipeline.segments import SegmentRecord, Span
from engine.workers.crew import SpanFuture
from engine.workers.survey import Survey


class OpenSpans:
    """Used by the thread of the job, but for `lacks`.

    Args:
        finished: Segments that are there.
        survey: Knows how far the film goes.
        segment_frames: Of the plan.

    Attributes:
        frames: In finished segments.
        largest: Bytes of the largest of them.
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
        """They are handed out."""
        self._open.update(zip(futures, spans, strict=True))

    def end(self, future: SpanFuture) -> Span | None:
        """A span has ended, whichever way; None: one that is not known any more."""
        self._shared.discard(future)
        return self._open.pop(future, None)

    def share(self, future: SpanFuture, other: SpanFuture) -> None:
        """What is left of a span is handed out to another worker, too."""
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
        """Whether a worker has what is left of a span, other than by some futures."""
        others = (self.rest(span) for one, span in self._open.items() if one not in but)
        return any((one.first, one.stop) == (rest.first, rest.stop) for one in others)

    def rest_of(self, future: SpanFuture) -> Span:
        """What is left of a span that is handed out."""
        return self.rest(self._open[future])

    def frames_of(self, rest: Span) -> int:
        """Frames that are left of a span."""
        return (self._survey.frames if rest.stop is None else rest.stop) - rest.done

    def add(self, record: SegmentRecord) -> None:
        """A segment is finished."""
        self._finished[record.number] = record
        self.frames += record.frames
        self.largest = max(self.largest, record.bytes)

    def rest(self, span: Span) -> Span:
        """What is left of a span, whose worker may have finished some segments."""
        made: list[SegmentRecord] = []
        while (record := self._finished.get(span.first + len(made))) is not None:
            if span.stop is not None and record.begins >= span.stop:
                break
            made.append(record)
        return span.rest(made)

    def rests(self) -> Iterator[Span]:
        """What is left of each of which anything is."""
        rests = map(self.rest, self._open.values())
        return (rest for rest in rests if not self.is_made(rest))

    def is_made(self, rest: Span) -> bool:
        """Whether nothing is left of a span."""
        return self.frames_of(rest) <= 0

    def has(self, first: int) -> bool:
        """Whether one begins with a segment."""
        return any(span.first == first for span in self._open.values())

    def lacks(self, segment: int) -> bool:
        """Whether a segment belongs to one of them and is not finished; in any thread."""
        return segment not in self._finished and any(
            span.first <= segment <= self._last_of(span) for span in tuple(self._open.values())
        )

    def _last_of(self, span: Span) -> int:
        """The last number that a segment of a span may have."""
        if span.stop is None:  # its segments may be short
            return span.first + self._survey.frames - span.done
        length = self._segment_frames
        return span.first + (span.stop - 1) // length - span.done // length
