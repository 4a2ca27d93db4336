"""Makes small synthetic clips through PyAV: every frame shows its number, every stream is known."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np

from engine.video.write.track_header import boxes_of

NUMBER_BITS = 12
_FAST = {"libx264": {"preset": "ultrafast"}, "libx265": {"preset": "ultrafast"}}
_CONTAINER = {".mkv": "matroska", ".ts": "mpegts", ".m4v": "mp4", ".h264": "h264"}
_SAMPLE_RATE = 48_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """What a clip is made of; the defaults give ten frames of H.264 with B-frames."""

    frames: int = 10
    size: tuple[int, int] = (96, 64)  # width, height
    rate: Fraction = Fraction(25)
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    tags: Mapping[str, str] = field(default_factory=dict)  # matrix, range, primaries, transfer
    vfr_times: Sequence[Fraction] | None = None  # seconds, one for each frame, rising
    time_base: Fraction | None = None
    audio_tracks: int = 0
    audio_codec: str = ""  # "" is AAC
    subtitles: Sequence[str] = ()  # "subrip", "ass", "mov_text", "hdmv_pgs_subtitle"
    chapters: int = 0
    attachments: Mapping[str, bytes] = field(default_factory=dict)  # MKV: name -> content
    metadata: Mapping[str, str] = field(default_factory=dict)
    rotation: int = 0  # clockwise degrees that turn the stored picture into the seen one
    mirrored: bool = False
    sar: Fraction | None = None
    interlaced: str = ""  # "tt" or "bb"
    options: Mapping[str, str] = field(default_factory=dict)  # of the encoder
    container_options: Mapping[str, str] = field(default_factory=dict)
    gop: int = 5
    b_frames: int = 2


def number_picture(number: int, width: int, height: int) -> np.ndarray:
    """RGB [height, width, 3] uint8: a moving gradient and a square; the top rows tell `number`."""
    x = np.arange(width)[None, :]
    y = np.arange(height)[:, None]
    red = 60 + (x * 120) // max(1, width - 1) + 0 * y
    green = 60 + (y * 120) // max(1, height - 1) + 0 * x
    blue = 60 + ((x + y + 3 * number) % 64) * 2
    picture = np.stack([red, green, blue], axis=2).astype(np.uint8)
    side = max(2, height // 6)
    left = (number * 4) % max(1, width - side)
    picture[height // 2 : height // 2 + side, left : left + side] = (210, 90, 60)
    return _with_number(picture, number)


def _with_number(picture: np.ndarray, number: int) -> np.ndarray:
    height, width = picture.shape[:2]
    band, step = max(1, height // 4), width / NUMBER_BITS
    for bit in range(NUMBER_BITS):
        value = 220 if number >> bit & 1 else 30
        picture[:band, round(bit * step) : round((bit + 1) * step)] = value
    return picture


def read_number(luma: np.ndarray) -> int:
    """The number in a luma, gray or green plane [height, width]; scale and depth do not matter."""
    height, width = luma.shape
    band, step = max(1, height // 4), width / NUMBER_BITS
    rows = luma[band // 4 : max(band // 4 + 1, band * 3 // 4)].astype(np.float64)
    means = []
    for bit in range(NUMBER_BITS):
        left, right = round(bit * step), round((bit + 1) * step)
        edge = (right - left) // 4
        means.append(rows[:, left + edge : max(left + edge + 1, right - edge)].mean())
    middle = (30 + 220) / 2 / 255 * _full_scale(luma)
    return sum(1 << bit for bit, mean in enumerate(means) if mean > middle)


def _full_scale(luma: np.ndarray) -> float:
    top = int(luma.max())
    return float(next(peak for peak in (255, 1023, 4095, 65535) if top <= peak))


def make_clip(path: Path, clip: Clip | None = None, **changes: Any) -> Path:
    """Write a clip; `changes` are fields of Clip. Its frame n shows `number_picture(n)`.

    The container follows the name: .mp4, .mov, .mkv, .ts, .avi, .webm, .nut, .h264 and others.
    """
    clip = clip or Clip(**changes)
    name = _CONTAINER.get(path.suffix.lower(), path.suffix.lower().lstrip("."))
    made = (name, repr(clip))
    if made in _made:
        path.write_bytes(_made[made])
        return path
    _write_clip(path, name, clip)
    _made[made] = path.read_bytes()
    while sum(map(len, _made.values())) > _MOST_KEPT:
        del _made[next(iter(_made))]
    return path


_made: dict[tuple[str, str], bytes] = {}  # of this process: many tests ask for the same clip
_MOST_KEPT = 1 << 26  # bytes


def _write_clip(path: Path, name: str, clip: Clip) -> None:
    options = dict(clip.container_options)
    with av.open(f"file:{path}", "w", format=name, options=options) as output:
        output.metadata.update(clip.metadata)
        _set_chapters(output, clip)
        video = _add_video(output, clip)
        sounds = [_add_audio(output, clip, track) for track in range(clip.audio_tracks)]
        texts = [_add_subtitle(output, codec, i) for i, codec in enumerate(clip.subtitles)]
        for file_name, data in clip.attachments.items():
            output.add_attachment(file_name, "application/octet-stream", data)
        output.start_encoding()
        for track, codec in zip(texts, clip.subtitles, strict=True):
            output.mux(_subtitle_packets(track, codec, clip))
        _write_media(output, clip, video, sounds)


def joined(path: Path, *parts: tuple[int, dict[str, Any]]) -> Path:
    """A transport stream of parts, each of so many frames and made as `make_clip` says."""
    data, start = b"", 0
    for frames, changes in parts:
        times = [Fraction(start + n, 25) for n in range(frames)]
        made = {"frames": frames, "vfr_times": times, "b_frames": 0, **changes}
        data += make_clip(path, **made).read_bytes()
        start += frames + 1
    path.write_bytes(data)
    return path


def half_clear(path: Path, codec: str, pixel_format: str, **options: str) -> Path:
    """Twelve frames of 160x90 whose left half is transparent."""
    width, height = 160, 90
    values = np.full((height, width, 4), 255, np.uint8)
    values[:, : width // 2, 3] = 0
    with av.open(f"file:{path}", "w") as output:
        stream = output.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.codec_context.gop_size = 4
        for number in range(12):
            values[..., :3] = 60 + 10 * number
            frame = av.VideoFrame.from_ndarray(values, "rgba").reformat(format=pixel_format)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def times_of(clip: Clip) -> list[Fraction]:
    """The time of each frame, s."""
    if clip.vfr_times is not None:
        return list(clip.vfr_times)
    return [number / clip.rate for number in range(clip.frames)]


def copied(
    source: Path,
    target: Path,
    *,
    kind: str = "video",
    change: Callable[[Any], None] = lambda stream: None,
    **how: Any,
) -> Path:
    """Copy the first stream of a kind into a file of its own, with changes of that stream."""
    with av.open(str(source)) as old, av.open(str(target), "w", **how) as new:
        given = getattr(old.streams, kind)[0]
        stream = new.add_stream_from_template(given, opaque=True)
        change(stream)
        for packet in old.demux(given):
            if packet.dts is not None:
                packet.stream = stream
                new.mux(packet)
    return target


def with_edits(source: Path, target: Path, *edits: tuple[float, float]) -> Path:
    """Copy an MP4 or MOV whose index comes last; each edit shows some seconds from a time on."""
    data = source.read_bytes()
    scales: list[int] = []  # units a second: of the file, then of each track

    def edited(part: bytes) -> bytes:
        made = b""
        for name, start, end in boxes_of(part, 0, len(part)):
            content = part[start + 8 : end]
            if name in (b"mvhd", b"mdhd"):
                scales.append(int.from_bytes(content[12:16], "big"))
            elif name in (b"moov", b"trak", b"mdia"):
                content = edited(content)
            elif name == b"edts":  # before the track's own scale
                continue
            made += (8 + len(content)).to_bytes(4, "big") + name + content
            if name == b"mdia":
                rows = [(int(s * scales[0]), int(at * scales[-1]), 1 << 16) for s, at in edits]
                table = struct.pack(">II", 0, len(rows)) + b"".join(
                    struct.pack(">III", *row) for row in rows
                )
                made += struct.pack(">I4sI4s", 16 + len(table), b"edts", 8 + len(table), b"elst")
                made += table
        return made

    target.write_bytes(edited(data))
    return target


def make_cover(path: Path, source: Path, picture: bytes) -> Path:
    """Copy an MP4 or MOV and give it a PNG cover as its FIRST stream, so that a reader may trip."""
    with av.open(f"file:{source}") as old, av.open(f"file:{path}", "w", format="mp4") as new:
        cover = new.add_mux_stream("png", width=8, height=8, disposition=0x400)
        video = new.add_stream_from_template(old.streams.video[0])
        packet = av.Packet(picture)
        packet.stream, packet.pts, packet.dts = cover, 0, 0
        packet.time_base = Fraction(1, 90_000)
        new.mux(packet)
        for item in old.demux(old.streams.video[0]):
            if item.dts is not None:
                item.stream = video
                new.mux(item)
    return path


def cut_short(source: Path, target: Path, share: float) -> Path:
    """The first `share` of a file's bytes: what an interrupted download leaves."""
    data = source.read_bytes()
    target.write_bytes(data[: int(len(data) * share)])
    return target


def make_pictures(folder: Path, count: int, *, name: str = "shot_%04d.png", **how: Any) -> Path:
    """Write a numbered sequence with each index in its picture; returns the pattern."""
    folder.mkdir(parents=True, exist_ok=True)
    first = how.pop("first", 1)
    for number in range(count):
        make_picture(folder / (name % (first + number)), number, **how)
    return folder / name


def make_picture(
    path: Path,
    number: int = 0,
    *,
    size: tuple[int, int] = (48, 32),
    pixel_format: str = "rgb24",
    codec: str = "",
) -> Path:
    """Write one still: .png, .tif, .jpg, .webp, .bmp or .exr, by its name."""
    by_name = {".tif": "tiff", ".tiff": "tiff", ".jpg": "mjpeg", ".webp": "libwebp"}
    suffix = path.suffix.lower()
    context = av.CodecContext.create(codec or by_name.get(suffix, suffix.lstrip(".")), "w")
    context.width, context.height = size
    context.pix_fmt, context.time_base = pixel_format, Fraction(1, 25)
    if suffix == ".jpg":
        context.color_range = 2
    frame = av.VideoFrame.from_ndarray(number_picture(number, *size), format="rgb24")
    frame = frame if pixel_format == "rgb24" else frame.reformat(format=pixel_format, threads=1)
    frame.pts = 0
    packets = [*context.encode(frame), *context.encode(None)]
    path.write_bytes(b"".join(bytes(packet) for packet in packets))
    return path


def drop_to_nobody() -> None:
    """Become the unprivileged user 65534 in this (child) process; nothing if not root."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def _add_video(output: Any, clip: Clip) -> Any:
    options = {**_FAST.get(clip.codec, {}), **clip.options}
    if clip.codec == "libx265":
        quiet = f"log-level=none:keyint={clip.gop}:bframes={_reordered(clip)}"
        options["x265-params"] = ":".join([quiet, *filter(None, [options.get("x265-params", "")])])
    if clip.interlaced and clip.codec == "libx264":
        options["x264-params"] = "tff=1" if clip.interlaced == "tt" else "bff=1"
    stream = output.add_stream(clip.codec, rate=clip.rate, options=options)
    context = stream.codec_context
    context.width, context.height = clip.size
    context.pix_fmt = clip.pixel_format
    context.time_base = _time_base(clip)
    context.thread_count = 1
    if clip.codec in ("libx264", "mpeg4", "mpeg2video"):
        context.gop_size, context.max_b_frames = clip.gop, clip.b_frames
    if clip.sar is not None:
        context.sample_aspect_ratio = clip.sar
    for key, value in _colour_codes(clip.tags).items():
        setattr(context, key, value)
    if clip.rotation or clip.mirrored:
        stream.set_display_rotation(-clip.rotation, hflip=clip.mirrored)
    stream.metadata["language"] = "eng"
    return stream


def _reordered(clip: Clip) -> int:
    """B frames of x265 4.2: none in short clips, for whose decoding times it gives garbage."""
    return clip.b_frames if clip.frames > 8 else 0


def _time_base(clip: Clip) -> Fraction:
    if clip.time_base is not None:
        return clip.time_base
    base = 1 / Fraction(clip.rate)
    for time in clip.vfr_times or ():
        base = Fraction(1, int(np.lcm(base.denominator, Fraction(time).denominator)))
    return base


_MATRIX = {"rgb": 0, "bt709": 1, "fcc": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7}
_MATRIX |= {"ycgco": 8, "bt2020nc": 9}
_PRIMARIES = {"bt709": 1, "bt470bg": 5, "smpte170m": 6, "bt2020": 9, "smpte432": 12}
_TRANSFER = {"bt709": 1, "smpte170m": 6, "bt2020-10": 14, "smpte2084": 16, "arib-std-b67": 18}
_TRANSFER |= {"iec61966-2-1": 13, "linear": 8}


def _colour_codes(tags: Mapping[str, str]) -> dict[str, int]:
    tables = {
        "matrix": ("colorspace", _MATRIX),
        "range": ("color_range", {"tv": 1, "pc": 2}),
        "primaries": ("color_primaries", _PRIMARIES),
        "transfer": ("color_trc", _TRANSFER),
    }
    found = {tables[key][0]: tables[key][1][value] for key, value in tags.items() if value}
    return found


def _add_audio(output: Any, clip: Clip, track: int) -> Any:
    codec = clip.audio_codec or ("libopus" if output.format.name == "webm" else "aac")
    stream = output.add_stream(codec, rate=_SAMPLE_RATE, layout="stereo" if track else "mono")
    stream.metadata["language"] = ("eng", "deu", "fra")[track % 3]
    stream.metadata["title"] = f"Sound {track + 1}"
    return stream


def _add_subtitle(output: Any, codec: str, number: int) -> Any:
    stream = output.add_mux_stream(codec, time_base=Fraction(1, 1000))
    stream.metadata["language"] = ("eng", "deu", "fra")[number % 3]
    return stream


def _subtitle_packets(stream: Any, codec: str, clip: Clip) -> list[Any]:
    packets = []
    for number in range(3):
        text = f"Line {number + 1}".encode()
        data = {
            "subrip": text,
            "ass": b"%d,0,Default,,0,0,0,,%s" % (number, text),
            "mov_text": len(text).to_bytes(2, "big") + text,
            "hdmv_pgs_subtitle": b"\x80\x00\x00",
        }[codec]
        packet = av.Packet(data)
        packet.stream, packet.time_base = stream, Fraction(1, 1000)
        packet.pts = packet.dts = number * 100
        packet.duration = 80
        packets.append(packet)
    return packets


def _set_chapters(output: Any, clip: Clip) -> None:
    end = int(clip.frames / clip.rate * 1000)
    edges = [end * number // max(1, clip.chapters) for number in range(clip.chapters + 1)]
    chapters = [
        {
            "id": number,
            "start": start,
            "end": stop,
            "time_base": Fraction(1, 1000),
            "metadata": {"title": f"Chapter {number}"},
        }
        for number, (start, stop) in enumerate(pairwise(edges), start=1)
    ]
    if chapters:
        output.set_chapters(chapters)


def _mux_video(output: Any, video: Any, clip: Clip, frame: av.VideoFrame | None) -> None:
    for packet in video.encode(frame):
        if clip.codec == "libx265" and not _reordered(clip):
            packet.dts = packet.pts
        output.mux(packet)


def _write_media(output: Any, clip: Clip, video: Any, sounds: Sequence[Any]) -> None:
    times = times_of(clip)
    if clip.codec != "rawvideo" and output.format.name == "h264":
        times = [number / clip.rate for number in range(len(times))]
    base, width, height = _time_base(clip), *clip.size
    done = 0
    for number, time in enumerate(times):
        frame = av.VideoFrame.from_ndarray(number_picture(number, width, height), format="rgb24")
        if clip.pixel_format != "rgb24":
            frame = frame.reformat(format=clip.pixel_format, threads=1)
        _tag(frame, clip)
        frame.pts, frame.time_base = int(time / base), base
        _mux_video(output, video, clip, frame)
        until = int((time + 1 / clip.rate) * _SAMPLE_RATE)
        done = _write_sound(output, sounds, done, until)
    _mux_video(output, video, clip, None)
    for sound in sounds:
        output.mux(sound.encode(None))


def _tag(frame: Any, clip: Clip) -> None:
    codes = _colour_codes(clip.tags)
    frame.colorspace = codes.get("colorspace", 2)
    frame.color_range = codes.get("color_range", 0)
    frame.color_primaries = codes.get("color_primaries", 2)
    frame.color_trc = codes.get("color_trc", 2)


def _write_sound(output: Any, sounds: Sequence[Any], done: int, until: int) -> int:
    while sounds and done < until:
        for track, sound in enumerate(sounds):
            layout = "stereo" if track else "mono"
            at = np.arange(done, done + 1024) / _SAMPLE_RATE
            wave = (np.sin(at * 2 * np.pi * 440 * (track + 1)) * 8000).astype(np.int16)
            data = np.repeat(wave[None], 2 if track else 1, axis=0).T.reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(data, format="s16", layout=layout)
            frame.sample_rate, frame.pts = _SAMPLE_RATE, done
            frame.time_base = Fraction(1, _SAMPLE_RATE)
            output.mux(sound.encode(frame))
        done += 1024
    return done


_TS_PACKET = 188
FIRST_SOUND = 0x101  # ids of the streams of `make_clip` in MPEG-TS
FILM = 0x100


def lose_packets(source: Path, target: Path, *which: int, pid: int = FIRST_SOUND) -> Path:
    """Copy an MPEG-TS without some packets of one stream, as reception loses them; () for all."""
    packets, of_stream = _transport_packets(source, pid)
    lost = {of_stream[n] for n in which} if which else set(of_stream)
    target.write_bytes(b"".join(one for n, one in enumerate(packets) if n not in lost))
    return target


def with_unseen_sound(source: Path, target: Path) -> Path:
    """Copy an MPEG-TS with a stream in its middle that neither its beginning nor its end tells."""
    packets, of_sound = _transport_packets(source, FIRST_SOUND)
    sound = [packets[n] for n in of_sound]
    others = [bytes([one[0], one[1] & 0xE0 | 0x11, *one[2:]]) for one in sound]
    middle = len(packets) // 2
    target.write_bytes(b"".join([*packets[:middle], *others, *packets[middle:]]))
    return target


def leap_ahead(source: Path, target: Path, which: int, *, pid: int) -> Path:
    """Copy an MPEG-TS with bit errors in one time stamp of a stream: it is many hours late."""
    packets, of_stream = _transport_packets(source, pid)
    begin = [n for n in of_stream if packets[n][1] & 0x40][which]  # of a frame, or of some sound
    changed = bytearray(packets[begin])
    changed[changed.index(b"\0\0\1") + 9] |= 0b110  # the highest bits
    target.write_bytes(b"".join([*packets[:begin], bytes(changed), *packets[begin + 1 :]]))
    return target


def _transport_packets(source: Path, pid: int) -> tuple[list[bytes], list[int]]:
    """All packets of a transport stream, and which of them are of one stream."""
    data = source.read_bytes()
    packets = [data[at : at + _TS_PACKET] for at in range(0, len(data), _TS_PACKET)]
    return packets, [n for n, one in enumerate(packets) if (one[1] & 31) << 8 | one[2] == pid]
