"""Films of fields: a moving picture, interlaced or made for television from film."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from engine.core.geometry import Size
from engine.video.planes import frame_of
from engine.video.read.frames import PlanarFrame, Plane

Luma = NDArray[np.uint8]
WIDTH, HEIGHT = 96, 64
NTSC = Fraction(30000, 1001)


@cache
def _texture() -> NDArray[np.float64]:
    noise = np.random.default_rng(1).integers(40, 215, (HEIGHT, WIDTH * 6)).astype(float)
    kernel = np.ones(5) / 5
    for axis in (0, 1):
        noise = np.apply_along_axis(np.convolve, axis, noise, kernel, "same")
    return noise


def picture(time: float) -> Luma:
    """A soft texture [h, w] that moves by 4 px a frame; `time` counts frames."""
    left = round(4 * time)
    return _texture()[:, left : left + WIDTH].astype(np.uint8)


def woven(first: Luma, second: Luma, order: str) -> Luma:
    """One frame of two fields; the first is that of the top lines where the order is "tt"."""
    frame = first.copy()
    start = 1 if order == "tt" else 0
    frame[start::2] = second[start::2]
    return frame


def interlaced(frames: int, order: str) -> list[Luma]:
    """Each frame has fields of two times."""
    return [woven(picture(n), picture(n + 0.5), order) for n in range(frames)]


def telecined(frames: int) -> list[Luma]:
    """Five frames for four of the film: fields of 2, 3, 2 and 3 in turn."""
    shown = [n for n in range(frames) for _ in range(3 if n % 2 else 2)]
    pairs = zip(shown[::2], shown[1::2], strict=False)
    return [woven(picture(a), picture(b), "tt") for a, b in pairs]


def write(
    path: Path, pictures: Sequence[Luma], rate: Fraction | int = 25, codec: str = "ffv1"
) -> Path:
    """A film of grey pictures; the file does not state that it is interlaced."""
    height, width = pictures[0].shape
    options = {"crf": "12", "g": "12"} if codec == "libx264" else {}
    with av.open(f"file:{path}", "w") as output:
        stream = output.add_stream(codec, rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        for number, luma in enumerate(pictures):
            chroma = np.full((height // 2, width), 128, np.uint8)
            frame = av.VideoFrame.from_ndarray(np.concatenate((luma, chroma)), format="nv12")
            frame = frame.reformat(format="yuv420p", threads=1)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def write_planes(
    path: Path, frames: Sequence[Sequence[Plane]], pixel_format: str, rate: Fraction | int = 25
) -> Path:
    """A film with exactly these planes, by FFV1."""
    height, width = frames[0][0].shape
    with av.open(f"file:{path}", "w") as output:
        stream = output.add_stream("ffv1", rate=rate)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format
        stream.codec_context.thread_count = 1
        for number, planes in enumerate(frames):
            frame = frame_of(planes, Size(width, height), pixel_format)
            frame.pts = number
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return path


def nearest(frames: Sequence[PlanarFrame], originals: Sequence[Luma]) -> list[int]:
    """Which original each frame shows."""
    return [
        int(np.argmin([np.abs(frame.planes[0].astype(int) - one).mean() for one in originals]))
        for frame in frames
    ]


def psnr(one: Luma, other: Luma) -> float:
    """Peak signal-to-noise ratio of two pictures, dB."""
    error = float(np.square(one.astype(float) - other).mean())
    return 10 * np.log10(255**2 / max(error, 1e-9))
