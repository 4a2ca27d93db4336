"""Results of identity jobs, damaged results, and what ffprobe reports about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.control import Control
from engine.core.geometry import FrameSpan
from engine.models.copy.family import CopyPlan
from engine.protocol.media import MediaInfo, subsampling
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.planes import planes_of
from engine.video.read.clock import FrameTimes
from engine.video.read.examination import examined
from engine.video.read.probe import probe
from engine.video.write.codecs import choose_container, plan_picture, plan_streams
from engine.video.write.mux import mux, tried
from engine.video.write.passthrough import stream_metadata
from engine.video.write.segment_file import SegmentFile
from engine.video.write.segment_writer import SegmentWriter
from tests.helpers.clips import _colour_codes
from tests.helpers.program import ffprobe

needs_ffprobe = pytest.mark.programs("ffprobe")
FAST = JobSettings(model="none", speed="fast")


def plan_of(
    media: MediaInfo, output: Path, settings: JobSettings | None = None, **changes: Any
) -> Plan:
    """The plan of an identity job; `changes` are fields of Plan."""
    settings = settings or JobSettings(model="none")
    container = choose_container(media, settings, output)
    part = changes.get("start"), changes.get("stop")
    picture = plan_picture(media, settings, media.video.size, container, output=output)
    return Plan(
        source=media.path,
        output=output,
        container=container,
        source_size=media.video.size,
        span=FrameSpan(0, max(1, media.video.frame_count)),
        work=CopyPlan(frame=media.video.size, tile=media.video.size),
        picture=picture,
        streams=plan_streams(media, container, settings.sound, part),
        **changes,
    )


def frames_of(media: MediaInfo, plan: Plan) -> Iterator[tuple[Any, int, int]]:
    """Planes, pts and duration of the frames that the plan wants."""
    base = media.video.time_base
    with av.open(f"file:{media.path}") as source:
        film = source.streams[media.video.index]
        times = FrameTimes(film)
        for frame in source.decode(film):
            pts = times.pts_of(frame)
            time = pts * base - media.start
            if (plan.start or 0) <= time and (plan.stop is None or time < plan.stop):
                if frame.format.name != plan.picture.pixel_format:
                    frame = frame.reformat(format=plan.picture.pixel_format, threads=1)
                planes = planes_of(frame, alpha=plan.picture.has_alpha)
                yield planes, pts, frame.duration or 0


def segments_of(media: MediaInfo, plan: Plan, folder: Path, length: int = 4) -> list[SegmentFile]:
    """Writes the source's own pictures as segments of `length` frames."""
    frames = list(frames_of(media, plan))
    segments = []
    for first in range(0, len(frames), length):
        part = frames[first : first + length]
        path = folder / f"{first:06d}.segment"
        with SegmentWriter(path, plan.picture) as writer:
            for planes, _, _ in part:
                writer.write(planes)
        pts, durations = tuple(p for _, p, _ in part), tuple(d for _, _, d in part)
        segments.append(SegmentFile(path=path, pts=pts, durations=durations))
    return segments


def mux_all(
    media: MediaInfo,
    plan: Plan,
    segments: list[SegmentFile],
    target: Path,
    *,
    control: Control | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """`mux` without a control or progress of one's own."""
    mux(media, plan, segments, target, control=control or Control(), progress=progress)


def make_identity(
    source: Path, output: Path, settings: JobSettings | None = None, **changes: Any
) -> Plan:
    """The identity job: segments next to the output, then the result under its name."""
    media = probe(source)
    plan = plan_of(media, output, settings, **changes)
    folder = output.parent / f"{output.name}.job"
    folder.mkdir()
    mux_all(media, plan, segments_of(media, plan, folder), output)
    return plan


def job(source: Path, output: Path, **changes: Any) -> tuple[MediaInfo, Plan]:
    """Run an identity job as far as its file."""
    media = examined(probe(source))
    plan = tried(media, plan_of(media, output, replace(FAST, **changes)), Control())
    mux_all(media, plan, segments_of(media, plan, source.parent), output)
    return media, plan


def faults(media: MediaInfo, output: Path, plan: Plan) -> dict[str, str]:
    """Codes of the faults that verification finds."""
    report = verify(media, output, plan=plan)
    return {check.code: str(check.message) for check in report.problems}


def random_planes(plan: Any, number: int) -> list[np.ndarray]:
    """Noise in the layout of a PicturePlan."""
    across, down = subsampling(plan.chroma)
    width, height = plan.size.width, plan.size.height
    chroma = (-(-height // down), -(-width // across))
    shapes = [(height, width)] if plan.chroma == "gray" else [(height, width), chroma, chroma]
    shapes += [(height, width)] if plan.has_alpha else []
    kind = np.uint8 if plan.bit_depth == 8 else np.uint16
    noise = np.random.default_rng(number)
    return [noise.integers(0, 2**plan.bit_depth, shape).astype(kind) for shape in shapes]


class Ffprobed:
    """All that ffprobe reports about a file, from one call."""

    def __init__(self, path: Path) -> None:
        options = "-show_streams -show_format -show_chapters -show_frames -show_packets"
        found = ffprobe(path, *options.split(), "-show_data_hash", "md5")
        self.streams: list[dict[str, Any]] = found["streams"]
        self.format: dict[str, Any] = found["format"]
        self.chapters: list[dict[str, Any]] = found["chapters"]
        self._items: list[dict[str, Any]] = found["packets_and_frames"]

    @property
    def film(self) -> dict[str, Any]:
        """The first video stream that is no cover."""
        films = (s for s in self.streams if s["codec_type"] == "video")
        return next(s for s in films if not s["disposition"]["attached_pic"])

    @property
    def frame_times(self) -> list[Fraction]:
        """Exact time stamps of the film's frames, as decoded."""
        base, index = Fraction(self.film["time_base"]), self.film["index"]
        return [
            item["best_effort_timestamp"] * base
            for item in self._items
            if item["type"] == "frame" and item["stream_index"] == index
        ]

    def packets(self, kind: str, number: int = 0) -> list[tuple[float, str]]:
        """Time and hash of the content of each packet of a stream, e.g. "audio" 0."""
        index = [s["index"] for s in self.streams if s["codec_type"] == kind][number]
        return [
            (float(item.get("pts_time", "nan")), item["data_hash"])
            for item in self._items
            if item["type"] == "packet" and item["stream_index"] == index
        ]


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
    options = {"preset": "ultrafast", "crf": str(how.crf)}
    stream = new.add_stream("libx264", rate=old.average_rate, options=options)
    context = stream.codec_context
    context.width = int(first.width * how.scale * how.stretch)
    context.height = int(first.height * how.scale)
    context.pix_fmt, context.time_base, context.thread_count = "yuv420p", old.time_base, 1
    for key, value in _numbers(how, first).items():
        setattr(context, key, value)
    stream.metadata["language"] = old.language or "und"
    return stream


def _numbers(how: Damage, first: Any) -> dict[str, int]:
    if how.tags is not None:
        return _colour_codes(how.tags)
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
        copies[stream.index].metadata.update(stream_metadata(stream.metadata))
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
    return _grey(np.full((frame.height, frame.width), luma, np.uint8))


def _grey(luma: np.ndarray) -> Any:
    chroma = np.full((luma.shape[0] // 2, luma.shape[1]), 128, np.uint8)
    return av.VideoFrame.from_ndarray(np.concatenate([luma, chroma]), format="yuv420p")


def _noise(frame: Any) -> Any:
    blocks = np.random.default_rng(1).integers(30, 220, (6, 8), dtype=np.uint8)
    rows = np.arange(frame.height) * 6 // frame.height
    columns = np.arange(frame.width) * 8 // frame.width
    return _grey(blocks[rows][:, columns])
