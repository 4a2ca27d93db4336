"""Reports of workers that make no sense are refused, whatever is wrong with them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core.messages import message
from engine.core.serialization import to_plain
from engine.pipeline.segments import SegmentRecord, Span, made_path
from engine.protocol.media import FrameMark
from engine.workers.reports import (
    InvalidReport,
    Made,
    read_made,
    read_progress,
    read_segment,
    reports_in,
)

JUNK: tuple[Any, ...] = (None, 3, "text", [], {}, {"number": "1"}, {"first": None}, [[[]]])
RECORD = SegmentRecord(
    number=2, pts=(8, 9, 10, 11), durations=(1,) * 4, bytes=5, crcs=(7,) * 4, begins=8
)
LACKING = Span(first=2, marks=(FrameMark(count=8, pts=7, crc=7),), stop=16)


def test_reports_that_come_together_are_taken_one_by_one() -> None:
    reports = ({"kind": "progress", "data": [1, 1, 2.0]}, {"kind": "made", "data": {"first": 3}})
    found = [("progress", [1, 1, 2.0]), ("made", {"first": 3})]
    assert list(reports_in({"reports": reports})) == found


@pytest.mark.parametrize(
    "junk", [*JUNK, [{"kind": "joined"}], [{"kind": []}], [None], b"made", [None] * 9]
)
def test_what_is_no_report_is_unknown(junk: Any) -> None:
    """Kinds that this process tells itself are none of a worker's, either."""
    for sent in ({"reports": junk}, {1: junk}, {}):
        assert list(reports_in(sent)) in ([], [("unknown", None)])


def kept(record: SegmentRecord, folder: Path, span: Span = LACKING) -> SegmentRecord | None:
    made_path(folder, RECORD.number, 1).write_bytes(b"12345")
    return read_segment(
        to_plain(record), [span], (), frames=20, segment_frames=4, folder=folder, worker=1
    )


def test_the_next_segment_of_a_span_is_taken(tmp_path: Path) -> None:
    assert kept(RECORD, tmp_path) == RECORD


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": 1},
        {"number": 3},  # the second one of the span, without the first
        {"begins": 12},
        {"bytes": 4},
        {"pts": (), "durations": (), "crcs": ()},
        {"crcs": (7,) * 3},
        {"pts": (8,) * 5, "durations": (1,) * 5, "crcs": (7,) * 5},
        {"pts": (8,) * 3, "durations": (1,) * 3, "crcs": (7,) * 3},
    ],
)
def test_another_segment_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidReport):
        kept(replace(RECORD, **wrong), tmp_path)


def test_a_segment_beyond_the_film_or_without_a_file_is_refused(tmp_path: Path) -> None:
    last = replace(LACKING, stop=None)
    assert kept(RECORD, tmp_path, last) == RECORD
    plain = to_plain(RECORD)
    with pytest.raises(InvalidReport):
        read_segment(plain, [last], (), frames=11, segment_frames=4, folder=tmp_path, worker=1)
    made_path(tmp_path, RECORD.number, 1).unlink()
    with pytest.raises(InvalidReport):
        read_segment(plain, [last], (), frames=20, segment_frames=4, folder=tmp_path, worker=1)


def test_a_segment_that_another_worker_has_made_meanwhile_is_left(tmp_path: Path) -> None:
    plain, finished = to_plain(RECORD), {RECORD.number}
    found = read_segment(
        plain, [], finished, frames=20, segment_frames=4, folder=tmp_path, worker=1
    )
    assert found is None


@pytest.mark.parametrize("junk", JUNK)
def test_junk_is_refused(junk: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidReport):
        read_segment(junk, [LACKING], (), frames=20, segment_frames=4, folder=tmp_path, worker=1)
    with pytest.raises(InvalidReport):
        read_made(junk)
    with pytest.raises(InvalidReport):
        read_progress(junk, frames=20)


def test_a_failure_keeps_its_message() -> None:
    made = Made(first=1, failure=message("reason.machine.left-out", why=message("out-of-memory")))
    assert read_made(to_plain(made)) == made


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_times_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidReport):
        read_made(to_plain(Made(first=1, seconds={"decode": seconds})))


@pytest.mark.parametrize(
    "wrong", [[21, 1, 1.0], [3, 4, 1.0], [3, -1, 1.0], [3, 1, math.nan], [3, 1], [True, 0, 1.0]]
)
def test_progress_is_within_the_film(wrong: list[float]) -> None:
    assert read_progress([20, 1, 1.5], frames=20) == (20, 1, 1.5)
    with pytest.raises(InvalidReport):
        read_progress(wrong, frames=20)
