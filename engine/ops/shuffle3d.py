"""Channels into pixels and frames."""

from __future__ import annotations

from torch import Tensor


def depth_to_space(frames: Tensor, *, time: int, space: int = 2) -> Tensor:
    """Turn groups of channels into neighbouring pixels and frames.

    Channel `((sy * space + sx) * time + st) * C + c` of [B, space**2 * time * C, T, h, w] goes to
    channel c of pixel (space*y + sy, space*x + sx) in frame time*t + st.

    Returns:
        [B, C, time*T, space*h, space*w], a copy in channels-last order, which is also the fast
        one for the source: runs of C numbers move together.
    """
    batch, channels, length, height, width = frames.shape
    deep = channels // (space * space * time)
    last = frames.permute(0, 2, 3, 4, 1)
    split = last.reshape(batch, length, height, width, space, space, time, deep)
    woven = split.permute(0, 1, 6, 2, 4, 3, 5, 7)  # B T st h sy w sx C
    shape = (batch, length * time, height * space, width * space, deep)
    return woven.reshape(shape).permute(0, 4, 1, 2, 3)
