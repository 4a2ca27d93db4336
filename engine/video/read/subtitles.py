"""Subtitles in time: how long each one is shown, and from where those of a moment are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.error import FFmpegError

from engine.core.errors import memory_ran_out
from engine.core.file_access import RetryingFile, advised
from engine.video.read.ebml import CUES, INFO, MOST_BYTES, TRACKS, MatroskaParts, inside, value_of
from engine.video.read.media_file import open_input, readable_packets

_PGS, _DVB, _DVD = "hdmv_pgs_subtitle", "dvb_subtitle", "dvd_subtitle"
PICTURES = frozenset({_PGS, _DVB, _DVD, "xsub"})  # of which one takes the place of the other
_PGS_COMPOSITION, _PGS_BEGINS = 0x16, (0x40, 0x80)
_DVB_SEGMENT, _DVB_PAGE = 0x0F, 0x10
_NO_END_MS = (1 << 32) - 1
_CUE, _CUE_TIME, _CUE_PLACE, _CUE_TRACK, _CUE_DURATION = 0xBB, 0xB3, 0xB7, 0xF7, 0xB2
_TRACK, _TRACK_NUMBER, _TRACK_TYPE, _SCALE = 0xAE, 0xD7, 0x83, 0x2AD7B1
_OF_SUBTITLES = 0x11
_STEPS = 64  # packets of which a picture may be built, each of which changes the one before
_STEP_S = 5  # between two that are read at once, at most


def codec_of(stream: Any) -> str:
    """FFmpeg's name of the codec of a stream; "" where it knows none."""
    context = stream.codec_context
    return context.codec.canonical_name if context is not None else ""


def shown_length(stream: Any, packet: Any) -> float:
    """Time for which a subtitle is shown, in its time base.

    Infinite up to the next one that `replaces_all`, where nothing states an end; 0 of a picture
    that `shows_nothing`.
    """
    if shows_nothing(stream, packet):
        return 0.0
    if packet.duration:
        return float(packet.duration)
    codec, seconds = codec_of(stream), inf
    if codec == _DVB and (page := _dvb_page(bytes(packet))):
        seconds = page[0]
    elif codec == _DVD:
        seconds = _dvd_seconds(stream, packet)
    return seconds / float(stream.time_base)


def lasts(stream: Any, packet: Any) -> bool:
    """Whether a subtitle is over when the next one begins: pictures, and texts without an end."""
    return not packet.duration or codec_of(stream) in PICTURES


def continues(stream: Any, packet: Any) -> bool:
    """Whether a packet belongs to the subtitle before it, as the segments of PGS in M2TS do."""
    return codec_of(stream) == _PGS and bytes(packet)[:1] != bytes([_PGS_COMPOSITION])


def shows_nothing(stream: Any, packet: Any) -> bool:
    """Whether a picture of PGS or DVB has no parts, which ends the one before it."""
    codec, data = codec_of(stream), bytes(packet)
    if codec == _PGS:
        return not continues(stream, packet) and data[13:14] == b"\0"
    return codec == _DVB and len(_dvb_page(data)) == 2


def replaces_all(stream: Any, packet: Any) -> bool:
    """Whether a subtitle replaces all that was shown, and does not just change parts of it."""
    codec, data = codec_of(stream), bytes(packet)
    if codec == _PGS:
        is_composed = len(data) > 13 and not continues(stream, packet)
        is_first = is_composed and data[10] & 0xC0 in _PGS_BEGINS
        return is_first or shows_nothing(stream, packet)
    if codec == _DVB and (page := _dvb_page(data)):
        return shows_nothing(stream, packet) or bool(page[1] >> 2 & 3)
    return True


def _dvb_page(data: bytes) -> bytes:
    """Time-out in s, state and regions of the page that a packet of DVB composes; b"" for none.

    b"" also where it is cut off.
    """
    at = 0
    while data[at : at + 1] == bytes([_DVB_SEGMENT]) and at + 6 <= len(data):
        end = at + 6 + int.from_bytes(data[at + 4 : at + 6], "big")
        if data[at + 1] == _DVB_PAGE:
            page = data[at + 6 : end]
            return page if len(page) > 1 else b""
        at = end
    return b""


def _dvd_seconds(stream: Any, packet: Any) -> float:
    try:
        found = stream.codec_context.decode2(packet)
    except FFmpegError as err:
        if memory_ran_out(err):
            raise
        return inf
    ms = found.end_display_time if found else 0
    return ms / 1000 if 0 < ms < _NO_END_MS else inf


class ShownLengths:
    """Lengths of the subtitles of a stream, packet by packet in the order of the file.

    Attributes:
        found: Length of each, in the time base; infinite for the last one without an end.
    """

    def __init__(self) -> None:
        self.found: list[float] = []
        self._open: list[tuple[int, int]] = []  # number and start of those that last

    def add(self, stream: Any, packet: Any) -> None:
        """Add the next packet."""
        start, length = packet.pts, shown_length(stream, packet)
        if start is not None and lasts(stream, packet):
            if replaces_all(stream, packet):
                for number, begun in self._open:
                    self.found[number] = min(self.found[number], max(0, start - begun))
                self._open.clear()
            self._open.append((len(self.found), start))
        self.found.append(length)


def seen_from(
    path: Path, file: InputContainer, indices: Collection[int], time: Fraction
) -> Fraction | None:
    """Latest time from which a file can be read to see all subtitles that are shown at a time.

    MP4 and MOV are read from the texts on that are shown; the index of Matroska states the length
    of each text. Pictures are read back to the one that replaces all before it.

    Args:
        path: Path of the file.
        file: It, opened.
        indices: Streams of subtitles.
        time: On the clock of the file, s.

    Returns:
        None where nothing but the whole file tells.
    """
    names = file.format.name.split(",")
    if not indices or "mov" in names:
        return time
    if "matroska" not in names:
        return None
    begun = advised(lambda: _cued(path, file, indices, time), None)
    return None if begun is None else min([time, *begun])


def _cued(
    path: Path, file: InputContainer, indices: Collection[int], time: Fraction
) -> list[Fraction] | None:
    """Starts of the subtitles that may be shown at a time, s; None where no index tells."""
    with RetryingFile(path) as opened:
        parts = MatroskaParts(opened)
        info, tracks, cues = (parts.part(name) for name in (INFO, TRACKS, CUES))
    scale = next((value_of(info, one) for one in inside(info, _SCALE)), 1_000_000)
    fields = [
        {one.name: value_of(tracks, one) for one in inside(tracks, within=track)}
        for track in inside(tracks, _TRACK)
    ]
    numbers = [one[_TRACK_NUMBER] for one in fields if one[_TRACK_TYPE] == _OF_SUBTITLES]
    streams = [*file.streams.subtitles]
    cued: dict[int, list[tuple[int, int]]] = {number: [] for number in numbers}
    for number, start, length in _cue_points(cues):
        if number in cued:
            cued[number].append((start, length))
    is_whole = len(cues) < MOST_BYTES and len(numbers) == len(streams) and any(cued.values())
    if not is_whole:
        return None
    unit = scale / Fraction(10**9)
    found: list[Fraction] = []
    for number, stream in zip(numbers, streams, strict=True):
        if stream.index not in indices:
            continue
        entries = [(start * unit, length * unit) for start, length in cued[number]]
        before = [entry for entry in entries if entry[0] < time]
        shown = [start for start, length in before if not length or start + length > time]
        if codec_of(stream) not in PICTURES:
            if not all(length for _, length in before):
                return None
            found += shown
        elif shown:
            begun = _picture_begun(path, stream.index, [start for start, _ in before])
            if begun is None:
                return None
            found += begun
    return found


def _picture_begun(path: Path, index: int, starts: Sequence[Fraction]) -> list[Fraction] | None:
    """Start of the picture that the last packet of a stream shows or changes, s; [] for none.

    None where the last 64 packets only change it.

    Args:
        path: Path of the file.
        index: Stream of pictures.
        starts: Times of its packets, s, rising.
    """
    begun, is_over, last = None, False, starts[-1]
    far = starts[0] - 2 * _STEP_S
    with open_input(path) as file:
        timed = [stream for stream in file.streams if stream.type != "attachment"]
        for first, before in pairwise([*reversed(starts[-_STEPS:]), far]):
            if first - before <= _STEP_S:
                continue  # it is read with the one before it
            file.seek(int(first * av.time_base))
            for packet in readable_packets(path, file, timed):
                if packet.pts is None or packet.time_base is None:
                    continue
                seconds = packet.pts * packet.time_base
                if seconds > last + 1:
                    break
                is_of_stream = packet.stream.index == index and first <= seconds <= last
                if is_of_stream and replaces_all(packet.stream, packet):
                    begun, is_over = seconds, shows_nothing(packet.stream, packet)
                elif is_of_stream and not continues(packet.stream, packet):
                    is_over = False  # a change of it
            if begun is not None:
                return [] if is_over and last == starts[-1] else [begun]
            last = first
    return None


def _cue_points(cues: bytes) -> Iterator[tuple[int, int, int]]:
    """Track, start and length of each entry; 0 for a length that is not stated."""
    for point in inside(cues, _CUE):
        start = next((value_of(cues, one) for one in inside(cues, _CUE_TIME, point)), 0)
        for place in inside(cues, _CUE_PLACE, point):
            about = {one.name: value_of(cues, one) for one in inside(cues, within=place)}
            yield about.get(_CUE_TRACK, 0), start, about.get(_CUE_DURATION, 0)
