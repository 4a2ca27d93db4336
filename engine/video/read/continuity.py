"""Losses of a broadcast recording: packets, by their counters, and streams that begin unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.file_access import RetryingFile, reading
from engine.protocol.media import MediaInfo
from engine.video.read.media_file import open_input

Bytes = NDArray[np.uint8]

_SYNC = 0x47
_STRIDES = (188, 192, 204)  # of packets: plain, with a time before each, with parity after each
_SURE = 5  # packets in a row that show where packets begin
_UNITS = (0xBD, 0xFD)  # beside those of MPEG sound: AC-3, DTS, subtitles
_SEARCH_BYTES = 4096  # where they are looked for at a time
_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Losses:
    """Places where packets are missing, in the video and in the other streams together."""

    film: int = 0
    others: int = 0
    unseen: int = 0  # audio and subtitle streams that begin after the part read on opening


def losses(media: MediaInfo, control: Control) -> Losses:
    """Look for gaps in the continuity counters of an MPEG transport stream (ISO/IEC 13818-1).

    Other programmes and video tracks do not count. Reads through the file; other containers have no
    such counters, and no losses. A multiple of 16 packets of one stream that are lost together is
    not seen. Streams of which neither beginning nor end of the recording tell are counted too.
    Memory: 12 MB.

    Raises:
        InputError: The file is gone or no media any more.
        Cancelled: The user stopped.
    """
    if media.container != "mpegts":
        return Losses()
    left_out = {s.index for s in media.streams if s.is_of_other_programme or s.kind == "video"}
    with open_input(media.path, must_be_whole=False) as container:
        known = [stream.id for stream in container.streams]
        ids = {
            stream.index: stream.id for stream in container.streams if stream.index not in left_out
        }
    begun = Counter[int]()  # units of sound or subtitles of other streams
    counters = {pid: _Counter() for pid in ids.values()}
    with reading(media.path), RetryingFile(media.path) as file:
        for packets in _packets(file):
            control.check()
            owners = (packets[:, 1] & 31).astype(np.uint16) << 8 | packets[:, 2]
            for pid, counter in counters.items():
                counter.add(packets[owners == pid])
            others = ~np.isin(owners, known)
            begun.update(_owners_of_units(packets[others], owners[others]))
    unseen = sum(count >= _SURE for count in begun.values())
    film = counters[ids[media.video.index]].gaps
    return Losses(
        film=film, others=sum(one.gaps for one in counters.values()) - film, unseen=unseen
    )


def _owners_of_units(packets: Bytes, owners: NDArray[Any]) -> Iterator[int]:
    """Stream of each packet with which a unit of sound or subtitles begins."""
    for number in np.flatnonzero((packets[:, 1] & 0x40 > 0) & (packets[:, 3] & 0x10 > 0)):
        packet = packets[number].tobytes()
        begin = 5 + packet[4] if packet[3] & 0x20 else 4
        is_unit = packet[begin : begin + 3] == b"\0\0\1" and len(packet) > begin + 3
        if is_unit and (packet[begin + 3] in _UNITS or packet[begin + 3] >> 5 == 0b110):
            yield int(owners[number])


class _Counter:
    """Gaps in the counter of one stream."""

    def __init__(self) -> None:
        self.gaps = 0
        self._last: int | None = None

    def add(self, packets: Bytes) -> None:
        """The next packets of the stream, [n, at least 6]."""
        packets = packets[packets[:, 3] & 0x10 > 0]  # with a payload: only those count
        if not len(packets):
            return
        counts = packets[:, 3] & 15
        first = counts[0] if self._last is None else np.uint8((self._last + 1) & 15)
        expected = np.concatenate(([first], (counts[:-1] + 1) & 15))
        is_announced = (packets[:, 3] & 0x20 > 0) & (packets[:, 4] > 0) & (packets[:, 5] & 0x80 > 0)
        is_repeat = counts == (expected - 1) & 15  # a packet may be sent twice
        self.gaps += int(((counts != expected) & ~is_repeat & ~is_announced).sum())
        self._last = int(counts[-1])


def _packets(file: RetryingFile) -> Iterator[Bytes]:
    """Packets [n, stride], from their sync bytes on, as far as the file can be read."""
    rest = b""
    while block := file.read(_BLOCK_BYTES):
        data, at = np.frombuffer(rest + block, np.uint8), 0
        while len(data) - at >= _SURE * _STRIDES[-1]:
            begin, packets = _next_packets(data[at:])
            yield packets
            at += begin + packets.size
        rest = data[at:].tobytes()


def _next_packets(data: Bytes) -> tuple[int, Bytes]:
    """Number of bytes to skip, and the packets that follow each other there, if any."""
    for stride in _STRIDES:
        starts = min(_SEARCH_BYTES, len(data) - (_SURE - 1) * stride)
        rows = [data[n * stride : n * stride + starts] == _SYNC for n in range(_SURE)]
        is_start = np.logical_and.reduce(rows)
        begin = int(is_start.argmax())
        if is_start[begin]:
            count = (len(data) - begin) // stride
            packets = data[begin : begin + count * stride].reshape(count, stride)
            ends = np.flatnonzero(packets[:, 0] != _SYNC)
            return begin, packets[: ends[0]] if len(ends) else packets
    return min(_SEARCH_BYTES, len(data)), data[:0].reshape(0, _STRIDES[0])
