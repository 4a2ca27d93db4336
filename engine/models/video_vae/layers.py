"""Parts that the fast variants of all families have.

Everything works on the frames [T, C, H, W] of one clip, channels last, without gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.causal_layers import AnyCausalConv
from engine.models.video_vae.slice_context import Norm, SliceContext
from engine.ops.attention.single_head import attend_single_head
from engine.ops.conv.frame_conv import FrameConv
from engine.ops.conv.subpixel import NearestFold
from engine.ops.kernels.group_norm import BlockStatistics

AddResidual = Callable[[Tensor, Tensor, Tensor], BlockStatistics | None]
_PLACES = tuple((row, column) for row in range(2) for column in range(2))


class ConvLayer:
    """A convolution that belongs to no block, or is all of one."""

    def __init__(self, name: str, conv: AnyCausalConv) -> None:
        self.name = name
        self._conv = conv

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        found = self._conv.of(context.take(), context)
        context.put(found.frames, self.name, found.statistics)


class OutputLayer:
    """Norm, SiLU and the last convolution."""

    def __init__(self, norm: Norm, conv: AnyCausalConv) -> None:
        self.name = conv.name
        self._norm, self._conv = norm, conv

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        window = self._conv.normed(self._norm, context.take_for_norm(), context)
        context.put(self._conv.over(window).frames, self.name)


class Mark:
    """Passes the stream to the observer under the name of several parts together."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, context: SliceContext) -> None:
        """Show the stream as it is."""
        given = context.take_for_norm()
        context.put(given.frames, self.name, given.statistics)


class ResidualLayer:
    """Norm, SiLU and convolution twice, added to the stream.

    Args:
        name: Module path.
        norms: Before the convolutions.
        convs: The second one without its bias where `add` is given.
        shortcut: Widens the stream; None: it is as wide as the result.
        add: Adds a change and a bias to the stream in place, and gives statistics of the sum.

    Memory: the input window, and the frames between the convolutions or the widened stream.
    """

    def __init__(
        self,
        name: str,
        norms: tuple[Norm, Norm],
        convs: tuple[AnyCausalConv, AnyCausalConv],
        shortcut: AnyCausalConv | None,
        add: AddResidual | None = None,
    ) -> None:
        self.name = name
        self._norms, self._convs = norms, convs
        self._shortcut, self._add = shortcut, add

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        given = context.take_for_norm()
        first, second = self._convs
        inner = first.over(first.normed(self._norms[0], given, context))
        window = second.normed(self._norms[1], inner, context)
        stream = given.frames
        del inner, given
        if self._shortcut is not None:
            stream = self._shortcut.of(stream, context).frames
        if self._add is not None and second.bias is not None:
            statistics = self._add(stream, second.over(window).frames, second.bias)
            context.put(stream, self.name, statistics)
        elif context.switches.in_place:
            found = second.over(window, stream)
            context.put(found.frames, self.name, found.statistics)
        else:
            context.put(stream + second.over(window).frames, self.name)


class AttentionLayer:
    """Self-attention over the positions of each frame, one head, added to the stream.

    Args:
        name: Module path.
        norm: Before the projections.
        qkv: Weight [3*C, C] and bias [3*C] of the three projections.
        out: Weight and bias of the output projection.
    """

    def __init__(
        self,
        name: str,
        norm: Norm,
        qkv: tuple[Tensor, Tensor],
        out: tuple[Tensor, Tensor],
    ) -> None:
        self.name = name
        self._norm, self._qkv, self._out = norm, qkv, out

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        given = context.take_for_norm()
        stream = given.frames
        count, channels, height, width = stream.shape
        normed = context.workspace.frames("window", (count, channels, height, width))
        self._norm.write(given, normed, context, silu=False)
        q, k, v = F.linear(_tokens(normed), *self._qkv).chunk(3, dim=-1)
        switches = context.switches
        found = attend_single_head(
            q, k, v, chunked=switches.chunked_attention, kernels=switches.kernels
        )
        change = F.linear(found, *self._out).transpose(1, 2).reshape(stream.shape)
        context.put(
            stream.add_(change) if context.switches.in_place else stream + change, self.name
        )


def _tokens(frames: Tensor) -> Tensor:
    """[T, C, H, W] as [T, H*W, C]; a view of channels-last frames."""
    return frames.permute(0, 2, 3, 1).flatten(1, 2)


class PatchLayer:
    """Squares of 2x2 pixels side by side as channels, those of a colour next to each other.

    Args:
        columns_first: Whether the offset of the column is the slower index, as in Wan 2.2.
    """

    name = "patches"

    def __init__(self, *, columns_first: bool) -> None:
        self._strides = (1, 2) if columns_first else (2, 1)

    def run(self, context: SliceContext) -> None:
        """[T, C, 2h, 2w] -> [T, 4C, h, w]."""
        frames = context.take()
        count, colours, height, width = frames.shape
        folded = context.workspace.fresh((count, 4 * colours, height // 2, width // 2))
        rows, columns = self._strides
        for row, column in _PLACES:
            folded[:, rows * row + columns * column :: 4] = frames[:, :, row::2, column::2]
        context.put(folded)


class Pictures:
    """The inverse of patches.

    Args:
        columns_first: See `PatchLayer`.
    """

    name = "pictures"

    def __init__(self, *, columns_first: bool) -> None:
        self._strides = (1, 2) if columns_first else (2, 1)

    def run(self, context: SliceContext) -> None:
        """[T, 4C, h, w] -> [T, C, 2h, 2w]."""
        folded = context.take()
        count, channels, height, width = folded.shape
        frames = context.workspace.fresh((count, channels // 4, 2 * height, 2 * width))
        rows, columns = self._strides
        for row, column in _PLACES:
            frames[:, :, row::2, column::2] = folded[:, rows * row + columns * column :: 4]
        context.put(frames)


class SteppedEnlarger:
    """Enlargement of the specification: every pixel four times, then the convolution.

    Args:
        conv: 3x3, of single frames.
        channels: Channels of its result.

    Memory: four times the source and the result; where it is chunked those of one frame.
    """

    reads_views = False

    def __init__(self, conv: FrameConv, channels: int) -> None:
        self._conv = conv
        self.channels = channels

    def write(self, frames: Tensor, out: Tensor, *, chunked: bool = True) -> None:
        """Enlarge frames; see `NearestFold.write`."""
        step = 1 if chunked else len(frames)
        for start in range(0, len(frames), step):
            part = slice(start, start + step)
            large = F.interpolate(frames[part], scale_factor=2.0, mode="nearest")
            out[part] = self._conv.run(large)


Enlarger = NearestFold | SteppedEnlarger
