"""Videos to measure on, synthetic or first frames of a real one, and one timed job. Needs PyAV."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.control import Control
from engine.core.errors import InputError
from engine.core.geometry import Size
from engine.ops.choices import Choices
from engine.pipeline.context import HandOut, JobContext
from engine.pipeline.publication import Publication
from engine.pipeline.run import run_job
from engine.pipeline.segments import FinishedSegments, segment_path
from engine.pipeline.stages.restore import SourceColours
from engine.protocol.events import Event, StageStarted
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan, Plan
from engine.protocol.report import Report
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.write import codecs
from engine.video.write.segment_writer import SegmentWriter

RATE = 24  # frames/s
_JUMP = 0.382  # of the way around, at a cut: no two shots begin at the same place
_SAMPLE_S = 0.05  # between two samples of the threads


def make_clip(path: Path, size: Size, frames: int, shot: int = 0) -> None:
    """Write a video as MP4, H.264 with CRF 20, 4:2:0: a pan over noise and shapes, and grain.

    Its frames are the same each time. A cut follows each `shot` frames; none with 0.
    """
    painter = _FramePainter(size, shot or frames)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(RATE))
        stream.width, stream.height, stream.pix_fmt = size.width, size.height, "yuv420p"
        stream.options = {"crf": "20", "preset": "veryfast"}
        for number in range(frames):
            picture = av.VideoFrame.from_ndarray(painter.paint(number), format="rgb24")
            # TRAP: as in `video.planes`: in several threads swscale may lose a row.
            planar = picture.reformat(format="yuv420p", threads=1)
            container.mux(stream.encode(planar))
        container.mux(stream.encode(None))


@dataclass(frozen=True)
class SyntheticClip:
    """A synthetic video in a folder, and the encoder settings of a result of 2x its size."""

    folder: Path
    size: Size
    frame_count: int
    shot: int = 0  # frames; 0 for all of them

    @cached_property
    def media(self) -> MediaInfo:
        """The video; written on first use."""
        path = self.folder / "film.mp4"
        make_clip(path, self.size, self.frame_count, self.shot)
        return probe(path)

    def frames(self, most: int | None = None) -> list[PlanarFrame]:
        """First frames, decoded."""
        with FrameReader(self.media) as reader:
            return list(islice(reader, most))

    def picture(self, codec: str, bit_depth: int = 0, container: str = "mkv") -> PicturePlan:
        """The encoder settings that a plan has for the result."""
        settings = JobSettings(codec=codec, bit_depth=bit_depth)
        return codecs.plan_picture(self.media, settings, self.size.scaled(2), container)


def decode_all(media: MediaInfo) -> None:
    """Decode every frame of a video."""
    with FrameReader(media) as reader:
        for _ in reader:
            pass


def encode(path: Path, picture: PicturePlan, frames: Sequence[Sequence[Any]]) -> None:
    """Encode the planes of frames into a segment; an earlier file is replaced."""
    with SegmentWriter(path, picture) as writer:
        for planes in frames:
            writer.write(planes)


def first_frames(path: Path, frames: int, step: int) -> Tensor:
    """First frames of a video, [T, 3, H, W] float32 in [-1, 1], as a video VAE takes them.

    Args:
        path: The video.
        frames: Upper limit of T.
        step: T is 1 + n * step.
    """
    media = probe(path)
    with FrameReader(media) as reader:
        found = list(islice(reader, frames))
    if not found:
        raise InputError("no-frames", name=path.name)
    rgb, _ = SourceColours(media.video, "cpu").rgb(found[: 1 + (len(found) - 1) // step * step])
    return rgb.to(torch.float32).clamp(0, 1).mul(2).sub(1)


def centre_crop(frames: Tensor, most: Size | None, factor: int) -> Tensor:
    """Centre of frames [T, C, H, W], no larger than `most`, both sides multiples of `factor`."""
    height, width = frames.shape[2:]
    most = most or Size(width, height)
    h, w = (min(pair) // factor * factor for pair in ((height, most.height), (width, most.width)))
    if not h or not w:
        raise InputError("too-small-to-encode", size=Size(width, height), factor=factor)
    y, x = (height - h) // 2, (width - w) // 2
    return frames[:, :, y : y + h, x : x + w]


class _FramePainter:
    """Pans over a big still of 1/f noise with flat, sharp-edged shapes in it."""

    def __init__(self, size: Size, shot: int) -> None:
        self._size, self._shot = size, shot
        self._random = np.random.default_rng(20260101)
        self._still = _with_shapes(_pink_noise(2 * size.height, 2 * size.width, self._random))

    def paint(self, number: int) -> NDArray[np.uint8]:
        """Frame `number`: [h, w, 3]."""
        angle = 2 * np.pi * (number / 240 + _JUMP * (number // self._shot))
        width, height = self._size.width, self._size.height
        x = round((0.5 + 0.45 * np.sin(angle)) * width)
        y = round((0.5 + 0.45 * np.cos(1.3 * angle)) * height)
        part = self._still[y : y + height, x : x + width]
        grain = self._random.normal(0, 2, part.shape[:2])[..., None]
        return np.clip(part + grain, 0, 255).astype(np.uint8)


def _pink_noise(height: int, width: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Noise whose amplitude falls with its frequency, as in photographs: [h, w, 3], 20 to 235."""
    across = np.fft.rfftfreq(width)[None, :, None]
    down = np.fft.fftfreq(height)[:, None, None]
    frequency = np.maximum(np.hypot(across, down), 1 / max(height, width))
    white = np.fft.rfft2(random.normal(size=(height, width, 3)), axes=(0, 1))
    noise = np.fft.irfft2(white / frequency, s=(height, width), axes=(0, 1))
    noise = noise.mean(axis=2, keepdims=True) + 0.3 * noise  # colours mostly move together
    low, high = noise.min(), noise.max()
    return np.asarray(20 + 215 * (noise - low) / (high - low))


def _with_shapes(still: NDArray[np.float64]) -> NDArray[np.float64]:
    height, width = still.shape[:2]
    y, x = np.mgrid[:height, :width]
    random = np.random.default_rng(7)
    for _ in range(60):
        radius = random.uniform(0.01, 0.08) * height
        centre = random.uniform(0, width), random.uniform(0, height)
        disc = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2
        still[disc] = 0.3 * still[disc] + 0.7 * random.uniform(16, 235, 3)
    return still


# --- one job


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Seconds of one step."""

    cpu_s: float  # all threads of the process
    wall_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedJob:
    """A finished job and its times."""

    cpu_s: float  # all threads of the process
    wall_s: float  # start to end
    workers_cpu_s: float  # all threads of worker processes; 0 on Windows, which reports none
    segment_bytes: int  # all segments
    digest: str  # SHA-256 of all segments
    plan: Plan  # at the end
    report: Report  # comparison of result and source
    steps: dict[str, StepTime]  # "run", "mux" and "verify"


def run_once(
    media: MediaInfo,
    plan: Plan,
    folder: Path,
    control: Control | None = None,
    hand_out: HandOut | None = None,
) -> TimedJob:
    """Run a job that does not change the rates of later plans; removes result and segments.

    Args:
        media: The source.
        plan: Plan of the job.
        folder: Folder of the segments.
        control: Cancels it.
        hand_out: Lets workers make the segments; None for the usual one, where the plan has any.
    """
    steps, log = _StepClock(), SegmentList(folder)
    context = JobContext(
        job_id="bench",
        media=media,
        plan=plan,
        control=control or Control(),
        events=steps,
        pictures=False,
        is_learned_from=False,
    )
    if plan.workers and hand_out is None:
        from engine.workers.hand_out import hand_out  # half a second
    context.hand_out = hand_out
    wall, cpu, others = time.perf_counter(), time.process_time(), _seconds_of_others()
    try:
        report = run_job(context, log, overwrite=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        digest = log.digest()
    finally:
        log.remove()
    found = TimedJob(
        cpu_s=cpu,
        wall_s=wall,
        workers_cpu_s=_seconds_of_others() - others,
        segment_bytes=sum(record.bytes for record in log),
        digest=digest,
        plan=context.plan,
        report=report,
        steps=steps.times(),
    )
    if plan.output.is_dir():
        shutil.rmtree(plan.output, ignore_errors=True)
    else:
        plan.output.unlink(missing_ok=True)
    return found


@dataclass(slots=True)
class _StepClock:
    """An EventSink that records when each step of the job began."""

    begins: list[tuple[str, float, float]] = field(default_factory=list)

    def emit(self, event: Event) -> None:
        """Record the beginning of a step."""
        if isinstance(event, StageStarted):
            self._record(event.stage)

    def times(self) -> dict[str, StepTime]:
        """Times of all steps; the last one ends now."""
        self._record("")
        return {
            name: StepTime(cpu_s=cpu_end - cpu, wall_s=wall_end - wall)
            for (name, cpu, wall), (_, cpu_end, wall_end) in pairwise(self.begins)
        }

    def _record(self, name: str) -> None:
        self.begins.append((name, time.process_time(), time.perf_counter()))


def _seconds_of_others() -> float:
    """CPU seconds of the processes that this one has started, and that have ended."""
    return sum(os.times()[2:4])


class SegmentList(FinishedSegments):
    """A SegmentLog in memory: this job is never resumed."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.is_complete = False
        self.choices = Choices()

    def path(self, number: int) -> Path:
        """File of a segment."""
        return segment_path(self._folder, number)

    def complete(self) -> None:
        """The last segment was added."""
        self.drop(len(self.records))
        self.is_complete = True

    def first_damaged(self, control: Control) -> int | None:
        """Nothing is damaged between writing and joining."""
        return None

    def digest(self) -> str:
        """SHA-256 of all segments, in order."""
        found = hashlib.sha256()
        for record in self:
            found.update(self.path(record.number).read_bytes())
        return found.hexdigest()

    def add_publication(self, publication: Publication) -> None:
        """Nothing to keep."""

    def remove(self) -> None:
        """Delete the segments."""
        for record in self:
            self.path(record.number).unlink(missing_ok=True)


class ThreadTimes:
    """CPU seconds of each thread while inside, by the name of the thread.

    Threads that Python did not start (codecs, torch) are added up as "native". Sampled 20 times a
    second: the last moment of a thread that ends is missed.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._names: dict[int, str] = {}
        self._begin: dict[int, float] = {}
        self._latest: dict[int, float] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bench", daemon=True)

    def __enter__(self) -> ThreadTimes:
        self._begin = self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._sample()
        for number, seconds in self._latest.items():
            name = self._names.get(number, "native")
            used = seconds - self._begin.get(number, 0.0)
            self.seconds[name] = self.seconds.get(name, 0.0) + used

    def _watch(self) -> None:
        while not self._is_over.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> dict[int, float]:
        for thread in threading.enumerate():
            if thread.native_id is not None:
                self._names[thread.native_id] = thread.name
        now = {t.id: t.user_time + t.system_time for t in psutil.Process().threads()}
        self._latest |= now
        return now
