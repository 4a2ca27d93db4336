"""Checks of the other streams: which ones are there, their packets or samples, their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.messages import Message, clauses, message, sentences
from engine.protocol.media import PLAYED_AS, MediaInfo, StreamInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check
from engine.verification.sound import Track, compare_encoded, compare_sound
from engine.video.read.clock import PartClock, StampCheck
from engine.video.read.digest import NO_TIME, StreamDigest
from engine.video.read.sound import timed_samples
from engine.video.write.containers import (
    CONTAINERS,
    FLAT,
    LOSSY_RATES,
    is_exact,
    names_channels,
    plan_streams,
    source_family,
)
from engine.video.write.converted_text import digest_of_texts

_SHIFT_S = 0.010  # tolerance of sound and subtitles
_EDGE_S = 0.25  # around the ends of a part, where a packet may be on either side
_NEVER = ("data", "video", "thumbnails")  # that a result need not have, even without a plan
_GROUP = {"cover": "attachment"}  # MKV keeps a cover as an attachment


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFile:
    """One of the two files: facts, packets, and the time of its first picture."""

    media: MediaInfo
    packets: dict[int, StreamDigest]
    origin: Fraction  # s
    jumps: tuple[Fraction, ...] = ()  # jumps of the video's clock, s; see `clock.film_jumps`

    def times(self, index: int) -> NDArray[np.float64]:
        """Times of a stream's packets, s after the first picture; NaN where there is none.

        Rising: those of a joined recording go on, and a time that goes back is that before it.
        """
        entry = self.packets[index]
        is_sound = index in {stream.index for stream in self.media.audio_streams}
        check = StampCheck(self.media.container) if is_sound else None
        clock = PartClock(entry.time_base, self.jumps, check)
        moved = (np.nan if time == NO_TIME else clock.moved(time) for time in entry.times)
        seconds = np.fromiter(moved, np.float64, len(entry)) * float(entry.time_base)
        return np.fmax.accumulate(seconds) - float(self.origin)

    def samples(self, index: int, control: Control) -> Iterator[tuple[float, NDArray[Any]]]:
        """Decoded samples of a sound track, and their times, s after the first picture."""
        origin = float(self.origin)
        for time, samples in timed_samples(self.media, index, self.jumps, control):
            yield time - origin, samples


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPair:
    """A stream of the source, that of the result, and how they differ."""

    name: Message  # "sound track 2 (deu, aac)"
    source: StreamInfo
    result: StreamInfo
    fault: Message | None = None  # difference of the packets, or of the samples
    shift: float = 0.0  # s that the result's packets are late; early below 0
    wander: float = 0.0  # s, of the packet farthest from that shift


Matches = tuple[tuple[StreamInfo, StreamInfo], ...]


def compare_streams(
    source: ComparedFile,
    result: ComparedFile,
    plan: Plan | None,
    part_s: float | None,
    control: Control,
) -> tuple[tuple[Check, ...], Matches]:
    """The checks "streams", "stream-content" and "sound-timing", and the matching streams.

    Args:
        source: The source.
        result: The result.
        plan: Plan of the job, if known.
        part_s: Length of the part that the job took, s; infinite up to the end, None for all.
        control: Checked between packets.
    """
    expected, left_out = _expected(source.media, result.media, plan)
    found = _match(source, result, expected)
    missing = [name_of(source.media, s) for s in expected if s.index not in found]
    dropped = {entry.index: entry.dropped for entry in plan.streams} if plan else {}
    pairs = []
    for stream in expected:
        other = found.get(stream.index)
        if other is None:
            continue
        if _is_text(stream, other):
            lost = dropped.get(stream.index, 0)
            pairs.append(_text_pair(source, result, (stream, other), part_s, lost, control))
        elif _is_encoded(stream, other) or _is_converted(stream, other):
            pairs.append(_decoded_pair(source, result, (stream, other), part_s, control))
        else:
            lost = dropped.get(stream.index, 0)
            pairs.append(_pair(source, result, (stream, other), part_s, lost))
    checks = (
        _streams_check(expected, missing, left_out),
        _content_check(result, pairs, sum(dropped.values())),
        _timing_check(pairs),
    )
    return checks, tuple((pair.source, pair.result) for pair in pairs)


def name_of(media: MediaInfo, stream: StreamInfo) -> Message:
    """Name of a stream for users: "sound track 2 (deu, aac)"."""
    kind = message(f"stream.{stream.kind}")
    if stream.kind == "cover":
        return kind
    if stream.kind == "attachment":
        return message("stream.with-file", kind=kind, file=stream.file_name)
    same = [s for s in media.streams if s.kind == stream.kind]
    details = ", ".join(filter(None, (stream.language, stream.codec)))
    number = same.index(stream) + 1
    return message("stream.numbered", kind=kind, number=number, details=details)


def _expected(
    source: MediaInfo, result: MediaInfo, plan: Plan | None
) -> tuple[list[StreamInfo], list[Message]]:
    """Streams that must be there, and names of those that are left out, with the reason.

    Without a plan everything must be there but data that the result's container cannot hold, other
    video tracks and other programmes.
    """
    if plan is None and result.kind != "video":
        return [], [message("reason.stream.pictures-only")] if source.streams else []
    planned = (
        plan.streams if plan is not None else plan_streams(source, source_family(result) or "mkv")
    )
    never = {s.index for s in source.streams if s.is_of_other_programme or s.kind in _NEVER}
    left_out = {
        entry.index: entry.why
        for entry in planned
        if not entry.copied and (plan is not None or entry.index in never)
    }
    unknown = message("reason.stream.unknown")
    names = [
        message(
            "check.streams.reason",
            stream=name_of(source, stream),
            why=left_out[stream.index] or unknown,
        )
        for stream in source.streams
        if stream.index in left_out
    ]
    return [s for s in source.streams if s.index not in left_out], names


def _match(
    source: ComparedFile, result: ComparedFile, expected: list[StreamInfo]
) -> dict[int, StreamInfo]:
    """Stream of the result for each of the source: by content first, then by order."""
    found: dict[int, StreamInfo] = {}
    free = list(result.media.streams)
    for rule in (_is_same, _is_alike, _is_of_its_kind, _may_be_its_sound):
        for stream in expected:
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


def _may_be_its_sound(a: StreamInfo, b: StreamInfo, _one: object, _other: object) -> bool:
    if _is_encoded(a, b) or _is_text(a, b):
        return True
    return _is_converted(a, b) and (a.channels, a.sample_rate) == (b.channels, b.sample_rate)


def _is_converted(stream: StreamInfo, other: StreamInfo) -> bool:
    """Whether a sound track was decoded and its samples stored."""
    stores_samples = other.codec == "flac" or other.codec.startswith("pcm_")
    return stream.kind == "audio" and stream.codec != other.codec and stores_samples


def _is_encoded(stream: StreamInfo, other: StreamInfo) -> bool:
    """Whether a sound track was decoded and encoded again, not quite as it was."""
    is_other = stream.kind == "audio" and stream.codec != other.codec
    return is_other and (other.codec in LOSSY_RATES or not is_exact(other.codec, stream))


def _is_text(stream: StreamInfo, other: StreamInfo) -> bool:
    """Whether subtitles were converted to another format of text."""
    is_made = other.codec in {one.text for one in CONTAINERS.values() if one.text}
    return stream.kind == "subtitle" and stream.codec != other.codec and is_made


def _layout(stream: StreamInfo) -> str:
    """Channels of a track as they are decoded: named, even where the file states only how many."""
    is_named = names_channels(stream.layout) or stream.channels > len(PLAYED_AS)
    return stream.layout if is_named else PLAYED_AS[stream.channels - 1]


def _decoded_pair(
    source: ComparedFile,
    result: ComparedFile,
    streams: tuple[StreamInfo, StreamInfo],
    part_s: float | None,
    control: Control,
) -> StreamPair:
    """Tracks that were decoded: their samples, as far as the codec of the result is exact."""
    stream, other = streams
    old, new = (
        Track(file.samples(one.index, control), one.sample_rate, _layout(one))
        for file, one in ((source, stream), (result, other))
    )
    if _is_encoded(stream, other):
        found = compare_encoded(old, new, part_s, _EDGE_S)
        fault = found.fault
    else:
        found = compare_sound(old, new, part_s, _EDGE_S)
        fault, layouts = found.fault, (stream.layout, other.layout)
        if fault is None and len({*layouts}) == 2 and all(map(names_channels, layouts)):
            fault = message("check.stream-content.channels", expected=layouts[0], found=layouts[1])
    offsets = np.array(found.offsets)
    return _timed_pair(name_of(source.media, stream), streams, fault, offsets)


def _text_pair(
    source: ComparedFile,
    result: ComparedFile,
    streams: tuple[StreamInfo, StreamInfo],
    part_s: float | None,
    dropped: int,
    control: Control,
) -> StreamPair:
    """Texts compared as packets are."""
    texts, is_flat = [], streams[1].codec in FLAT
    for file, stream in zip((source, result), streams, strict=True):
        digest = digest_of_texts(file.media, stream.index, control, is_flat=is_flat)
        texts.append(replace(file, packets={**file.packets, stream.index: digest}))
    return _pair(texts[0], texts[1], streams, part_s, dropped)


def _pair(
    source: ComparedFile,
    result: ComparedFile,
    streams: tuple[StreamInfo, StreamInfo],
    part_s: float | None,
    dropped: int,
) -> StreamPair:
    stream, other = streams
    old, new = source.packets[stream.index], result.packets[other.index]
    old_times, new_times = source.times(stream.index), result.times(other.index)
    if part_s is not None and _kind(stream) != "attachment":
        fault, together = _align_cut(old, new, old_times, new_times, part_s, dropped)
    elif dropped and (kept := _kept(*_crcs(old, new), old_times, new_times, dropped)) is not None:
        fault, together = None, (kept, np.arange(kept.size))
    else:
        fault, together = _align(old, new, old_times)
    offsets = new_times[together[1]] - old_times[together[0]]
    if part_s is not None:  # what began before the part begins with it
        offsets = offsets[old_times[together[0]] >= 0]
    offsets = offsets[~np.isnan(offsets)]
    return _timed_pair(name_of(source.media, stream), streams, fault, offsets)


def _timed_pair(
    name: Message,
    streams: tuple[StreamInfo, StreamInfo],
    fault: Message | None,
    offsets: NDArray[np.float64],
) -> StreamPair:
    shift = float(np.median(offsets)) if offsets.size else 0.0
    wander = float(np.abs(offsets - shift).max()) if offsets.size else 0.0
    return StreamPair(
        name=name,
        source=streams[0],
        result=streams[1],
        fault=fault,
        shift=shift,
        wander=wander,
    )


# How two streams differ, and the packets of both that are the same.
_Alignment = tuple[Message | None, tuple[NDArray[np.intp], NDArray[np.intp]]]


def _align(old: StreamDigest, new: StreamDigest, times: NDArray[np.float64]) -> _Alignment:
    """Compare whole streams."""
    a, b = _crcs(old, new)
    shorter = min(a.size, b.size)
    head = _agreeing(a[:shorter], b[:shorter])
    if head == a.size == b.size:
        return None, (np.arange(head), np.arange(head))
    if old.size == new.size and old.crc == new.crc:  # the same bytes, cut elsewhere
        first = np.arange(min(1, shorter))
        return None, (first, first)
    tail = _agreeing(a[::-1][: shorter - head], b[::-1][: shorter - head])
    front, back = np.arange(head), np.arange(tail) + 1
    together = np.concatenate((front, a.size - back)), np.concatenate((front, b.size - back))
    if not a.size:
        return message("check.stream-content.only-new", count=b.size), together
    about = {"total": a.size, "time": f"{times[min(head, a.size - 1)]:.3f}"}
    if head + tail == shorter and a.size != b.size:
        about["count"] = abs(int(a.size) - int(b.size))
        if b.size < a.size:
            return message("check.stream-content.missing", **about), together
        return message("check.stream-content.surplus", **about), together
    return message("check.stream-content.differ", number=head + 1, **about), together


def _crcs(old: StreamDigest, new: StreamDigest) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    return np.frombuffer(old.crcs, np.uint32), np.frombuffer(new.crcs, np.uint32)


def _kept(
    old: NDArray[np.uint32],
    new: NDArray[np.uint32],
    old_times: NDArray[np.float64],
    new_times: NDArray[np.float64],
    dropped: int,
) -> NDArray[np.intp] | None:
    """The source's packets that the result has; None where more than `dropped` are missing.

    Equal packets, as silence has, are distinguished by their times.
    """
    kept: list[int] = []
    for number, crc in enumerate(old):
        at, missing = len(kept), number - len(kept)
        if at == new.size:
            break
        is_late = missing < dropped and abs(new_times[at] - old_times[number]) >= _SHIFT_S
        if crc == new[at] and not is_late:
            kept.append(number)
        elif missing == dropped:
            return None
    is_whole = len(kept) == new.size and old.size - len(kept) <= dropped
    return np.array(kept, dtype=np.intp) if is_whole else None


def _agreeing(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> int:
    """Counts the entries that are equal from the front."""
    differs = np.flatnonzero(a != b)
    return int(differs[0]) if differs.size else int(a.size)


def _align_cut(
    old: StreamDigest,
    new: StreamDigest,
    old_times: NDArray[np.float64],
    new_times: NDArray[np.float64],
    seconds: float,
    dropped: int,
) -> _Alignment:
    """Compare a part: where it is in the source, and whether it is complete."""
    a, b = _crcs(old, new)
    needed = np.flatnonzero((old_times >= _EDGE_S) & (old_times < seconds - _EDGE_S))
    nothing = (np.arange(0), np.arange(0))
    if not b.size:
        return (message("check.stream-content.all-missing") if needed.size else None), nothing
    starts = np.flatnonzero(a[: max(0, a.size - b.size + 1)] == b[0])
    nearest = starts[np.argsort(np.abs(old_times[starts] - new_times[0]), kind="stable")]
    for start in nearest:
        part = slice(start, start + b.size + dropped)
        kept = _kept(a[part], b, old_times[part], new_times, dropped)
        if kept is not None:
            end = start + kept[-1] + dropped
            if needed.size and (needed[0] < start or needed[-1] > end):
                return message("check.stream-content.end-missing"), nothing
            return None, (kept + start, np.arange(b.size))
    if old.size and a.size and b.size and _is_recut(old, new, old_times, seconds):
        return None, nothing
    return message("check.stream-content.part-differs"), nothing


def _is_recut(old: StreamDigest, new: StreamDigest, times: NDArray[np.float64], end: float) -> bool:
    """True for uncompressed sound in packets of another length: only its amount is compared."""
    if np.isin(np.frombuffer(new.crcs, np.uint32), np.frombuffer(old.crcs, np.uint32)).any():
        return False
    length = float(np.nanmax(times) - np.nanmin(times))
    taken = min(float(np.nanmax(times)), end) - max(0.0, float(np.nanmin(times)))
    rate = old.size / length if length > 0 else 0.0
    return abs(new.size - rate * taken) < 2 * _EDGE_S * rate


def _streams_check(
    expected: list[StreamInfo], missing: list[Message], left_out: list[Message]
) -> Check:
    there = len(expected) - len(missing)
    found = message("check.streams.all", found=there, expected=len(expected))
    if missing:
        found = message("check.streams.missing", streams=clauses(missing))
    elif not expected and not left_out:
        found = message("check.streams.none")
    if left_out:
        found = message("check.streams.left-out", streams=found, others=clauses(left_out))
    return Check(
        code="streams",
        passed=not missing,
        message=found,
        source=str(len(expected) + len(left_out)),
        output=str(there),
    )


def _content_check(result: ComparedFile, pairs: list[StreamPair], dropped: int) -> Check:
    faults = [
        message("check.stream-content.fault", stream=pair.name, fault=pair.fault)
        for pair in pairs
        if pair.fault is not None
    ]
    encoded = [pair for pair in pairs if _is_encoded(pair.source, pair.result)]
    made = [pair for pair in pairs if _is_converted(pair.source, pair.result)]
    decoded = [pair for pair in made if pair not in encoded]
    texts = [pair for pair in pairs if _is_text(pair.source, pair.result)]
    copied = [pair for pair in pairs if pair not in (*encoded, *decoded, *texts)]
    packets = sum(len(result.packets[pair.result.index]) for pair in copied)  # of the part
    found = message("check.stream-content.equal", packets=packets, streams=len(copied))
    notes = [found] if copied else []
    for code, some in (("decoded", decoded), ("encoded", encoded), ("texts", texts)):
        if some:
            notes.append(message(f"check.stream-content.{code}", streams=len(some)))
    found = sentences(notes) if notes else found
    if dropped:
        found = message("check.stream-content.dropped", equal=found, count=dropped)
    if not pairs:
        found = message("check.stream-content.none")
    return Check.of_faults("stream-content", "different", faults, found)


def _timing_check(pairs: list[StreamPair]) -> Check:
    timed = [pair for pair in pairs if _kind(pair.source) != "attachment"]
    faults = [fault for pair in timed if (fault := _timing_fault(pair)) is not None]
    worst = max((abs(pair.shift) for pair in timed), default=0.0)
    found = message("check.sound-timing.kept", ms=f"{worst * 1000:.1f}")
    if not timed:
        found = message("check.sound-timing.none")
    return Check.of_faults("sound-timing", "shifted", faults, found)


def _timing_fault(pair: StreamPair) -> Message | None:
    ms = f"{abs(pair.shift) * 1000:.0f}"
    if pair.shift >= _SHIFT_S:
        return message("check.sound-timing.late", stream=pair.name, ms=ms)
    if pair.shift <= -_SHIFT_S:
        return message("check.sound-timing.early", stream=pair.name, ms=ms)
    if pair.wander >= _SHIFT_S:
        ms = f"{pair.wander * 1000:.0f}"
        return message("check.sound-timing.wandering", stream=pair.name, ms=ms)
    return None
