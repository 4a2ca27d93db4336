"""Messages of frames: closed captions (CTA-708, ATSC A/53) and HDR10+, in finished packets.

Decoders give the messages of each frame; encoders that take them are given frames without any,
since models make new frames. So they go into the packets when the result is put together: as
messages of user data (ITU-T T.35) before the slices of their frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import av

from engine.core.control import Control
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.video.read.frame_reader import FrameReader

_TRIPLET = 3
_MOST = 31  # triplets in one message: cc_count has five bits
_T35 = 4  # type of the SEI message, and of AV1's metadata
_COUNTRY_AND_OWNER = b"\xb5\x00\x31GA94\x03"


def messages_of_frames(
    media: MediaInfo, plan: Plan, kinds: Collection[str], control: Control
) -> Iterator[list[bytes]]:
    """Messages of each frame of the result, in order.

    Reads and decodes the source once more.

    Args:
        media: The source.
        plan: Plan of the job.
        kinds: Kinds of statements that the result keeps; "captions" and "hdr10-plus" count.
        control: Control of the job.

    Raises:
        InputError: The source has gone.
        Cancelled: The user stopped.
    """
    with FrameReader(media, start=plan.start, stop=plan.stop) as reader:
        for frame in reader:
            control.check()
            captions = frame.captions if "captions" in kinds else b""
            dynamic = frame.hdr10_plus if "hdr10-plus" in kinds else b""
            yield [*caption_messages(captions), *filter(None, [dynamic])]


def with_messages(packet: Any, messages: list[bytes], codec: str) -> Any:
    """A packet of one frame, with messages.

    Args:
        packet: av.Packet, of Matroska: NAL units with lengths of four bytes, or OBUs.
        messages: User data, from their country codes on.
        codec: One of `statements.CAPTIONED`.
    """
    new = av.Packet(_INSERT[codec](bytes(packet), messages))
    new.stream = packet.stream
    new.time_base, new.pts, new.dts = packet.time_base, packet.pts, packet.dts
    new.duration, new.is_keyframe = packet.duration, packet.is_keyframe
    return new


def caption_messages(captions: bytes) -> list[bytes]:
    """Messages of captions, which are triplets of bytes."""
    step = _TRIPLET * _MOST
    parts = (captions[at : at + step] for at in range(0, len(captions), step))
    return [
        _COUNTRY_AND_OWNER + bytes([0x40 | len(part) // _TRIPLET, 0xFF]) + part + b"\xff"
        for part in parts
    ]


def _with_sei(header: bytes, is_slice: Callable[[int], bool]) -> Callable[..., bytes]:
    def insert(data: bytes, messages: list[bytes]) -> bytes:
        payload = b"".join(bytes([_T35]) + _sei_size(one) + one for one in messages) + b"\x80"
        unit = header + _without_start_codes(payload)
        at = 0
        while at + 4 < len(data) and not is_slice(data[at + 4]):
            at += 4 + int.from_bytes(data[at : at + 4], "big")
        return data[:at] + len(unit).to_bytes(4, "big") + unit + data[at:]

    return insert


def _sei_size(message: bytes) -> bytes:
    """The size of an SEI message: 255 for each byte of 255 that more follow."""
    return b"\xff" * (len(message) // 255) + bytes([len(message) % 255])


def _without_start_codes(payload: bytes) -> bytes:
    """Bytes with "emulation prevention": no two zeros before a byte of 0 to 3."""
    found = bytearray()
    for byte in payload:
        if byte <= 3 and found[-2:] == b"\0\0":
            found.append(3)
        found.append(byte)
    return bytes(found)


def _with_metadata(data: bytes, messages: list[bytes]) -> bytes:
    """An AV1 temporal unit with metadata after its delimiter and sequence header."""
    at = 0
    while at < len(data) and data[at] >> 3 & 15 in _BEFORE_METADATA:
        has_extension, has_size = data[at] >> 2 & 1, data[at] >> 1 & 1
        if not has_size:
            break
        size, after = _leb128(data, at + 1 + has_extension)
        at = after + size
    units = b"".join(_obu(bytes([_T35]) + one + b"\x80") for one in messages)
    return data[:at] + units + data[at:]


_BEFORE_METADATA = (1, 2)  # sequence header, temporal delimiter
_METADATA_OBU = 5 << 3 | 2  # with a size


def _obu(payload: bytes) -> bytes:
    size = len(payload)
    encoded = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([_METADATA_OBU]) + encoded + payload


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(8):
        value |= (data[at + count] & 127) << 7 * count
        if data[at + count] < 128:
            return value, at + count + 1
    return value, at + 8


# How messages get into a packet of each of `statements.CAPTIONED`.
_INSERT: dict[str, Callable[[bytes, list[bytes]], bytes]] = {
    "h264": _with_sei(b"\x06", lambda first: first & 31 in (1, 2, 3, 4, 5)),
    "hevc": _with_sei(b"\x4e\x01", lambda first: first >> 1 & 63 < 32),
    "av1": _with_metadata,
}
