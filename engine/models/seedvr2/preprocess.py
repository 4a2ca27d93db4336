"""Frames to what the VAE takes, and back: size, padding, range; and joining clips by their frames.

Frames are [T, 3, H, W]: 0 to 1 outside of the model, -1 to 1 inside.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.plan import FrameLayout

_BLACK = -1.0  # in the range of the model


def place(frames: Tensor, layout: FrameLayout) -> Tensor:
    """Place pictures in the frames of the VAE.

    A picture smaller than its mirrored part is continued with its first row or column.

    Args:
        frames: [T, 3, H, W] of layout.picture, 0 to 1; what is outside of that is clipped.
        layout: Place in the frame.

    Returns:
        [T, 3, h, w] of layout.padded, in [-1, 1].

    Memory: the result, and one row or column of it for each that is mirrored.
    """
    height, width = frames.shape[-2:]
    if Size(width, height) != layout.picture:
        raise ValueError(f"frames of {width}x{height} px for a layout of {layout.picture}")
    padded = layout.padded
    shape = (*frames.shape[:-2], padded.height, padded.width)
    whole = frames.new_full(shape, _BLACK)
    torch.clamp(frames, 0, 1, out=whole[..., :height, :width]).mul_(2).sub_(1)
    for i in range(layout.reflected):
        whole[..., height + i, :width] = whole[..., max(0, height - 2 - i), :width]
    rows = height + layout.reflected
    for i in range(layout.reflected):
        whole[..., :rows, width + i] = whole[..., :rows, max(0, width - 2 - i)]
    return whole


def overlap_weights(frames: int) -> list[float]:
    """The share of the earlier clip in frames that two clips have in common: an even ramp.

    Every frame is mixed: 1 - i / (frames + 1) for the i-th, counted from 1.
    """
    return [1 - (i + 1) / (frames + 1) for i in range(frames)]


def join(earlier: Tensor, later: Tensor, weights: list[float]) -> Tensor:
    """Mix the frames that two clips have in common.

    Args:
        earlier: [K, ...], the last frames of the earlier clip.
        later: [K, ...], the first ones of the later clip.
        weights: Share of the earlier clip in each frame; 0 and 1 take a frame unchanged.
    """
    share = torch.tensor(weights, dtype=later.dtype, device=later.device)
    return torch.lerp(later, earlier, share.view(-1, *[1] * (later.ndim - 1)))
