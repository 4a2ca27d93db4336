"""The autoencoder of SwiftVR, fast variant: equals the plain one but for rounding.

docs/vae-folds.md derives what is folded. A memory block's first convolution, over a frame and the
one before it side by side, is a causal convolution of two taps. Linear layers that follow each
other without a bias are one: a time pool and the strided convolution after it, and what makes one
frame two, doubles its pixels and convolves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from engine.models.swiftvr.vae.config import ReaeConfig
from engine.models.swiftvr.vae.plain import (
    DROPPED,
    LARGEST,
    Enlarge,
    FrameConv2d,
    MemoryBlock,
    Reae,
    Relu,
    SoftClamp,
    TimeGrow,
    TimePool,
)
from engine.models.video_vae.builder import Builder, Layer, Table, single_conv
from engine.models.video_vae.causal_layers import AnyCausalConv
from engine.models.video_vae.layers import ConvLayer, Enlarger, PatchLayer, Pictures
from engine.models.video_vae.runner import FastSlicedVae, Parts
from engine.models.video_vae.slice_context import Part, SliceContext
from engine.ops.conv.causal_conv import ConvShape


class FastRelu:
    """Values below zero become zero, in place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        context.put(context.take().relu_(), self.name)


class FastSoftClamp:
    """3 * tanh(x / 3), in new memory: what a caller gave is not changed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        context.put((context.take() / LARGEST).tanh_().mul_(LARGEST), self.name)


class MemoryLayer:
    """Three convolutions with ReLU, added to the stream, and ReLU again.

    Args:
        name: Module path.
        convs: The first of two taps over time, the others of single frames.

    Memory: the frames between two convolutions, and the input window of the first.
    """

    def __init__(self, name: str, convs: Sequence[AnyCausalConv]) -> None:
        self.name = name
        self._convs = convs

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        stream = context.take()
        first, second, third = self._convs
        hidden = first.of(stream, context).frames.relu_()
        hidden = second.of(hidden, context).frames.relu_()
        if context.switches.in_place:
            stream = third.of(hidden, context, stream).frames
        else:
            stream = stream + third.of(hidden, context).frames
        context.put(stream.relu_(), self.name)


class EnlargingLayer:
    """Twice the height and width; each frame becomes as many as there are enlargers.

    Args:
        name: Module path of the convolution.
        spaces: Each makes one of the frames, in order.

    Memory: the result; while it is made see `NearestFold.write`.
    """

    def __init__(self, name: str, spaces: Sequence[Enlarger]) -> None:
        self.name = name
        self._spaces = spaces

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        source = context.take()
        count, _, height, width = source.shape
        each, channels = len(self._spaces), self._spaces[0].channels
        result = context.workspace.fresh((each * count, channels, 2 * height, 2 * width))
        for place, space in enumerate(self._spaces):
            chunked = context.switches.chunked_upsampling
            space.write(source, result[place::each], chunked=chunked)
        context.put(result, self.name)


class LateLayer:
    """Drops the frames that are decoded before the first one of a clip."""

    name = "late"

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        frames = context.take()
        context.put(frames[DROPPED:] if context.carry.first else frames)


def _memory_block(build: Builder, plain: MemoryBlock) -> list[Part]:
    """A memory block."""
    first, _, second, _, third = plain.conv
    frame, before = build.exact(first, "weight").chunk(2, dim=1)
    taps = torch.stack([before, frame], dim=2), ConvShape(past="zeros")
    convs = [build.conv(first, layer=taps), build.conv(second), build.conv(third)]
    return [MemoryLayer(build.name(plain), convs)]


def _resampler(build: Builder, before: Sequence[nn.Module], conv: FrameConv2d) -> Part:
    """A convolution with the resamplers before it: a time pool, or growth and doubled pixels."""
    name, weight = build.name(conv), build.exact(conv, "weight")
    if isinstance(before[0], TimePool):
        return ConvLayer(name, build.conv(conv, layer=_pooled(build, before[0], conv, weight)))
    grow = cast(TimeGrow, before[1])
    taps = grow.taps(build.exact(grow.proj if grow.step == 1 else grow.conv3d, "weight"))
    return EnlargingLayer(name, [build.enlarger(conv, _after(weight, tap)) for tap in taps])


def _pooled(build: Builder, pool: TimePool, conv: FrameConv2d, weight: Tensor) -> Layer:
    """A time pool and a strided convolution as one over time and space, which sees no past."""
    taps = build.exact(pool.conv, "weight").flatten(1).chunk(pool.step, dim=1)
    stride = int(conv.stride[0])
    shape = ConvShape(time_stride=pool.step, space_stride=stride, past="none")
    return torch.stack([_after(weight, tap) for tap in taps], dim=2), shape


def _after(weight: Tensor, matrix: Tensor) -> Tensor:
    """Kernel [O, I, kh, kw] of a convolution [O, M, kh, kw] after a 1x1 one, a matrix [M, I]."""
    return torch.einsum("omhw,mi->oihw", weight, matrix)


class FastReae(FastSlicedVae[Reae, ReaeConfig]):
    """Encoder and decoder with folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Arguments: see `FastSlicedVae`.

    Attributes:
        trace: Called with the module path and a copy of the result of each layer, [1, C, T, H, W],
            of the first clip of a batch; resamplers have the name of their convolution.
    """

    plain_type = Reae
    first_frames = Reae.first_frames
    has_variance = Reae.has_variance
    table: ClassVar[Table] = {
        FrameConv2d: single_conv,
        MemoryBlock: _memory_block,
        Relu: lambda build, plain: [FastRelu(build.name(plain))],
        SoftClamp: lambda build, plain: [FastSoftClamp(build.name(plain))],
    }

    def build_parts(self, build: Builder, plain: Reae) -> Parts:
        """The parts of encoder and decoder."""
        encode, decode = (list(_parts(build, half)) for half in (plain.encoder, plain.decoder))
        folded, unfolded = (kind(columns_first=False) for kind in (PatchLayer, Pictures))
        return {"encode": [folded, *encode], "decode": [*decode, LateLayer(), unfolded]}


def _parts(build: Builder, layers: Iterable[nn.Module]) -> Iterable[Part]:
    """Parts of layers in this order; resamplers wait for the convolution that includes them."""
    waiting: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, TimePool | TimeGrow | Enlarge):
            waiting.append(layer)
        elif waiting:
            yield _resampler(build, waiting, cast(FrameConv2d, layer))
            waiting = []
        else:
            yield from build.parts(layer)
