"""Frames of a clip as single pictures and back, for what looks at one frame at a time."""

from __future__ import annotations

from torch import Tensor


def folded(frames: Tensor) -> Tensor:
    """[B, C, T, H, W] -> [B*T, C, H, W], a view if B is 1."""
    return frames.transpose(1, 2).flatten(0, 1)


def unfolded(frames: Tensor, batch: int) -> Tensor:
    """[B*T, C, H, W] -> [B, C, T, H, W], always a view."""
    return frames.view(batch, -1, *frames.shape[1:]).transpose(1, 2)
