"""Resizing in float32 with antialiasing: to the exact size after a model's own factor."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Size


def resize(frames: Tensor, size: Size) -> Tensor:
    """Bicubic (a = -0.5), antialiased when a side becomes smaller; half-pixel centres.

    Args:
        frames: [T, C, H, W] float32.
        size: Wanted size; the frames' own size returns them as they are.

    Returns:
        [T, C, size.height, size.width] float32; may overshoot the range of the input slightly.
    """
    if frames.shape[-2:] == (size.height, size.width):
        return frames
    return F.interpolate(
        frames, (size.height, size.width), mode="bicubic", antialias=True, align_corners=False
    )


def thumbnail(frame: Tensor, longest_side: int) -> Tensor:
    """A small picture for previews, 8 bit.

    Args:
        frame: [C, H, W] float32, 0 to 1; only the first three channels are used.
        longest_side: Most pixels on the longer side; never enlarged.

    Returns:
        [h, w, 3] uint8, contiguous.

    Memory: a copy in float32 of the picture.
    """
    height, width = frame.shape[-2:]
    small = Size(width, height).within(Size(longest_side, longest_side))
    step = max(1, min(height // small.height, width // small.width))
    picture = F.avg_pool2d(frame[None, :3], step) if step > 1 else frame[None, :3]
    if step > 1:
        small = Size(picture.shape[-1], picture.shape[-2]).within(Size(longest_side, longest_side))
    if picture.shape[-2:] != (small.height, small.width):
        picture = F.interpolate(
            picture, (small.height, small.width), mode="bilinear", antialias=True
        )
    return picture[0].mul(255).round_().clamp_(0, 255).byte().permute(1, 2, 0).contiguous()
