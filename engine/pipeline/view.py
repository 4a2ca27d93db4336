"""Pictures for people: turned and stretched as the film is seen, 8-bit RGB."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from engine.events import Picture
from engine.geometry import Box, Size
from engine.ops.resize import resize, thumbnail


def turn(frame: Tensor, rotation: int, mirrored: bool) -> Tensor:
    """[..., H, W] turned clockwise by 0, 90, 180 or 270 degrees, mirrored before if asked."""
    if mirrored:
        frame = frame.flip(-1)
    return torch.rot90(frame, -(rotation // 90), (-2, -1)) if rotation else frame


def turn_box(box: Box, canvas: Size, rotation: int, mirrored: bool) -> Box:
    """Where a box of a canvas lies after `turn`."""
    x = canvas.width - box.right if mirrored else box.x
    if rotation == 90:
        return Box(canvas.height - box.bottom, x, box.height, box.width)
    if rotation == 180:
        return Box(canvas.width - x - box.width, canvas.height - box.bottom, box.width, box.height)
    if rotation == 270:
        return Box(box.y, canvas.width - x - box.width, box.height, box.width)
    return Box(x, box.y, box.width, box.height)


def picture_of(frame: Tensor, longest_side: int) -> Picture:
    """A frame [C, H, W] float32, 0 to 1, as a small picture."""
    small = thumbnail(frame, longest_side)
    return Picture(size=Size(small.shape[1], small.shape[0]), rgb=small.cpu().numpy().tobytes())


def seen(
    frame: Tensor, *, rotation: int, mirrored: bool, aspect: Fraction, longest_side: int
) -> Picture:
    """A frame as stored to the picture as seen: square pixels, upright, at most so large."""
    _, height, width = frame.shape
    if aspect != 1:
        wide = Size(max(1, round(width * aspect)), height)
        frame = resize(frame[None], wide)[0]
    return picture_of(turn(frame, rotation, mirrored), longest_side)
