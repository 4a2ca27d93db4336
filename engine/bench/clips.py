"""Films to measure on: a synthetic one, and the first frames of a real one. Needs PyAV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.core.errors import InputError
from engine.core.geometry import Size
from engine.pipeline.stages.restore import SourceColours
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.write import codecs
from engine.video.write.segment_writer import SegmentWriter

RATE = 24  # frames/s
_JUMP = 0.382  # of the way around, at a cut: no two shots begin at the same place


def make_clip(path: Path, size: Size, frames: int, shot: int = 0) -> None:
    """Write a film as MP4, H.264 with CRF 20, 4:2:0: a pan over noise and shapes, and grain.

    Its frames are the same each time.

    Args:
        path: Of the file.
        size: Of a frame.
        frames: Of the film.
        shot: Frames after which there is a cut; 0 for none.
    """
    painter = _FramePainter(size, shot or frames)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(RATE))
        stream.width, stream.height, stream.pix_fmt = size.width, size.height, "yuv420p"
        stream.options = {"crf": "20", "preset": "veryfast"}
        for number in range(frames):
            picture = av.VideoFrame.from_ndarray(painter.paint(number), format="rgb24")
            # TRAP: as in `video.colour.planes`: in several threads swscale may lose a row.
            planar = picture.reformat(format="yuv420p", threads=1)
            container.mux(stream.encode(planar))
        container.mux(stream.encode(None))


@dataclass(frozen=True)
class SyntheticClip:
    """A synthetic film in a folder, and how a result of 2x its size is written."""

    folder: Path
    size: Size
    frame_count: int
    shot: int = 0  # frames; 0 for all of them

    @cached_property
    def media(self) -> MediaInfo:
        """The film; written on first use."""
        path = self.folder / "film.mp4"
        make_clip(path, self.size, self.frame_count, self.shot)
        return probe(path)

    def frames(self, most: int | None = None) -> list[PlanarFrame]:
        """Its first frames, decoded."""
        with FrameReader(self.media) as reader:
            return list(islice(reader, most))

    def picture(self, codec: str, bit_depth: int = 0, container: str = "mkv") -> PicturePlan:
        """The encoder settings that a plan has for the result."""
        settings = JobSettings(codec=codec, bit_depth=bit_depth)
        return codecs.plan_picture(self.media, settings, self.size.scaled(2), container)


def decode_all(media: MediaInfo) -> None:
    """Decode every frame of a film."""
    with FrameReader(media) as reader:
        for _ in reader:
            pass


def encode(path: Path, picture: PicturePlan, frames: Sequence[Sequence[Any]]) -> None:
    """Encode the planes of frames into a segment; an earlier file is replaced."""
    with SegmentWriter(path, picture) as writer:
        for planes in frames:
            writer.write(planes)


def first_frames(path: Path, frames: int, step: int) -> Tensor:
    """The first frames of a film, [T, 3, H, W] float32 in [-1, 1], as a video VAE takes them.

    Args:
        path: The film.
        frames: Most that are taken.
        step: T is 1 + n * step.

    Raises:
        InputError: The film cannot be read, or has no frames.
    """
    media = probe(path)
    with FrameReader(media) as reader:
        found = list(islice(reader, frames))
    if not found:
        raise InputError("no-frames", name=path.name)
    rgb, _ = SourceColours(media.video, "cpu").rgb(found[: 1 + (len(found) - 1) // step * step])
    return rgb.to(torch.float32).clamp(0, 1).mul(2).sub(1)


def centre_crop(frames: Tensor, most: Size | None, factor: int) -> Tensor:
    """Centre of frames [T, C, H, W], no larger than `most`, both sides multiples of `factor`.

    Raises:
        InputError: They are smaller than one such multiple.
    """
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
