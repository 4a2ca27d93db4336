"""How many frames a film has, without decoding it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import av
from av.stream import Discard

from engine.video.read.opening import packets_of

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCount:
    """Packets that are shown, in the stream's time base."""

    frames: int
    bytes: int
    start_pts: int | None = None  # None without time stamps
    end_pts: int | None = None  # of the last one, its duration included
    is_complete: bool = True  # False when time ran out


def count_by_index(stream: VideoStream) -> PacketCount | None:
    """From the index of MP4 and MOV, edit lists respected; None where there is no full index."""
    if stream.frames <= 0:
        return None
    entries = stream.index_entries
    if len(entries) < stream.frames:
        return None
    shown = [entry.size for entry in entries if not entry.is_discard]
    return PacketCount(frames=len(shown), bytes=sum(shown))


def count_by_reading(
    container: InputContainer, stream: VideoStream, *, seconds: float
) -> PacketCount:
    """Read through a freshly opened file; stops after `seconds`. Memory: one packet."""
    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all
    frames = size = 0
    first: int | None = None
    end: int | None = None
    deadline = time.monotonic() + seconds
    is_complete = True
    try:
        for packet in packets_of(container, stream):
            if packet.size == 0 or packet.is_discard:
                continue
            frames += 1
            size += packet.size
            if packet.pts is not None:
                first = packet.pts if first is None else min(first, packet.pts)
                last = packet.pts + (packet.duration or 0)
                end = last if end is None else max(end, last)
            if frames % 64 == 0 and time.monotonic() > deadline:
                is_complete = False
                break
    except av.error.FFmpegError:
        is_complete = False  # damaged on the way: whoever reads the frames tells
    return PacketCount(
        frames=frames, bytes=size, start_pts=first, end_pts=end, is_complete=is_complete
    )
