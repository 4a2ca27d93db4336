"""Compares what is copied beside the picture: which tracks, their packets, and when they play."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from engine.protocol.media import MediaInfo, StreamInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check
from engine.video.read.packet_digest import NO_TIME, StreamDigest

_SHIFT_S = 0.010  # sound may be off by less
_EDGE_S = 0.25  # around the ends of a cut, where a packet may lie on either side
_KINDS = {"audio": "sound track", "subtitle": "subtitle", "data": "data track"}
_GROUP = {"cover": "attachment"}  # MKV keeps a cover as an attachment


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two files: what it is, its packets, and when its first picture is shown."""

    media: MediaInfo
    packets: dict[int, StreamDigest]
    origin: Fraction  # s

    def times(self, index: int) -> NDArray[np.float64]:
        """Times of a stream's packets, s after the first picture; NaN where there is none."""
        entry = self.packets[index]
        ticks = np.frombuffer(entry.times, dtype=np.int64)
        seconds = ticks * float(entry.time_base) - float(self.origin)
        return np.where(ticks == NO_TIME, np.nan, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Whether the job took a part of the source, and how long its picture is, s."""

    is_cut: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A stream of the source, where it is in the result, and how their packets go together."""

    name: str  # "sound track 2 (deu, aac)"
    source: StreamInfo
    result: StreamInfo
    fault: str = ""  # how the packets differ
    shift: float = 0.0  # s that the result's packets are late; early below 0
    wander: float = 0.0  # s between the packet that is most off and the others


Matches = tuple[tuple[StreamInfo, StreamInfo], ...]


def compare_streams(
    source: Side, result: Side, plan: Plan | None, span: Span
) -> tuple[tuple[Check, ...], Matches]:
    """The checks "streams", "stream-content" and "sound-timing"; and which stream is which."""
    wanted, left_out = _wanted(source.media, result.media, plan)
    found = _match(source, result, wanted)
    missing = [name_of(source.media, s) for s in wanted if s.index not in found]
    pairs = [
        _pair(source, result, stream, found[stream.index], span)
        for stream in wanted
        if stream.index in found
    ]
    checks = (
        _streams_check(wanted, missing, left_out),
        _content_check(source, pairs),
        _timing_check(pairs),
    )
    return checks, tuple((pair.source, pair.result) for pair in pairs)


def name_of(media: MediaInfo, stream: StreamInfo) -> str:
    """What people call a stream: "sound track 2 (deu, aac)"."""
    if stream.kind == "attachment":
        return f"attachment {stream.file_name}".strip()
    if stream.kind == "cover":
        return "cover picture"
    same = [s for s in media.streams if s.kind == stream.kind]
    details = ", ".join(filter(None, (stream.language, stream.codec)))
    return f"{_KINDS[stream.kind]} {same.index(stream) + 1} ({details})"


def _wanted(
    source: MediaInfo, result: MediaInfo, plan: Plan | None
) -> tuple[list[StreamInfo], list[str]]:
    """Streams that must be there, and in words those that the plan leaves out."""
    if plan is not None:
        copied = {entry.index for entry in plan.streams if entry.copied}
        why = {entry.index: entry.why for entry in plan.streams if not entry.copied}
        out = [
            f"{name_of(source, s)}: {why[s.index] or 'left out'}"
            for s in source.streams
            if s.index in why
        ]
        known = copied | set(why)
        return [s for s in source.streams if s.index in copied or s.index not in known], out
    if result.kind != "video":
        return [], ["pictures carry no other streams"] if source.streams else []
    return [s for s in source.streams if s.kind != "data"], []


def _match(source: Side, result: Side, wanted: list[StreamInfo]) -> dict[int, StreamInfo]:
    """Which stream of the result is which of the source: by content first, then by place."""
    found: dict[int, StreamInfo] = {}
    free = list(result.media.streams)
    for rule in (_is_same, _is_alike, _is_of_its_kind):
        for stream in wanted:
            if stream.index in found:
                continue
            entry = source.packets.get(stream.index)
            for candidate in free:
                other = result.packets.get(candidate.index)
                if entry is None or other is None or _kind(stream) != _kind(candidate):
                    continue
                if rule(stream, candidate, entry, other):
                    found[stream.index] = candidate
                    free.remove(candidate)
                    break
    return found


def _kind(stream: StreamInfo) -> str:
    return _GROUP.get(stream.kind, stream.kind)


def _is_same(_a: StreamInfo, _b: StreamInfo, one: StreamDigest, other: StreamDigest) -> bool:
    return one.size == other.size and one.crc == other.crc


def _is_alike(_a: StreamInfo, _b: StreamInfo, one: StreamDigest, other: StreamDigest) -> bool:
    known = set(one.crcs)
    return 2 * sum(crc in known for crc in other.crcs) > len(other)


def _is_of_its_kind(a: StreamInfo, b: StreamInfo, _one: object, _other: object) -> bool:
    return a.codec == b.codec


def _pair(source: Side, result: Side, stream: StreamInfo, other: StreamInfo, span: Span) -> Pair:
    old, new = source.packets[stream.index], result.packets[other.index]
    old_times, new_times = source.times(stream.index), result.times(other.index)
    if span.is_cut and _kind(stream) != "attachment":
        fault, together = _align_cut(old, new, old_times, new_times, span.seconds)
    else:
        fault, together = _align(old, new, old_times)
    offsets = new_times[together[1]] - old_times[together[0]]
    if span.is_cut:  # what began before the part begins with it
        offsets = offsets[old_times[together[0]] >= 0]
    offsets = offsets[~np.isnan(offsets)]
    shift = float(np.median(offsets)) if offsets.size else 0.0
    wander = float(np.abs(offsets - shift).max()) if offsets.size else 0.0
    return Pair(
        name=name_of(source.media, stream),
        source=stream,
        result=other,
        fault=fault,
        shift=shift,
        wander=wander,
    )


Places = tuple[NDArray[np.intp], NDArray[np.intp]]  # packets of both sides that are the same


def _align(old: StreamDigest, new: StreamDigest, times: NDArray[np.float64]) -> tuple[str, Places]:
    """Compare whole streams: what differs, in words, and which packets belong together."""
    a, b = np.frombuffer(old.crcs, np.uint32), np.frombuffer(new.crcs, np.uint32)
    shorter = min(a.size, b.size)
    head = _agreeing(a[:shorter], b[:shorter])
    if head == a.size == b.size:
        return "", (np.arange(head), np.arange(head))
    if old.size == new.size and old.crc == new.crc:  # the same bytes, cut elsewhere
        first = np.arange(min(1, shorter))
        return "", (first, first)
    tail = _agreeing(a[::-1][: shorter - head], b[::-1][: shorter - head])
    front, back = np.arange(head), np.arange(tail) + 1
    together = np.concatenate((front, a.size - back)), np.concatenate((front, b.size - back))
    at = f" at {times[min(head, a.size - 1)]:.3f} s" if a.size else ""
    if head + tail == shorter and a.size != b.size:
        number = abs(int(a.size) - int(b.size))
        what = "missing" if b.size < a.size else "too many"
        return f"{number} of {a.size} packets {what}{at}", together
    return f"packets differ from number {head + 1} of {a.size} on{at}", together


def _agreeing(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> int:
    """How many entries from the front are equal."""
    differs = np.flatnonzero(a != b)
    return int(differs[0]) if differs.size else int(a.size)


def _align_cut(
    old: StreamDigest,
    new: StreamDigest,
    old_times: NDArray[np.float64],
    new_times: NDArray[np.float64],
    seconds: float,
) -> tuple[str, Places]:
    """Compare a part: where it lies in the source, and whether all of it is there."""
    a, b = np.frombuffer(old.crcs, np.uint32), np.frombuffer(new.crcs, np.uint32)
    needed = np.flatnonzero((old_times >= _EDGE_S) & (old_times < seconds - _EDGE_S))
    nothing = (np.arange(0), np.arange(0))
    if not b.size:
        return ("all packets missing" if needed.size else ""), nothing
    places = np.flatnonzero(a[: max(0, a.size - b.size + 1)] == b[0])
    nearest = places[np.argsort(np.abs(old_times[places] - new_times[0]), kind="stable")]
    for place in nearest:
        if np.array_equal(a[place : place + b.size], b):
            if needed.size and (needed[0] < place or needed[-1] >= place + b.size):
                return "packets missing at an end of the part", nothing
            return "", (np.arange(b.size) + place, np.arange(b.size))
    if old.size and a.size and b.size and _is_recut(old, new, old_times, seconds):
        return "", nothing
    return "packets differ from the source's", nothing


def _is_recut(old: StreamDigest, new: StreamDigest, times: NDArray[np.float64], end: float) -> bool:
    """True for uncompressed sound in packets of another length: only its amount is compared."""
    if np.isin(np.frombuffer(new.crcs, np.uint32), np.frombuffer(old.crcs, np.uint32)).any():
        return False
    length = float(np.nanmax(times) - np.nanmin(times))
    taken = min(float(np.nanmax(times)), end) - max(0.0, float(np.nanmin(times)))
    rate = old.size / length if length > 0 else 0.0
    return abs(new.size - rate * taken) < 2 * _EDGE_S * rate


def _streams_check(wanted: list[StreamInfo], missing: list[str], left_out: list[str]) -> Check:
    there = len(wanted) - len(missing)
    if missing:
        message = f"Missing in the result: {'; '.join(missing)}."
    elif not wanted and not left_out:
        message = "The source has nothing beside the picture."
    else:
        message = f"{there} of {len(wanted)} other streams are there."
    if left_out:
        message += f" Left out as planned: {'; '.join(left_out)}."
    return Check(
        code="streams",
        passed=not missing,
        message=message,
        source=str(len(wanted) + len(left_out)),
        output=str(there),
    )


def _content_check(source: Side, pairs: list[Pair]) -> Check:
    faults = [f"{pair.name}: {pair.fault}" for pair in pairs if pair.fault]
    packets = sum(len(source.packets[pair.source.index]) for pair in pairs)
    message = f"{packets} packets in {len(pairs)} streams are byte for byte the same."
    if faults:
        message = f"Not copied unchanged: {'; '.join(faults)}."
    elif not pairs:
        message = "There was nothing to copy."
    return Check(code="stream-content", passed=not faults, message=message)


def _timing_check(pairs: list[Pair]) -> Check:
    timed = [pair for pair in pairs if _kind(pair.source) != "attachment"]
    faults = [_timing_fault(pair) for pair in timed]
    faults = [fault for fault in faults if fault]
    worst = max((abs(pair.shift) for pair in timed), default=0.0)
    message = f"Sound and subtitles are where they were (within {worst * 1000:.1f} ms)."
    if faults:
        message = f"Against the picture: {'; '.join(faults)}."
    elif not timed:
        message = "There is no sound to be late."
    return Check(code="sound-timing", passed=not faults, message=message)


def _timing_fault(pair: Pair) -> str:
    if abs(pair.shift) >= _SHIFT_S:
        way = "late" if pair.shift > 0 else "early"
        return f"{pair.name} is {abs(pair.shift) * 1000:.0f} ms {way}"
    if pair.wander >= _SHIFT_S:
        return f"{pair.name} wanders by up to {pair.wander * 1000:.0f} ms"
    return ""
