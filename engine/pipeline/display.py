"""Pictures for people: turned and stretched as the film is seen, 8-bit RGB."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.ops.resize import resize, thumbnail
from engine.protocol.events import Picture


def turn(frame: Tensor, rotation: int, mirrored: bool) -> Tensor:
    """[..., H, W] turned clockwise by 0, 90, 180 or 270 degrees, then left and right exchanged."""
    if rotation:
        frame = torch.rot90(frame, -(rotation // 90), (-2, -1))
    return frame.flip(-1) if mirrored else frame


def turn_box(box: Box, canvas: Size, rotation: int, mirrored: bool) -> Box:
    """Where a box of a canvas lies after `turn`."""
    if rotation == 90:
        turned = Box(canvas.height - box.bottom, box.x, box.height, box.width)
    elif rotation == 180:
        turned = Box(canvas.width - box.right, canvas.height - box.bottom, box.width, box.height)
    elif rotation == 270:
        turned = Box(box.y, canvas.width - box.right, box.height, box.width)
    else:
        turned = box
    if not mirrored:
        return turned
    width = canvas.height if rotation in (90, 270) else canvas.width
    return Box(width - turned.right, turned.y, turned.width, turned.height)


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
