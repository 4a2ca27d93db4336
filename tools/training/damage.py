"""Damage that videos have had by the time they are enlarged, as recipes for moving sequences.

A recipe does to the small frames what a device did, then sends them through real encoders. All
randomness is drawn from one generator, encoders run in one thread: the same seed gives the same.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import av
import numpy as np
import torch
import torch.nn.functional as F
from av.video.stream import VideoStream

Frames = np.ndarray
"""uint8 [T, h, w, 3], RGB; h and w even."""
Floats = np.ndarray
"""float32 [T, h, w, 3], 0 to 255."""
Rng = np.random.Generator

_DV_SIZE = (576, 720)  # the only one of that encoder, rows and columns
_GREY = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """One pass through an encoder in 4:2:0.

    Attributes:
        codec: Name in FFmpeg.
        options: Options of the encoder.
        quality: Quantiser that is set on each frame, as MPEG-2 needs it; 0: that of `options`.
    """

    codec: str
    options: Mapping[str, str] = field(default_factory=dict)
    quality: float = 0.0


def coded(frames: Frames, coding: Coding) -> Frames:
    """Frames after an encoder and back, BT.601 in limited range.

    The colours are converted here in float and rounded once: the fast conversion of FFmpeg shifts
    them by up to one step, which a network would learn to undo.
    """
    h, w = frames.shape[1:3]
    if coding.codec == "dvvideo":
        canvas = np.full((len(frames), *_DV_SIZE, 3), _GREY, np.uint8)
        canvas[:, :h, :w] = frames
        return _coded(canvas, coding)[:, :h, :w]
    return _coded(frames, coding)


def _coded(frames: Frames, coding: Coding) -> Frames:
    h, w = frames.shape[1:3]
    file = io.BytesIO()
    name = "mov" if coding.codec == "dvvideo" else "matroska"
    with av.open(file, "w", format=name) as container:
        options = {"threads": "1", **coding.options}
        stream = container.add_stream(coding.codec, rate=Fraction(25), options=options)
        assert isinstance(stream, VideoStream)
        stream.height, stream.width = h, w
        stream.pix_fmt = "yuv420p"
        if coding.quality:
            stream.codec_context.qscale = True
            stream.codec_context.global_quality = round(118 * coding.quality)  # FF_QP2LAMBDA
        for frame in frames:
            planes = av.VideoFrame.from_ndarray(_to_yuv420(frame), format="yuv420p")
            container.mux(stream.encode(planes))
        container.mux(stream.encode(None))
    file.seek(0)
    with av.open(file, "r") as written:
        planes_back = [f.to_ndarray(format="yuv420p") for f in written.decode(video=0)]
    return np.stack([_to_rgb(planes, h, w) for planes in planes_back])


def h264(crf: float, preset: str = "medium") -> Coding:
    """A pass through x264 in constant quality."""
    return Coding(codec="libx264", options={"crf": f"{crf:.1f}", "preset": preset})


def vp9(crf: float) -> Coding:
    """A pass through libvpx in constant quality, fast as for the web."""
    speed = {"deadline": "realtime", "cpu-used": "7"}
    return Coding(codec="libvpx-vp9", options={"crf": f"{crf:.0f}", "b": "0", **speed})


def mpeg2(quantiser: float) -> Coding:
    """A pass through MPEG-2 as on a DVD."""
    return Coding(codec="mpeg2video", options={"bf": "2", "g": "12"}, quality=quantiser)


# --- what is done before an encoder sees the frames


def _nothing(rng: Rng, frames: Floats) -> Floats:
    """Frames as they are."""
    return frames


def _grain(rng: Rng, frames: Floats) -> Floats:
    """Noise of a sensor: each frame has its own, of each colour or of grey."""
    spread = rng.uniform(2, 10)
    shape = frames.shape if rng.random() < 0.6 else (*frames.shape[:3], 1)
    noise = rng.standard_normal(shape, dtype=np.float32)
    if rng.random() < 0.4:  # grain of film, and of cameras that have interpolated their colours
        noise = blurred(noise, 0.6, 0.6) * 1.6
    return frames + np.float32(spread) * noise


def _deinterlaced(rng: Rng, frames: Floats) -> Floats:
    """Half of the lines of each frame, as where a deinterlacer found motion; often all of them."""
    if rng.random() < 0.5:
        return frames
    found = frames.copy()
    kept = int(rng.integers(2))
    rows = np.arange(1 - kept, frames.shape[1], 2)
    above, below = np.maximum(rows - 1, kept), np.minimum(rows + 1, frames.shape[1] - 2 + kept)
    found[:, rows] = (frames[:, above] + frames[:, below]) / 2
    return found


def _tape(rng: Rng, frames: Floats) -> Floats:
    """VHS: few details in a line, blurred and shifted chroma, ringing, noise, jitter, dropouts."""
    yuv = frames @ _TO_YUV.T
    luma, chroma = yuv[..., :1], yuv[..., 1:]
    luma = blurred(luma, 0.3, rng.uniform(0.6, 1.4))
    ringing = rng.uniform(0, 1.2)
    luma = luma + ringing * (luma - blurred(luma, 0.0, 1.3))
    chroma = _moved(blurred(chroma, 0.7, rng.uniform(2, 5)), int(rng.integers(-1, 4)))
    noise = rng.standard_normal(yuv.shape, dtype=np.float32)
    luma = luma + rng.uniform(1, 6) * 1.6 * blurred(noise[..., :1], 0.0, 0.8)
    chroma = chroma + rng.uniform(1, 7) * 2.5 * blurred(noise[..., 1:], 0.5, 2.0)
    found = np.concatenate([luma, chroma], axis=-1) @ _TO_RGB.T
    found = _jittered(rng, found, rng.uniform(0, 0.4))
    for _ in range(int(rng.poisson(0.5))):
        t, y, x = (int(rng.integers(side)) for side in found.shape[:3])
        found[t, y, x : x + int(rng.integers(4, 40))] += rng.choice([-80, 120])
    return np.asarray(found, np.float32)


def _jittered(rng: Rng, frames: Floats, spread: float) -> Floats:
    """Each line a little to the left or right, by less than a pixel."""
    share = np.clip(spread * rng.standard_normal((*frames.shape[:2], 1, 1)), -1, 1)
    moved = np.where(share > 0, _moved(frames, 1), _moved(frames, -1))
    return np.asarray(frames + np.abs(share).astype(np.float32) * (moved - frames))


def _moved(frames: np.ndarray, columns: int) -> np.ndarray:
    """Frames that are moved to the right by some columns; borders repeat."""
    width = frames.shape[2]
    return frames[:, :, np.clip(np.arange(width) - columns, 0, width - 1)]


def _sharpened(rng: Rng, frames: Floats) -> Floats:
    """Noise that was smoothed away with details, then edges with halos: a phone."""
    found = _grain(rng, frames) if rng.random() < 0.6 else frames
    sigma = rng.uniform(0.3, 0.8)
    found = blurred(found, sigma, sigma)
    return found + rng.uniform(0.3, 1.2) * (found - blurred(found, 1.0, 1.0))


def _soft(rng: Rng, frames: Floats) -> Floats:
    """Smooth and soft, with edges that stay: what generates videos, and strong noise filters."""
    sigma = rng.uniform(0.5, 1.0)
    smooth = blurred(frames, 1.6, 1.6)
    edges = blurred(np.abs(frames - smooth).max(axis=-1, keepdims=True), 1.0, 1.0)
    share = np.clip(edges / rng.uniform(4, 12), 0.3, 1)
    return np.asarray(share * blurred(frames, sigma, sigma) + (1 - share) * smooth, np.float32)


def _banded(rng: Rng, frames: Floats) -> Floats:
    """Few levels, without dither."""
    step = rng.uniform(2, 7)
    return np.asarray(np.round(frames / step) * step, np.float32)


def blurred(frames: np.ndarray, rows: float, columns: float) -> np.ndarray:
    """Gaussian of these sigmas, px, over [T, h, w, C]; borders repeat."""
    found = torch.from_numpy(np.ascontiguousarray(frames)).permute(0, 3, 1, 2)
    for sigma, dim in ((rows, 2), (columns, 3)):
        if sigma <= 0:
            continue
        reach = min(max(1, round(3 * sigma)), found.shape[dim] - 1)
        taps = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma).square())
        kernel = (taps / taps.sum()).reshape((1, 1, -1, 1) if dim == 2 else (1, 1, 1, -1))
        pad = (0, 0, reach, reach) if dim == 2 else (reach, reach, 0, 0)
        count, depth = found.shape[:2]
        flat = F.pad(found.reshape(count * depth, 1, *found.shape[2:]), pad, mode="replicate")
        found = F.conv2d(flat, kernel).reshape(count, depth, *found.shape[2:])
    return np.asarray(found.permute(0, 2, 3, 1).numpy())


# --- recipes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Damage of a group of sequences.

    Attributes:
        name: For tests and logs.
        share: Share of all groups.
        before: Done to each sequence before it is encoded.
        codings: Encoders one after the other, drawn for a group; none for what was kept raw.
    """

    name: str
    share: float
    before: Callable[[Rng, Floats], Floats] = _nothing
    codings: Callable[[Rng], list[Coding]]


def _crf(rng: Rng, mean: float, spread: float) -> float:
    return float(np.clip(rng.normal(mean, spread), 16, 38))


def _x264(rng: Rng) -> list[Coding]:
    return [h264(_crf(rng, 26, 4.5), str(rng.choice(["veryfast", "fast", "medium"])))]


def _lightly(rng: Rng) -> list[Coding]:
    return [h264(rng.uniform(16, 24), "fast")]


def _dvd(rng: Rng) -> list[Coding]:
    return [mpeg2(rng.uniform(2, 9))]


def _tape_transfer(rng: Rng) -> list[Coding]:
    return [mpeg2(rng.uniform(2, 6))] if rng.random() < 0.5 else _lightly(rng)


def _web(rng: Rng) -> list[Coding]:
    first = vp9(rng.uniform(28, 45)) if rng.random() < 0.6 else h264(_crf(rng, 25, 3), "veryfast")
    return [first, vp9(rng.uniform(30, 48))]


RECIPES = (
    Recipe(name="h264", share=0.26, codings=_x264),
    Recipe(name="noise", share=0.12, before=_grain, codings=_lightly),
    Recipe(name="raw-noise", share=0.08, before=_grain, codings=lambda _: []),
    Recipe(name="dvd", share=0.12, before=_deinterlaced, codings=_dvd),
    Recipe(
        name="dv", share=0.06, before=_deinterlaced, codings=lambda _: [Coding(codec="dvvideo")]
    ),
    Recipe(name="vhs", share=0.08, before=_tape, codings=_tape_transfer),
    Recipe(name="phone", share=0.14, before=_sharpened, codings=_x264),
    Recipe(name="web", share=0.08, codings=_web),
    Recipe(name="soft", share=0.04, before=_soft, codings=_lightly),
    Recipe(name="banding", share=0.02, before=_banded, codings=_lightly),
)


def drawn_recipe(rng: Rng) -> Recipe:
    """One of them, by their shares."""
    shares = np.array([recipe.share for recipe in RECIPES])
    return RECIPES[int(rng.choice(len(RECIPES), p=shares / shares.sum()))]


# --- colours

_TO_YUV = np.array(
    [
        [65.481, 128.553, 24.966],
        [-37.797, -74.203, 112.0],
        [112.0, -93.786, -18.214],
    ],
    np.float32,
) / np.float32(255)
_OFFSET = np.array([16, 128, 128], np.float32)
_TO_RGB = np.linalg.inv(_TO_YUV).astype(np.float32)


def _to_yuv420(frame: np.ndarray) -> np.ndarray:
    """uint8 [h, w, 3] -> the planes under each other, [h*3/2, w], chroma sited in the centre."""
    h, w = frame.shape[:2]
    yuv = frame.astype(np.float32) @ _TO_YUV.T + _OFFSET
    chroma = yuv[..., 1:].reshape(h // 2, 2, w // 2, 2, 2).mean(axis=(1, 3))
    parts = [yuv[..., 0].ravel(), chroma[..., 0].ravel(), chroma[..., 1].ravel()]
    rounded = np.clip(np.concatenate(parts) + 0.5, 0, 255).astype(np.uint8)
    return rounded.reshape(h * 3 // 2, w)


def _to_rgb(planes: np.ndarray, h: int, w: int) -> np.ndarray:
    flat = planes.astype(np.float32).ravel()
    small = torch.from_numpy(flat[h * w :].reshape(1, 2, h // 2, w // 2))
    chroma = F.interpolate(small, size=(h, w), mode="bilinear", align_corners=False)[0].numpy()
    yuv = np.stack([flat[: h * w].reshape(h, w), chroma[0], chroma[1]], axis=-1) - _OFFSET
    rgb = yuv @ _TO_RGB.T
    return np.asarray(np.clip(rgb + 0.5, 0, 255).astype(np.uint8))
