"""Results made as by a job, without a model, and what ffprobe reports about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
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
from engine.video.colour.planes import planes_of
from engine.video.read.decoder import FrameTimes
from engine.video.read.probe import probe
from engine.video.write.codecs import choose_container, plan_picture, plan_streams
from engine.video.write.mux import mux
from engine.video.write.segment_file import SegmentFile
from engine.video.write.segment_writer import SegmentWriter

needs_ffprobe = pytest.mark.skipif(shutil.which("ffprobe") is None, reason="no ffprobe here")


def plan_of(
    media: MediaInfo, output: Path, settings: JobSettings | None = None, **changes: Any
) -> Plan:
    """The plan of an identity job; `changes` are fields of Plan."""
    settings = settings or JobSettings(model="none")
    container = choose_container(media, settings, output)
    picture = plan_picture(media, settings, media.video.size, container, output=output)
    return Plan(
        source=media.path,
        output=output,
        container=container,
        source_size=media.video.size,
        span=FrameSpan(0, max(1, media.video.frame_count)),
        work=CopyPlan(frame=media.video.size, tile=media.video.size),
        picture=picture,
        streams=plan_streams(media, container),
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
        command = ["ffprobe", "-v", "error", "-of", "json", *options.split()]
        command += ["-show_data_hash", "md5", f"file:{path}"]
        found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
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
