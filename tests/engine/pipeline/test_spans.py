"""Segments that are made in any order, and after others, are those of a job that makes all."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.control import Control
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.segments import SegmentRecord, Span, first_lacking
from engine.pipeline.spans import SpanMaker
from engine.protocol.events import SegmentDone
from engine.protocol.media import FrameMark
from engine.video.read.probe import probe
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import (
    SEGMENT_FRAMES,
    STEADIED,
    Events,
    NeverComplete,
    run,
    segment_files,
    small_plan,
)

KINDS = ("lite", STEADIED, "seedvr2", "swiftvr", "pooled", "wan-2x")


def span_of(records: list[SegmentRecord], first: int, stop: int | None) -> Span:
    """Some segments of a job whose records are known."""
    end = None if stop is None or stop == len(records) else records[stop].begins
    return replace(Span().rest(records[:first]), stop=end)


def mark(count: int) -> FrameMark:
    return FrameMark(count=count, pts=10 * count, crc=1000 + count)


def segment(number: int, begins: int, frames: int, shot: int) -> SegmentRecord:
    """Record of a segment whose times and CRCs identify each frame."""
    ends = [mark(begins + count) for count in range(1, frames + 1)]
    times = {"pts": tuple(m.pts for m in ends), "crcs": tuple(m.crc for m in ends)}
    about = {"durations": (10,) * frames, "bytes": 1, "begins": begins, "shot": shot}
    return SegmentRecord(number=number, **times, **about)


# Segments of 8 frames, of a film with cuts at frames 5, 16 and 21; the shot of a record is that of
# the frame after it. The span has segments 1 to 3.
MADE = [segment(*each) for each in ((0, 0, 8, 5), (1, 8, 8, 16), (2, 16, 8, 21), (3, 24, 4, 21))]
SPAN = Span(first=1, marks=(mark(8),), shot=5, stop=28)


def test_what_is_left_of_a_span() -> None:
    for span, made, first, counts, shot, of_last in (
        (Span(), [], 0, [], 0, 0),
        (SPAN, [], 1, [8], 5, 8),
        (SPAN, MADE[1:2], 2, [8, 16], 16, 8),
        (SPAN, MADE[1:3], 3, [8, 16, 24], 21, 8),
        (SPAN, MADE[1:], 4, [8, 16, 24, 28], 21, 4),
        (Span(), MADE[:1], 1, [8], 5, 8),
    ):
        rest = span.rest(made)
        assert rest == Span(first=first, marks=(*map(mark, counts),), shot=shot, stop=span.stop)
        assert (rest.done, rest.frames_of_last) == (max(counts, default=0), of_last)
        inside = [frame for frame in range(40) if frame in rest]
        assert inside == list(range(rest.done, 28 if span.stop else 40))


def test_the_mark_before_a_frame_is_the_end_of_a_segment_that_is_whole() -> None:
    rest = SPAN.rest(MADE[1:3])
    found = [rest.mark_before(frame) for frame in (7, 8, 15, 16, 23, 24, 99)]
    assert found == [None, *map(mark, (8, 8, 16, 16, 24, 24))]


@pytest.mark.parametrize("kind", rest_extended(KINDS, "lite", "seedvr2"))
def test_spans_in_any_order_are_those_of_one_run(kind: str, tmp_path: Path) -> None:
    plan = small_plan(kind, tmp_path)
    run(plan, tmp_path / "whole")
    records = Checkpoint(tmp_path / "whole").records
    assert len(records) == 5

    (tmp_path / "spans").mkdir()
    log, control = NeverComplete(tmp_path / "spans"), Control()
    context = JobContext(
        job_id="job", media=probe(plan.source), plan=plan, control=control, events=Events(control)
    )
    with closing(SpanMaker(context)) as maker:
        for first, stop in ((3, None), (1, 3), (0, 1)):
            assert not log.records
            maker.make(span_of(records, first, stop), log)
    assert log.records == records
    assert not log.ahead
    assert segment_files(tmp_path / "spans") == segment_files(tmp_path / "whole")


def test_a_job_makes_only_what_lacks(tmp_path: Path) -> None:
    plan, folder = small_plan("lite", tmp_path), tmp_path / "job"
    run(plan, folder)
    right = segment_files(folder)
    for name in ("segment_000001.json", "segment_000002.json", "segment_000004.json", "complete"):
        (folder / name).unlink()
    log = Checkpoint(folder)
    assert [one.number for one in log.records] == [0]
    assert [one.number for one in log.ahead] == [3]
    assert log.frames == 2 * SEGMENT_FRAMES
    events = run(replace(plan, output=tmp_path / "again.mkv"), folder)
    assert [one.segment for one in events if isinstance(one, SegmentDone)] == [1, 2, 4]
    assert segment_files(folder) == right


def test_segments_that_begin_elsewhere_are_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    run(small_plan("lite", tmp_path), folder)
    (folder / "segment_000001.json").unlink()
    log = Checkpoint(folder)
    log.ahead[1] = replace(log.ahead[1], begins=-1)  # as of an earlier version
    assert first_lacking(log, SEGMENT_FRAMES).stop is None
    assert not log.ahead
    assert not (folder / "segment_000003.json").exists()
