"""Videos that state something beside their frames, made without outside programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

from engine.video.write.frame_messages import caption_messages, with_messages
from engine.video.write.track_header import TrackFacts, make_room, write_facts
from tests.helpers.clips import copied, make_clip

PQ = {"matrix": "bt2020nc", "range": "tv", "primaries": "bt2020", "transfer": "smpte2084"}
AFD = b"\xb5\x00\x31DTG1\x41\xf9"  # active format 9 of ETSI TS 101 154


def caption(number: int) -> bytes:
    """A valid triplet of field 1 (CTA-608), other for each frame."""
    return bytes([0xFC, 0x20 + number % 90, 0x80])


def dynamic(number: int, *, windows: int = 1, is_rich: bool = True) -> bytes:
    """A message of HDR10+ (SMPTE ST 2094-40), other for each frame; rich with all of its parts."""
    bits = f"{0:08b}{windows:02b}" + (windows - 1) * f"{0:0153b}" + f"{400:027b}"
    peaks = f"1{2:05b}{3:05b}" + "".join(f"{one:04b}" for one in (1, 2, 3, 4, 5, 15))
    bits += peaks if is_rich else "0"
    for _ in range(windows):
        bits += f"{1000 + number:017b}{2000:017b}{131071:017b}{300:017b}{2:04b}"
        bits += f"{1:07b}{17:017b}{99:07b}{900:017b}{1023:010b}"
    bits += peaks if is_rich else "0"
    curve = f"1{1000:012b}{2000:012b}{3:04b}{1:010b}{500:010b}{1023:010b}1{9:06b}"
    bits += windows * (curve if is_rich else "00")
    bits += -len(bits) % 8 * "0"
    return b"\xb5\x00\x3c\x00\x01\x04" + int(bits, 2).to_bytes(len(bits) // 8, "big")


def with_dynamic(path: Path, *, frames: int = 12, **which: Any) -> Path:
    """A clip of HEVC in PQ with a message of HDR10+ in each frame."""

    def add(packet: Any, number: int) -> Any:
        return with_messages(packet, [dynamic(number, **which)], "hevc")

    return _changed(path, add, codec="libx265", frames=frames, tags=PQ, pixel_format="yuv420p10le")


def captioned(path: Path, *, codec: str = "libx264", first: int = 0, **how: Any) -> Path:
    """A clip with captions from a frame on."""
    name = {"libx264": "h264", "libx265": "hevc", "libsvtav1": "av1"}[codec]

    def add(packet: Any, number: int) -> Any:
        if number < first:
            return packet
        return with_messages(packet, caption_messages(caption(number)), name)

    return _changed(path, add, codec=codec, **how)


def with_message(path: Path, payload: bytes, *, type_: int = 4, **how: Any) -> Path:
    """A clip of H.264 with an SEI message in every packet, of user data or any other type."""
    unit = bytes([6, type_, len(payload)]) + payload + b"\x80"

    def add(packet: Any, number: int) -> Any:
        new = av.Packet(len(unit).to_bytes(4, "big") + unit + bytes(packet))
        new.pts, new.dts, new.time_base = packet.pts, packet.dts, packet.time_base
        new.is_keyframe = packet.is_keyframe
        return new

    return _changed(path, add, **how)


def with_facts(path: Path, **facts: str) -> Path:
    """A clip whose container states a stereo layout or a projection."""
    wanted = TrackFacts(**facts)
    container = path.suffix[1:]
    source = make_clip(path.with_name("plain.mkv"))
    copied(source, path, change=lambda film: make_room(film.metadata, container, wanted))
    write_facts(path, container, wanted)
    return path


def _changed(path: Path, change: Callable[[Any, int], Any], **how: Any) -> Path:
    source = make_clip(path.with_name("plain.mkv"), **how)
    with av.open(str(source)) as old, av.open(str(path), "w") as new:
        stream: Any = new.add_stream_from_template(old.streams.video[0], opaque=True)
        rate = old.streams.video[0].average_rate
        for packet in old.demux(video=0):
            if packet.size and packet.pts is not None:
                number = round(float(packet.pts * packet.time_base * rate))
                made = change(packet, number)
                made.stream = stream
                new.mux(made)
    return path
