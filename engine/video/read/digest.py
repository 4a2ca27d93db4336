"""Packets of streams in short: how many, how long, which bytes; nothing is decoded."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from av.stream import Discard

from engine.core.control import Control
from engine.video.read.clock import without_hidden
from engine.video.read.media_file import open_input, readable_packets, translated
from engine.video.read.subtitles import ShownLengths, continues

NO_TIME = -(1 << 63)


@dataclass(slots=True, kw_only=True)
class StreamDigest:
    """Checksums of one stream, packet by packet, in file order; memory: 12 bytes a packet.

    Subtitles have their lengths too, infinite up to the end.
    """

    index: int
    time_base: Fraction = Fraction(1, 1000)
    crcs: array[int] = field(default_factory=lambda: array("I"))  # CRC-32 of each payload
    times: array[int] = field(default_factory=lambda: array("q"))  # pts in time_base, or NO_TIME
    crc: int = 0  # CRC-32 of all payloads joined
    size: int = 0  # bytes of all payloads
    lengths: list[float] = field(
        default_factory=list
    )  # lengths of subtitles in time_base; none else

    def __len__(self) -> int:
        return len(self.crcs)

    def add(self, payload: bytes, time: int | None) -> None:
        """Add the next packet."""
        self.crcs.append(0)
        self.times.append(time if time is not None else NO_TIME)
        self.join(payload)

    def join(self, payload: bytes) -> None:
        """Add to the last packet."""
        self.crcs[-1] = zlib.crc32(payload, self.crcs[-1])
        self.crc = zlib.crc32(payload, self.crc)
        self.size += len(payload)


def digest(
    path: Path,
    streams: Collection[int],
    control: Control | None = None,
    *,
    must_be_whole: bool = True,
) -> dict[int, StreamDigest]:
    """Read the packets of some streams; nothing is decoded and other streams are skipped.

    A damaged file gives the packets before the damage. Not part of the payload: the 7 or 9 bytes of
    transport header that AAC has in some containers only, and the empty texts in the gaps of MP4's
    subtitles, and the CRC-32 of TTA. Packets that an edit list hides do not count.

    Raises:
        InputError: The file cannot be read to its end, and must be.
        Cancelled: The user stopped.
    """
    with open_input(path, must_be_whole=must_be_whole) as container, translated(path):
        return _read(path, container, streams, control)


def _read(
    path: Path, container: Any, streams: Collection[int], control: Control | None
) -> dict[int, StreamDigest]:
    found: dict[int, StreamDigest] = {}
    for stream in container.streams:
        if stream.index not in streams:
            stream.discard = Discard.all
            continue
        found[stream.index] = StreamDigest(
            index=stream.index, time_base=stream.time_base or Fraction(1, 1000)
        )
        if stream.type == "attachment":
            found[stream.index].add(bytes(stream.data or b""), 0)
    timed = [s for s in container.streams if s.index in found and s.type != "attachment"]
    if not timed:
        return found
    shown = {stream.index: ShownLengths() for stream in timed if stream.type == "subtitle"}
    for packet in without_hidden(readable_packets(path, container, timed)):
        if control is not None:
            control.check()
        if packet.size:
            entry = found[packet.stream.index]
            payload = _payload(bytes(packet), packet.stream)
            if payload and len(entry) and continues(packet.stream, packet):
                entry.join(payload)
            elif payload:
                entry.add(payload, packet.pts if packet.pts is not None else packet.dts)
                if packet.stream.index in shown:
                    shown[packet.stream.index].add(packet.stream, packet)
    for index, lengths in shown.items():
        found[index].lengths = lengths.found
    return found


def _payload(data: bytes, stream: Any) -> bytes:
    """The packet without an ADTS header, or its own CRC-32; nothing for an empty text."""
    codec = stream.codec_context.name if stream.codec_context is not None else ""
    if codec == "aac" and len(data) > 9 and data[0] == 0xFF and data[1] >> 4 == 0xF:
        return data[7 if data[1] & 1 else 9 :]
    if codec == "tta":
        return data[:-4]  # TRAP: the CRC-32 of data that ends with its CRC-32 is always the same
    return b"" if codec == "mov_text" and data == b"\0\0" else data
