"""Checks of the other streams: which ones are there, their packets or samples, their times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.messages import Message, clauses, message, sentences
from engine.protocol.media import PLAYED_AS, MediaInfo, StreamInfo
from engine.protocol.plan import Plan
from engine.protocol.report import Check
from engine.verification.packets import (
    EDGE_S,
    SHIFT_S,
    align,
    align_part,
    align_shown,
    crcs_of,
    kept_of,
    likeness,
    moments_of,
    shared_part,
    stamps_of,
)
from engine.verification.sound import Track, compare_encoded, compare_sound
from engine.video.read.clock import PartClock, StampCheck
from engine.video.read.digest import NO_TIME, StreamDigest
from engine.video.read.sound import timed_samples
from engine.video.write.containers import (
    CONTAINERS,
    FLAT,
    LONG_PACKETS,
    LOSSY_RATES,
    is_exact,
    names_channels,
    plan_streams,
    source_family,
)
from engine.video.write.converted_text import digest_of_texts

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

    def ends(self, index: int) -> NDArray[np.float64]:
        """Times at which the subtitles of a stream are no longer shown, as `times`."""
        entry = self.packets[index]
        return self.times(index) + np.array(entry.lengths) * float(entry.time_base)

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
    is_decoded: bool = False  # whether samples were compared


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
    found = _match(source, result, expected, part_s)
    if plan is None:
        unmatched = [stream for stream in expected if stream.index not in found]
        empty = _without_place(source, result, unmatched, part_s)
        expected = [stream for stream in expected if stream not in empty]
        left_out += [_reason(source.media, s, message("reason.stream.empty")) for s in empty]
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
        elif _is_encoded(stream, other) or _is_converted(stream, other, part_s):
            pairs.append(_decoded_pair(source, result, (stream, other), part_s, control))
        else:
            lost = dropped.get(stream.index, 0)
            pair = _pair(source, result, (stream, other), part_s, lost)
            if pair.fault and stream.codec.startswith("pcm_"):  # in other packets, or with silence
                pair = _decoded_pair(source, result, (stream, other), part_s, control)
            pairs.append(pair)
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
        _reason(source, stream, left_out[stream.index] or unknown)
        for stream in source.streams
        if stream.index in left_out
    ]
    return [s for s in source.streams if s.index not in left_out], names


def _reason(source: MediaInfo, stream: StreamInfo, why: Message | str) -> Message:
    return message("check.streams.reason", stream=name_of(source, stream), why=why)


def _without_place(
    source: ComparedFile, result: ComparedFile, streams: list[StreamInfo], part_s: float | None
) -> list[StreamInfo]:
    """Streams without a packet, or without one in the part, that the result's container drops."""
    into = CONTAINERS.get(source_family(result.media))
    if into is None or into.keeps_empty:
        return []
    known = [stream for stream in streams if stream.index in source.packets]
    return [stream for stream in known if not _stamps(source, stream, part_s).size]


def _match(
    source: ComparedFile, result: ComparedFile, expected: list[StreamInfo], part_s: float | None
) -> dict[int, StreamInfo]:
    """Stream of the result for each of the source: the likest pairs first, of equals the first.

    Packets at their times count most, then packets, then the times of texts that were converted,
    then names: tracks may share packets, and a part may have none of some.
    """
    found = _of_equal_bytes(source, result, expected)
    left = [s for s in expected if s.index in source.packets and s.index not in found]
    free = [s for s in result.media.streams if s not in found.values()]
    old = {s.index: _stamps(source, s, part_s) for s in left}
    new = {s.index: _stamps(result, s, None) for s in free}
    ranks = []
    for stream, other in product(left, free):
        if _kind(stream) != _kind(other):
            continue
        one, two = source.packets[stream.index], result.packets[other.index]
        is_same = 0 < one.size == two.size and one.crc == two.crc
        content = likeness(old[stream.index], new[other.index]), is_same, shared_part(one, two)
        is_of_codec = stream.codec == other.codec
        if max(content[1:]) > 0.5 or is_of_codec or _may_be_its_sound(stream, other):
            times = 0.0
            if _is_text(stream, other):
                times = likeness(moments_of(old[stream.index]), moments_of(new[other.index]))
            rank = (*content, is_of_codec, times, _agreement(stream, other))
            ranks.append((rank, stream, other))
    for _, stream, other in sorted(ranks, key=lambda one: one[0], reverse=True):
        if stream.index not in found and other not in found.values():
            found[stream.index] = other
    return found


def _of_equal_bytes(
    source: ComparedFile, result: ComparedFile, expected: list[StreamInfo]
) -> dict[int, StreamInfo]:
    """Stream of the result for each of the source, where no other one has the same bytes."""
    old, new = _by_bytes(source, expected), _by_bytes(result, result.media.streams)
    return {
        streams[0].index: new[key][0]
        for key, streams in old.items()
        if len(streams) == len(new.get(key, ())) == 1
    }


def _by_bytes(
    file: ComparedFile, streams: Iterable[StreamInfo]
) -> dict[tuple[str, int, int], list[StreamInfo]]:
    found: dict[tuple[str, int, int], list[StreamInfo]] = {}
    for stream in streams:
        entry = file.packets.get(stream.index)
        if entry is not None and entry.size:
            found.setdefault((_kind(stream), entry.size, entry.crc), []).append(stream)
    return found


def _kind(stream: StreamInfo) -> str:
    return _GROUP.get(stream.kind, stream.kind)


def _agreement(stream: StreamInfo, other: StreamInfo) -> int:
    """Number of names of two streams that agree, less those that differ; some are not stated."""
    names = ((stream.language, other.language), (stream.title, other.title))
    stated = [pair for pair in names if not {"", "und"} & {*pair}]
    return sum(1 if old == new else -1 for old, new in stated)


def _stamps(file: ComparedFile, stream: StreamInfo, part_s: float | None) -> NDArray[np.int64]:
    """Stamps of a stream's packets, those of a part if one was taken."""
    entry = file.packets[stream.index]
    if _kind(stream) == "attachment":
        return stamps_of(entry, np.zeros(len(entry)))
    begins = file.times(stream.index)
    if part_s is None:
        return stamps_of(entry, begins)
    ends = file.ends(stream.index) if stream.kind == "subtitle" else begins
    return stamps_of(entry, begins, (ends >= 0) & (begins < part_s))


def _may_be_its_sound(a: StreamInfo, b: StreamInfo) -> bool:
    if _is_encoded(a, b) or _is_text(a, b):
        return True
    return _is_converted(a, b) and (a.channels, a.sample_rate) == (b.channels, b.sample_rate)


def _is_converted(stream: StreamInfo, other: StreamInfo, part_s: float | None = None) -> bool:
    """Whether a sound track was decoded and its samples stored; in a part by its own codec too."""
    if stream.codec == other.codec:
        return stream.codec in LONG_PACKETS and part_s is not None
    stores_samples = other.codec == "flac" or other.codec.startswith("pcm_")
    return stream.kind == "audio" and stores_samples


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
        found = compare_encoded(old, new, part_s, EDGE_S)
        fault = found.fault
    else:
        found = compare_sound(old, new, part_s, EDGE_S)
        fault, layouts = found.fault, (stream.layout, other.layout)
        if fault is None and len({*layouts}) == 2 and all(map(names_channels, layouts)):
            fault = message("check.stream-content.channels", expected=layouts[0], found=layouts[1])
    offsets = np.array(found.offsets)
    pair = _timed_pair(name_of(source.media, stream), streams, fault, offsets)
    return replace(pair, is_decoded=True)


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
    if part_s is not None and stream.kind == "subtitle":
        ends = source.ends(stream.index)
        fault, together = align_shown(old, new, (old_times, ends), new_times, part_s, dropped)
    elif part_s is not None and _kind(stream) != "attachment":
        fault, together = align_part(old, new, old_times, new_times, part_s, dropped)
    elif (
        dropped and (kept := kept_of(*crcs_of(old, new), old_times, new_times, dropped)) is not None
    ):
        fault, together = None, (kept, np.arange(kept.size))
    else:
        fault, together = align(old, new, old_times)
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
    decoded = [pair for pair in pairs if pair.is_decoded and pair not in encoded]
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
    if pair.shift >= SHIFT_S:
        return message("check.sound-timing.late", stream=pair.name, ms=ms)
    if pair.shift <= -SHIFT_S:
        return message("check.sound-timing.early", stream=pair.name, ms=ms)
    if pair.wander >= SHIFT_S:
        ms = f"{pair.wander * 1000:.0f}"
        return message("check.sound-timing.wandering", stream=pair.name, ms=ms)
    return None
