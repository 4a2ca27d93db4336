"""Turn pictures into pairs of a small, possibly damaged source and its target."""

from __future__ import annotations

import io
from fractions import Fraction

import av
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter

Pictures = np.ndarray
"""uint8 [n, h, w, 3]."""
Rng = np.random.Generator

FRAMES = 5
"""Length of the moving sequences that are compressed."""
WINDOW = 224
"""Side of the moving part of a picture, in target px; a multiple of 16 after halving."""
_COLUMNS, _ROWS = 6, 4
_KERNELS = (Image.Resampling.LANCZOS, Image.Resampling.BOX, Image.Resampling.BILINEAR)


def make_pairs(
    pictures: Pictures, *, scale: int, form: str, seed: int
) -> tuple[Pictures, Pictures]:
    """Sources and targets of one form.

    Args:
        pictures: uint8 [n, h, w, 3]; h and w >= WINDOW for the restore form.
        scale: Reduction, 2 or 4.
        form: "faithful" (reduced, nothing else) or "restore" (reduced, damaged, compressed).
        seed: Seed of the damage.

    Returns:
        Sources uint8 [n, h/scale, w/scale, 3] and their targets.
    """
    if form == "faithful":
        return np.stack([reduced(picture, scale) for picture in pictures]), pictures
    rng = np.random.default_rng([seed, 11])
    group = _COLUMNS * _ROWS
    pairs = [
        _damaged_group(rng, pictures[start : start + group], scale)
        for start in range(0, len(pictures), group)
    ]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def reduced(
    picture: np.ndarray, scale: int, kernel: Image.Resampling = Image.Resampling.BICUBIC
) -> np.ndarray:
    """Pillow's reduction of uint8 [h, w, 3], bicubic unless requested."""
    size = (picture.shape[1] // scale, picture.shape[0] // scale)
    return np.asarray(Image.fromarray(picture).resize(size, kernel))


def _damaged_group(rng: Rng, pictures: Pictures, scale: int) -> tuple[Pictures, Pictures]:
    """Up to 24 pictures through one encoder, side by side; one frame of each is kept."""
    moving = [_moving_windows(rng, picture) for picture in pictures]
    small = np.stack([_damaged_sequence(rng, windows, scale) for windows in moving])
    if rng.random() < 0.15:
        result = np.stack([_jpeg_frames(rng, sequence) for sequence in small])
    else:
        result = _through_h264(rng, small)
    chosen = rng.integers(0, FRAMES, len(pictures))
    rows = np.arange(len(pictures))
    return result[rows, chosen], np.stack([moving[i][chosen[i]] for i in rows])


def _moving_windows(rng: Rng, picture: np.ndarray) -> Pictures:
    """A window gliding over the picture: [FRAMES, WINDOW, WINDOW, 3]."""
    room = picture.shape[0] - WINDOW
    speed = room // (FRAMES - 1)
    velocity = rng.integers(-speed, speed + 1, 2) * (rng.random() < 0.8)
    start = np.where(velocity < 0, room, 0) + np.sign(velocity) * rng.integers(0, 2)
    start = np.clip(start, 0, room)
    corners = [np.clip(start + velocity * t, 0, room) for t in range(FRAMES)]
    return np.stack([picture[y : y + WINDOW, x : x + WINDOW] for y, x in corners])


def _damaged_sequence(rng: Rng, windows: Pictures, scale: int) -> Pictures:
    """Reduce, sometimes with another kernel, blur or noise: the same for all frames."""
    kernel = Image.Resampling.BICUBIC
    if rng.random() < 0.2:
        kernel = _KERNELS[int(rng.integers(len(_KERNELS)))]
    blur = rng.uniform(0.2, 0.7) if rng.random() < 0.1 else 0.0
    noise = rng.exponential(2.0) if rng.random() < 0.2 else 0.0
    frames = []
    for window in windows:
        small = Image.fromarray(reduced(window, scale, kernel))
        if blur:
            small = small.filter(ImageFilter.GaussianBlur(blur))
        grain = rng.standard_normal((small.height, small.width, 3), dtype=np.float32)
        noisy = np.asarray(small, dtype=np.float32) + grain * np.float32(noise)
        frames.append((np.clip(noisy, 0, 255) + 0.5).astype(np.uint8))
    return np.stack(frames)


def _jpeg_frames(rng: Rng, frames: Pictures) -> Pictures:
    quality, subsampling = int(rng.integers(30, 95)), int(rng.choice([0, 2]))
    out = []
    for frame in frames:
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "jpeg", quality=quality, subsampling=subsampling)
        out.append(np.asarray(Image.open(file)))
    return np.stack(out)


def _through_h264(rng: Rng, sequences: Pictures) -> Pictures:
    """[n, FRAMES, h, w, 3] through x264 as one mosaic; n <= 24."""
    n, _, h, w, _ = sequences.shape
    mosaic = np.zeros((FRAMES, _ROWS * h, _COLUMNS * w, 3), np.uint8)
    places = [divmod(i, _COLUMNS) for i in range(n)]
    for (row, column), sequence in zip(places, sequences, strict=True):
        mosaic[:, row * h : (row + 1) * h, column * w : (column + 1) * w] = sequence
    crf = float(np.clip(rng.normal(26, 4.5), 16, 38))
    preset = str(rng.choice(["veryfast", "fast", "medium"]))
    decoded = h264_round_trip(mosaic, crf=crf, preset=preset)
    return np.stack([decoded[:, r * h : (r + 1) * h, c * w : (c + 1) * w] for r, c in places])


def h264_round_trip(frames: Pictures, *, crf: float, preset: str = "medium") -> Pictures:
    """Frames [t, h, w, 3] after x264 in 4:2:0 and back; h and w even, BT.601 limited range.

    One encoder thread: the result does not depend on the machine. The colours are converted here
    in float and rounded once: the fast conversion of FFmpeg shifts them by up to one step, which
    a network would learn to undo.
    """
    h, w = frames.shape[1:3]
    file = io.BytesIO()
    with av.open(file, "w", format="matroska") as container:
        options = {"crf": f"{crf:.1f}", "preset": preset, "threads": "1"}
        stream = container.add_stream("libx264", rate=Fraction(25), options=options)
        stream.height, stream.width = h, w
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            planes = av.VideoFrame.from_ndarray(_to_yuv420(frame), format="yuv420p")
            container.mux(stream.encode(planes))
        container.mux(stream.encode(None))
    file.seek(0)
    with av.open(file, "r") as written:
        planes_back = [f.to_ndarray(format="yuv420p") for f in written.decode(video=0)]
    return np.stack([_to_rgb(planes, h, w) for planes in planes_back])


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
