"""Twice the height and width in the fast form: nearest neighbours and a 3x3 convolution."""

from __future__ import annotations

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from engine.models.fast.flow import Flow
from engine.ops.frame_conv import FrameConv


class Enlarger(Protocol):
    """A way to do it."""

    @property
    def channels(self) -> int:
        """Of the result."""
        ...

    def write(self, frames: Tensor, out: Tensor, flow: Flow) -> None:
        """Enlarge frames [T, C, h, w] into `out` [T, channels, 2h, 2w], any frames of a result."""
        ...


class SteppedEnlarger:
    """As the specification has it: every pixel four times, then the convolution.

    Args:
        conv: 3x3, one frame at a time.
        channels: Of its result.

    Memory: four times the source and the result; with chunked upsampling those of one frame.
    """

    def __init__(self, conv: FrameConv, channels: int) -> None:
        self._conv = conv
        self.channels = channels

    def write(self, frames: Tensor, out: Tensor, flow: Flow) -> None:
        """Enlarge frames into `out`."""
        each = 1 if flow.switches.chunked_upsampling else len(frames)
        for some, place in zip(frames.split(each), out.split(each), strict=True):
            place.copy_(self._conv.run(F.interpolate(some, scale_factor=2.0, mode="nearest")))
