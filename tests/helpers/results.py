"""Makes results as a job does, without a model, and asks ffprobe about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from engine.core.control import Control
from engine.core.geometry import FrameSpan
from engine.models.copy.family import CopyPlan
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.video.colour.pixel_formats import planes_of
from engine.video.read.probe import probe
from engine.video.read.time_stamps import Timeline
from engine.video.write.codecs import choose_container, plan_picture, plan_streams
from engine.video.write.encode import SegmentWriter
from engine.video.write.encoders import subsampling
from engine.video.write.mux import SegmentFile, mux

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
        times = Timeline(film)
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
            for index, (planes, _, _) in enumerate(part):
                writer.write(planes, index)
        pts, durations = tuple(p for _, p, _ in part), tuple(d for _, _, d in part)
        segments.append(SegmentFile(path=path, pts=pts, durations=durations))
    return segments


def make_identity(
    source: Path, output: Path, settings: JobSettings | None = None, **changes: Any
) -> Plan:
    """The identity job: segments beside the output, then the result under its name."""
    media = probe(source)
    plan = plan_of(media, output, settings, **changes)
    folder = output.parent / f"{output.name}.job"
    folder.mkdir()
    segments = segments_of(media, plan, folder)
    mux(media, plan, segments, output, control=Control(), progress=lambda done, total: None)
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


def ffprobe(path: Path, *options: str) -> dict[str, Any]:
    """What ffprobe says, as JSON."""
    command = ["ffprobe", "-v", "error", "-of", "json", *options, f"file:{path}"]
    result: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    return result


def frame_times(path: Path) -> list[Fraction]:
    """Exact time stamps of the film's frames, as decoded."""
    stream = ffprobe(path, "-select_streams", "v:0", "-show_streams", "-show_frames")
    base = Fraction(stream["streams"][0]["time_base"])
    return [frame["best_effort_timestamp"] * base for frame in stream["frames"]]


def packets(path: Path, stream: str) -> list[tuple[float, str]]:
    """Time and hash of the content of each packet, e.g. of "a:0"."""
    found = ffprobe(path, "-select_streams", stream, "-show_packets", "-show_data_hash", "md5")
    return [(float(p.get("pts_time", "nan")), p["data_hash"]) for p in found["packets"]]
