"""Reports of workers about their spans, checked: another computer may send anything."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from engine.core.messages import Message
from engine.core.serialization import from_plain
from engine.pipeline.segments import SegmentRecord, Span, made_path

T = TypeVar("T")
_KINDS = ("segment", "made", "progress", "warned")


class Report(NamedTuple):
    """A report of a worker, or of the wing that lets other computers in."""

    number: int  # number of the worker
    kind: str
    data: Any  # plain, if it comes from a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """End of a span; its finished segments are known by then."""

    first: int  # number of its first segment
    failure: Message | None = None  # why segments are missing
    has_preview: bool = False  # the result of the task is a preview
    peak_bytes: int = 0  # peak RAM of the worker so far
    # Seconds of each stage since the worker began.
    seconds: Mapping[str, float] = field(default_factory=dict)


class InvalidReport(Exception):
    """A worker has reported what makes no sense."""


def check(is_so: bool, what: str) -> None:
    """Refuse a report unless something is so.

    Raises:
        InvalidReport: It is not.
    """
    if not is_so:
        raise InvalidReport(what)


def reports_in(sent: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Kind and data of the reports that a worker has sent together; "unknown" ends them."""
    reports: Any = sent.get("reports")
    for report in reports if isinstance(reports, Sequence) else (None,):
        about: Mapping[Any, Any] = report if isinstance(report, Mapping) else {}
        kind = about.get("kind")
        if kind not in _KINDS:
            yield "unknown", None
            return
        yield kind, about.get("data")


def read(kind: type[T], data: Any) -> T:
    """Data of a report.

    Raises:
        InvalidReport: They do not describe a `kind`.
    """
    try:
        return from_plain(kind, data)
    except (ValueError, TypeError, KeyError, RecursionError) as err:
        raise InvalidReport(f"no {kind}: {err}") from err


def read_segment(
    data: Any,
    rests: Iterable[Span],
    finished: Container[int],
    *,
    frames: int,
    segment_frames: int,
    folder: Path,
    worker: int,
) -> SegmentRecord | None:
    """The record of a finished segment; None if there is one already.

    Args:
        data: Plain.
        rests: Rest of each span that is being made.
        finished: Finished segments, by their number.
        frames: Number of frames of the video, as far as it was read.
        segment_frames: Frames of a segment, by the plan.
        folder: Folder of the job, which has the file.
        worker: Number of the one that reports.

    Raises:
        InvalidReport: It is not the next one of such a span, or is not there.
    """
    record = read(SegmentRecord, data)
    if record.number in finished:
        return None
    check(0 < record.frames <= segment_frames, "a segment without frames, or with too many")
    check(
        record.frames == len(record.durations) == len(record.crcs), "frame counts that do not match"
    )
    found = [one for one in rests if (one.first, one.done) == (record.number, record.begins)]
    check(bool(found), "a segment already finished")
    stop, end = found[0].stop, record.end.count
    check(end <= (frames if stop is None else stop), "a segment beyond the end of its span")
    check(stop is None or end == stop or end % segment_frames == 0, "an incomplete segment")
    path = made_path(folder, record.number, worker)
    check(path.is_file() and path.stat().st_size == record.bytes, "a missing segment file")
    return record


def read_made(data: Any) -> Made:
    """The end of a span.

    Raises:
        InvalidReport: It makes no sense.
    """
    made = read(Made, data)
    taken = (made.peak_bytes, *made.seconds.values())
    check(all(isfinite(one) and one >= 0 for one in taken), "a negative size or time")
    return made


def read_progress(data: Any, *, frames: int) -> tuple[int, int, float]:
    """Frame at which a worker is, frames since its last finished segment, frames a second.

    Raises:
        InvalidReport: It makes no sense; the video has no such frame, for example.
    """
    check(isinstance(data, list | tuple) and len(data) == 3, "no progress")
    frame, begun, speed = read(int, data[0]), read(int, data[1]), read(float, data[2])
    check(0 <= begun <= frame <= frames, "a frame number out of range")
    check(isfinite(speed) and speed >= 0, "an invalid speed")
    return frame, begun, speed
