"""Turn pictures into pairs of small, damaged sources and their targets."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from tools.training.damage import Coding, Frames, Recipe, Rng, coded, drawn_recipe

Pictures = np.ndarray
"""uint8 [n, h, w, 3]."""
Windows = np.ndarray
"""uint8 [n, T, h, w, 3]: a frame alone (T = 1), or with the frames before and after it (T = 3)."""

FRAMES = 5
"""Length of the moving sequences that are compressed."""
SOURCE = 128
"""Side of the reduced pictures, px: large enough for networks that see 18 px to each side."""
WINDOW = 112
"""Side of the moving part of a picture after reduction, px; a multiple of 16."""
_COLUMNS, _ROWS = 6, 4
_KERNELS = (Image.Resampling.LANCZOS, Image.Resampling.BOX, Image.Resampling.BILINEAR)
_STILL, _ZOOMED = 0.25, 0.2  # shares of the sequences
_MOST_ZOOM, _MOST_TURN = 0.02, 0.015  # a frame: share of the size, rad
_MOST_BLURRED = 4  # positions that are averaged: an open shutter
_CUT_SHARE = 0.06  # of the sequences, with another picture before or after
_JPEG_SHARE = 0.08  # of the groups: single pictures
_PASSES = 3  # of all pictures, each moved and damaged in another way


def damaged_pairs(pictures: Pictures, *, scale: int, seed: int) -> tuple[Windows, Pictures]:
    """Moving, reduced, damaged and encoded sources, and their targets.

    Args:
        pictures: uint8 [n, h, w, 3]; h and w above scale*WINDOW.
        scale: Reduction, 2 or 4.
        seed: Seed of the damage.

    Returns:
        Sources [3*n, 3, WINDOW, WINDOW, 3] and the targets of their middle frames.
    """
    rng = np.random.default_rng([seed, 11])
    group = _COLUMNS * _ROWS
    pairs = [
        _damaged_group(rng, pictures[order[start : start + group]], scale)
        for order in (rng.permutation(len(pictures)) for _ in range(_PASSES))
        for start in range(0, len(pictures), group)
    ]
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def reduced(
    picture: np.ndarray, scale: int, kernel: Image.Resampling = Image.Resampling.BICUBIC
) -> np.ndarray:
    """Pillow's reduction of uint8 [h, w, 3], bicubic unless requested."""
    size = (picture.shape[1] // scale, picture.shape[0] // scale)
    return np.asarray(Image.fromarray(picture).resize(size, kernel))


def _damaged_group(rng: Rng, pictures: Pictures, scale: int) -> tuple[Windows, Pictures]:
    """Up to 24 pictures through one recipe, side by side; one window of each is kept."""
    moving = [_moving(rng, picture, WINDOW * scale) for picture in pictures]
    _cut(rng, moving)
    recipe = drawn_recipe(rng)
    small = np.stack([_small_sequence(rng, frames, scale, recipe) for frames in moving])
    if rng.random() < _JPEG_SHARE:
        result = np.stack([_jpeg_frames(rng, sequence) for sequence in small])
    else:
        result = _encoded(small, recipe.codings(rng))
    middles = rng.integers(1, FRAMES - 1, len(pictures))
    sources = [result[i, m - 1 : m + 2] for i, m in enumerate(middles)]
    return np.stack(sources), np.stack([moving[i][m] for i, m in enumerate(middles)])


# --- motion


def _moving(rng: Rng, picture: np.ndarray, side: int) -> Frames:
    """A window over the picture that stands, glides or zooms: [FRAMES, side, side, 3]."""
    kind = rng.random()
    if kind < _STILL:
        y, x = (int(v) for v in rng.integers(0, picture.shape[0] - side + 1, 2))
        return np.repeat(picture[None, y : y + side, x : x + side], FRAMES, axis=0)
    if kind < _STILL + _ZOOMED:
        return _zooming(rng, picture, side)
    return _gliding(rng, picture, side)


def _gliding(rng: Rng, picture: np.ndarray, side: int) -> Frames:
    """Whole px a frame, so that no interpolation softens the targets; sometimes an open shutter."""
    room = picture.shape[0] - side
    most = room // FRAMES
    velocity = rng.integers(-most, most + 1, 2)
    start = np.where(velocity < 0, room, 0)
    shutter = int(rng.integers(1, _MOST_BLURRED + 1)) if rng.random() < 0.3 else 1
    frames = []
    for t in range(FRAMES):
        times = t + np.arange(shutter) / (2 * shutter)
        corners = [
            np.clip(np.round(start + velocity * time), 0, room).astype(int) for time in times
        ]
        cuts = [picture[y : y + side, x : x + side].astype(np.float32) for y, x in corners]
        frames.append(np.mean(cuts, axis=0) + 0.5)
    return np.stack(frames).astype(np.uint8)


def _zooming(rng: Rng, picture: np.ndarray, side: int) -> Frames:
    """Slowly nearer or farther, and turned a little."""
    zoom = rng.uniform(-_MOST_ZOOM, _MOST_ZOOM)
    turn = rng.uniform(-_MOST_TURN, _MOST_TURN)
    drift = rng.uniform(-2, 2, 2)
    centre = picture.shape[0] / 2
    image = Image.fromarray(picture)
    frames = []
    for t in range(FRAMES):
        size, angle = 1 + zoom * (t - FRAMES // 2), turn * (t - FRAMES // 2)
        a, b = size * np.cos(angle), size * np.sin(angle)
        x, y = centre + drift * (t - FRAMES // 2)
        half = side / 2
        affine = (a, b, x - (a + b) * half, -b, a, y - (a - b) * half)
        cut = image.transform(
            (side, side), Image.Transform.AFFINE, affine, Image.Resampling.BICUBIC
        )
        frames.append(np.asarray(cut))
    return np.stack(frames)


def _cut(rng: Rng, sequences: list[Frames]) -> None:
    """Some sequences begin or end with another picture."""
    for index in range(1, len(sequences)):
        if rng.random() < _CUT_SHARE:
            place = int(rng.integers(1, FRAMES))
            before, after = sequences[index - 1].copy(), sequences[index]
            sequences[index] = np.concatenate([before[:place], after[place:]])


# --- damage


def _small_sequence(rng: Rng, frames: Frames, scale: int, recipe: Recipe) -> Frames:
    """Reduce, sometimes with another kernel, and do what the recipe does before encoding."""
    kernel = Image.Resampling.BICUBIC
    if rng.random() < 0.25:
        kernel = _KERNELS[int(rng.integers(len(_KERNELS)))]
    small = np.stack([reduced(frame, scale, kernel) for frame in frames]).astype(np.float32)
    return (np.clip(recipe.before(rng, small), 0, 255) + 0.5).astype(np.uint8)


def _jpeg_frames(rng: Rng, frames: Frames) -> Frames:
    quality, subsampling = int(rng.integers(30, 95)), int(rng.choice([0, 2]))
    out = []
    for frame in frames:
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "jpeg", quality=quality, subsampling=subsampling)
        out.append(np.asarray(Image.open(file)))
    return np.stack(out)


def _encoded(sequences: np.ndarray, codings: list[Coding]) -> np.ndarray:
    """[n, FRAMES, h, w, 3] through encoders as one mosaic; n <= 24."""
    n, _, h, w, _ = sequences.shape
    mosaic = np.zeros((FRAMES, _ROWS * h, _COLUMNS * w, 3), np.uint8)
    places = [divmod(i, _COLUMNS) for i in range(n)]
    for (row, column), sequence in zip(places, sequences, strict=True):
        mosaic[:, row * h : (row + 1) * h, column * w : (column + 1) * w] = sequence
    for coding in codings:
        mosaic = coded(mosaic, coding)
    return np.stack([mosaic[:, r * h : (r + 1) * h, c * w : (c + 1) * w] for r, c in places])
