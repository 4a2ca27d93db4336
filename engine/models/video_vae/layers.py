"""Parts that the fast variants of all families have: blocks, attention, convolutions of their own.

Everything works on the frames [T, C, H, W] of one clip, channels last, without gradients.
"""

from __future__ import annotations

from typing import Generic

import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.causal_conv import CausalConv
from engine.models.video_vae.context import AnyFlow, Norm, SliceContext
from engine.ops.attention.single_head import attend_single_head


class ConvLayer:
    """A convolution at the start, or one of its own."""

    def __init__(self, conv: CausalConv) -> None:
        self.name = conv.name
        self._conv = conv

    def run(self, flow: SliceContext) -> None:
        """Work on the stream."""
        flow.put(self._conv.of(flow.take(), flow), self.name)


class OutputLayer(Generic[AnyFlow]):
    """Norm, SiLU and the last convolution."""

    def __init__(self, norm: Norm[AnyFlow], conv: CausalConv) -> None:
        self.name = conv.name
        self._norm, self._conv = norm, conv

    def run(self, flow: AnyFlow) -> None:
        """Work on the stream."""
        window = self._conv.normed(self._norm, flow.take(), flow)
        flow.put(self._conv.over(window), self.name)


class Mark:
    """The end of several parts that an observer knows under one name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, flow: SliceContext) -> None:
        """Show the stream as it is."""
        flow.put(flow.take(), self.name)


class ResidualLayer(Generic[AnyFlow]):
    """Norm, SiLU and convolution twice, added to the stream.

    Memory: the window, and the frames between the convolutions or the stream of new width.
    """

    def __init__(
        self,
        name: str,
        norms: tuple[Norm[AnyFlow], Norm[AnyFlow]],
        convs: tuple[CausalConv, CausalConv],
        shortcut: CausalConv | None,
    ) -> None:
        self.name = name
        self._norms, self._convs = norms, convs
        self._shortcut = shortcut

    def run(self, flow: AnyFlow) -> None:
        """Work on the stream."""
        stream = flow.take()
        first, second = self._convs
        inner = first.over(first.normed(self._norms[0], stream, flow))
        window = second.normed(self._norms[1], inner, flow)
        del inner
        if self._shortcut is not None:
            stream = self._shortcut.of(stream, flow)
        if flow.switches.in_place:
            flow.put(second.over(window, stream), self.name)
        else:
            flow.put(stream + second.over(window), self.name)


class AttentionLayer(Generic[AnyFlow]):
    """Self-attention over the positions of each frame, one head, added to the stream.

    Args:
        name: Module path.
        norm: Before the projections.
        qkv: Weight [3*C, C] and bias [3*C] of the three projections.
        out: Weight and bias of the last one.
    """

    def __init__(
        self,
        name: str,
        norm: Norm[AnyFlow],
        qkv: tuple[Tensor, Tensor],
        out: tuple[Tensor, Tensor],
    ) -> None:
        self.name = name
        self._norm, self._qkv, self._out = norm, qkv, out

    def run(self, flow: AnyFlow) -> None:
        """Work on the stream."""
        stream = flow.take()
        count, channels, height, width = stream.shape
        normed = flow.workspace.frames("window", (count, channels, height, width))
        self._norm.write(stream, normed, flow, silu=False)
        q, k, v = F.linear(_tokens(normed), *self._qkv).chunk(3, dim=-1)
        found = attend_single_head(q, k, v, chunked=flow.switches.chunked_attention)
        change = F.linear(found, *self._out).transpose(1, 2).reshape(stream.shape)
        flow.put(stream.add_(change) if flow.switches.in_place else stream + change, self.name)


def _tokens(frames: Tensor) -> Tensor:
    """[T, C, H, W] as [T, H*W, C]; a view of channels-last frames."""
    return frames.permute(0, 2, 3, 1).flatten(1, 2)
