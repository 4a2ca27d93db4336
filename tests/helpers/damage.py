"""Makes a result of a clip, twice as large, and damages it in one chosen way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from tests.helpers.clips import _colour_numbers

_CONTAINER = {".mkv": "matroska", ".mp4": "mp4", ".mov": "mov"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What goes wrong; the defaults give a good result."""

    shows: Sequence[int] | None = None  # the source frame of each result frame
    retimed: bool = False  # frames follow each other evenly instead of keeping their times
    black: Sequence[int] = ()  # result frames
    late: Mapping[int, Fraction] = field(default_factory=dict)  # result frame -> s
    tags: Mapping[str, str] | None = None  # instead of the source's
    without: Sequence[int] = ()  # streams of the source that are lost
    sound_shift: Fraction = Fraction(0)  # s
    flipped_byte: bool = False  # in the tenth packet of sound
    scale: Fraction = Fraction(2)
    stretch: Fraction = Fraction(1)  # of the width
    without_chapters: bool = False
    metadata: Mapping[str, str] | None = None
    crf: int = 16
    spoilt: Sequence[int] = ()  # result frames that show another picture
    cut: tuple[Fraction, Fraction] | None = None  # no damage: the part of the source, s


def make_result(source: Path, target: Path, damage: Damage | None = None, **changes: Any) -> Path:
    """Decode, enlarge, encode and mux; `changes` are fields of Damage."""
    how = damage or Damage(**changes)
    with (
        av.open(f"file:{source}") as old,
        av.open(f"file:{target}", "w", format=_CONTAINER[target.suffix]) as new,
    ):
        new.metadata.update(old.metadata if how.metadata is None else how.metadata)
        if not how.without_chapters:
            new.set_chapters(old.chapters())
        frames = [frame for frame in old.decode(video=0) if _is_inside(frame, how)]
        video = _add_picture(new, old.streams.video[0], frames[0], how)
        copies = _add_copies(new, old, how)
        new.start_encoding()
        _copy(source, new, copies, how)
        _write_pictures(new, video, frames, how)
    return target


def _is_inside(item: Any, how: Damage) -> bool:
    return how.cut is None or how.cut[0] <= item.pts * item.time_base < how.cut[1]


def _begin(how: Damage) -> Fraction:
    return how.cut[0] if how.cut else Fraction(0)


def _add_picture(new: Any, old: Any, first: Any, how: Damage) -> Any:
    stream = new.add_stream("libx264", rate=old.average_rate, options=_options(how))
    context = stream.codec_context
    context.width = int(first.width * how.scale * how.stretch)
    context.height = int(first.height * how.scale)
    context.pix_fmt, context.time_base, context.thread_count = "yuv420p", old.time_base, 1
    tags = _numbers(how, first)
    for key, value in tags.items():
        setattr(context, key, value)
    return stream


def _options(how: Damage) -> dict[str, str]:
    return {"preset": "ultrafast", "crf": str(how.crf)}


def _numbers(how: Damage, first: Any) -> dict[str, int]:
    if how.tags is not None:
        return _colour_numbers(how.tags)
    names = ("colorspace", "color_range", "color_primaries", "color_trc")
    return {name: int(getattr(first, name)) for name in names}


def _add_copies(new: Any, old: Any, how: Damage) -> dict[int, Any]:
    copies = {}
    for stream in old.streams:
        if stream.index in how.without or stream.type not in ("audio", "subtitle", "attachment"):
            continue
        if stream.type == "attachment":
            name = stream.metadata["filename"]
            new.add_attachment(name, stream.metadata["mimetype"], bytes(stream.data))
            continue
        copies[stream.index] = new.add_stream_from_template(stream)
        copies[stream.index].metadata.update(stream.metadata)
    return copies


def _copy(source: Path, new: Any, copies: dict[int, Any], how: Damage) -> None:
    seen = 0
    with av.open(f"file:{source}") as old:
        for packet in old.demux():
            if packet.stream.index not in copies or packet.dts is None:
                continue
            if not _is_inside(packet, how):
                continue
            if packet.stream.type == "audio":
                seen += 1
                shift = round((how.sound_shift - _begin(how)) / packet.time_base)
                data = bytearray(bytes(packet))
                if how.flipped_byte and seen == 10:
                    data[-1] ^= 1
                packet = _same_times(av.Packet(bytes(data)), packet, shift)
            packet.stream = copies[packet.stream.index]
            new.mux(packet)


def _same_times(packet: Any, old: Any, shift: int) -> Any:
    packet.stream, packet.time_base = old.stream, old.time_base
    packet.pts, packet.dts, packet.duration = old.pts + shift, old.dts + shift, old.duration
    return packet


def _write_pictures(new: Any, stream: Any, frames: list[Any], how: Damage) -> None:
    context = stream.codec_context
    shows = list(range(len(frames))) if how.shows is None else list(how.shows)
    step = frames[1].pts - frames[0].pts if len(frames) > 1 else 1
    before = None
    for number, shown in enumerate(shows):
        frame = frames[shown].reformat(context.width, context.height, format="yuv420p", threads=1)
        if number in how.black or number in how.spoilt:
            frame = _flat(frame, 16) if number in how.black else _noise(frame)
        for key, value in _numbers(how, frames[0]).items():
            setattr(frame, key, value)
        frame.time_base = frames[0].time_base
        frame.pts = frames[0].pts + number * step if how.retimed else frames[shown].pts
        moved = how.late.get(number, Fraction(0)) - _begin(how)
        frame.pts += round(moved / frame.time_base)
        if before is not None and frame.pts <= before:
            frame.pts = before + max(1, step // 2)
        before = frame.pts
        new.mux(stream.encode(frame))
    new.mux(stream.encode(None))


def _flat(frame: Any, luma: int) -> Any:
    planes = np.full((frame.height * 3 // 2, frame.width), 128, np.uint8)
    planes[: frame.height] = luma
    return av.VideoFrame.from_ndarray(planes, format="yuv420p")


def _noise(frame: Any) -> Any:
    blocks = np.random.default_rng(1).integers(30, 220, (6, 8), dtype=np.uint8)
    planes = np.full((frame.height * 3 // 2, frame.width), 128, np.uint8)
    rows = np.arange(frame.height) * 6 // frame.height
    columns = np.arange(frame.width) * 8 // frame.width
    planes[: frame.height] = blocks[rows][:, columns]
    return av.VideoFrame.from_ndarray(planes, format="yuv420p")
