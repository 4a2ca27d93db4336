"""Up and down between the stages of the fast variant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.causal_conv import CausalConv
from engine.models.video_vae.context import SliceContext
from engine.ops.conv.frame_conv import FrameConv
from engine.ops.conv.temporal_conv import memory_format


class FastWanDownsampler:
    """Half the height and width, and then, on request, of 1 + 2n frames the n + 1.

    A clip's frame 0 stays as it is; each later one is made of two frames and the one before.

    Args:
        name: Module path.
        space: 3x3 with stride 2, zeros to the right and below.
        time: Three taps with stride 2, nothing before a clip; None leaves time alone.
    """

    def __init__(self, name: str, space: CausalConv, time: CausalConv | None) -> None:
        self.name = name
        self._space, self._time = space, time

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        frames = self._space.of(context.take(), context)
        if self._time is not None:
            later = self._time.of(frames, context)
            frames = torch.cat([frames[:1], later]) if context.carry.first else later
        context.put(frames, self.name)


class Enlarger(Protocol):
    """Nearest neighbours and a 3x3 convolution: in steps, or `upsample_conv.NearestFold`."""

    channels: int  # channels of the result

    def write(self, frames: Tensor, out: Tensor, *, chunked: bool = True) -> None:
        """Enlarge frames [T, C, h, w] into `out` [T, channels, 2h, 2w], of any strides."""
        ...


class SteppedEnlarger:
    """Enlargement of the specification: every pixel four times, then the convolution.

    Args:
        conv: 3x3, of single frames.
        channels: Channels of its result.

    Memory: four times the source and the result; where it is chunked those of one frame.
    """

    def __init__(self, conv: FrameConv, channels: int) -> None:
        self._conv = conv
        self.channels = channels

    def write(self, frames: Tensor, out: Tensor, *, chunked: bool = True) -> None:
        """Enlarge frames; see `Enlarger`."""
        step = 1 if chunked else len(frames)
        for start in range(0, len(frames), step):
            part = slice(start, start + step)
            large = F.interpolate(frames[part], scale_factor=2.0, mode="nearest")
            out[part] = self._conv.run(large)


class FastWanUpsampler:
    """On request, of n + 1 frames the 1 + 2n, and then twice the height and width.

    A clip's frame 0 stays as it is; those after it are a clip of their own, with zeros before it.

    Args:
        name: Module path.
        time: Three taps, to the channels of the earlier and of the later frame; None leaves time
            alone. It is `late`: frame 0 never comes there.
        space: Nearest neighbours and 3x3.

    Memory: the result, and what time makes of the source.
    """

    def __init__(self, name: str, time: CausalConv | None, space: Enlarger) -> None:
        self.name = name
        self._time, self._space = time, space

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        source = context.take()
        count, _, height, width = source.shape
        if self._time is not None:
            count = 2 * count - (1 if context.carry.first else 0)
        result = context.workspace.fresh((count, self._space.channels, 2 * height, 2 * width))
        chunked = context.switches.chunked_upsampling
        for frames, places in self._frames(source, context):
            self._space.write(frames, result[places], chunked=chunked)
        context.put(result, self.name)

    def _frames(self, source: Tensor, context: SliceContext) -> Iterator[tuple[Tensor, slice]]:
        """Frames that are enlarged, and the places of the result that they go to."""
        if self._time is None:
            yield source, slice(None)
            return
        head = 1 if context.carry.first else 0
        if head:
            yield source[:1], slice(0, 1)
        if len(source) == head:
            return
        both = self._time.of(source[head:], context)
        for half, frames in enumerate(both.chunk(2, dim=1)):
            yield frames.contiguous(memory_format=memory_format(both)), slice(head + half, None, 2)
