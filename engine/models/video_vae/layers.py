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
from engine.ops.kernels.group_norm import BlockStatistics

AddResidual = Callable[[Tensor, Tensor, Tensor], BlockStatistics | None]


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
