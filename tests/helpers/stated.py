"""Videos that state something beside their frames, made without outside programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av

from engine.video.write.captions import with_captions
from engine.video.write.track_header import TrackFacts, make_room, write_facts
from tests.helpers.clips import copied, make_clip

AFD = b"\xb5\x00\x31DTG1\x41\xf9"  # active format 9 of ETSI TS 101 154


def caption(number: int) -> bytes:
    """A valid triplet of field 1 (CTA-608), other for each frame."""
    return bytes([0xFC, 0x20 + number % 90, 0x80])


def captioned(path: Path, *, codec: str = "libx264", first: int = 0, **how: Any) -> Path:
    """A clip with captions from a frame on."""
    name = {"libx264": "h264", "libx265": "hevc", "libsvtav1": "av1"}[codec]

    def add(packet: Any, number: int) -> Any:
        return with_captions(packet, caption(number), name) if number >= first else packet

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
