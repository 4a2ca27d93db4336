"""Channels into pixels and frames."""

from __future__ import annotations

from torch import Tensor


def depth_to_space(frames: Tensor, *, time: int, space: int = 2) -> Tensor:
    """Turn groups of channels into neighbouring pixels and frames.

    Channel `((sy * space + sx) * time + st) * C + c` of [B, space**2 * time * C, T, h, w] goes to
    channel c of pixel (space*y + sy, space*x + sx) in frame time*t + st.

    Returns:
        [B, C, time*T, space*h, space*w], a contiguous copy.
    """
    batch, channels, length, height, width = frames.shape
    deep = channels // (space * space * time)
    split = frames.reshape(batch, space, space, time, deep, length, height, width)
    woven = split.permute(0, 4, 5, 3, 6, 1, 7, 2)  # B C T st h sy w sx
    return woven.reshape(batch, deep, length * time, height * space, width * space)
