"""Layers that only the fast variant of the Wan VAEs has: norm, resamplers, shortcuts.

Wan 2.2 has shortcuts around its stages, without weights of their own. A stage's input is averaged,
or repeated, to the shape of its result. The published description spreads it to a list of (channel,
time, row, column) and cuts that again; here the same pixels are added where they belong, without a
tensor in between that is larger than the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.causal_layers import AnyCausalConv
from engine.models.video_vae.layers import Enlarger
from engine.models.video_vae.slice_context import NormInput, Part, SliceContext, keep_last
from engine.models.wan.vae.config import Stage
from engine.ops.conv.temporal_conv import memory_format
from engine.ops.kernels.conv import Factors
from engine.ops.norm import compiled
from engine.ops.norm.rms_norm import factors_of, rms_norm_silu

_LEAST_LENGTH = 1e-12


class FastWanRmsNorm:
    """Divides each position by the length of its channels, with or without SiLU after it.

    Args:
        gamma: [C], float32 or float64 whatever the precision of the frames.
    """

    def __init__(self, gamma: Tensor) -> None:
        self._gamma = gamma

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames into `out`, a view of some buffer; see `Norm`.

        What torch cannot compile is done as without that switch.
        """
        frames, switches = given.finished(), context.switches
        if switches.compile and compiled.rms_norm_silu(frames, self._gamma, out, silu=silu):
            pass
        elif switches.fused_norm:
            rms_norm_silu(frames, self._gamma, out, silu=silu, kernels=switches.kernels)
        else:
            out.copy_(self._in_steps(frames, silu=silu))
        keep_last(out, kept)

    def factors(
        self, given: NormInput, context: SliceContext, kept: Tensor | None
    ) -> Factors | None:
        """Factors for a convolution that normalises its input; see `Norm`."""
        if not context.kernels_normalise:
            return None
        return factors_of(given.finished(), self._gamma, kept)

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """Norm as in the plain variant."""
        gamma = self._gamma[:, None, None]
        length = torch.linalg.vector_norm(frames, dim=1, keepdim=True, dtype=gamma.dtype)
        scale = len(gamma) ** 0.5 / length.clamp(min=_LEAST_LENGTH)
        normed = (frames * scale * gamma).to(frames.dtype)
        return F.silu(normed) if silu else normed


class FastWanDownsampler:
    """Half the height and width, and then, on request, of 1 + 2n frames the n + 1.

    A clip's frame 0 stays as it is; each later one is made of two frames and the one before.

    Args:
        name: Module path.
        space: 3x3 with stride 2, zeros to the right and below.
        time: Three taps with stride 2, nothing before a clip; None leaves time alone.
    """

    def __init__(self, name: str, space: AnyCausalConv, time: AnyCausalConv | None) -> None:
        self.name = name
        self._space, self._time = space, time

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        frames = self._space.of(context.take(), context).frames
        if self._time is not None:
            later = self._time.of(frames, context).frames
            if not context.carry.first:
                frames = later
            else:  # joined with none its layout would be another one
                frames = torch.cat([frames[:1], later]) if len(later) else frames[:1]
        context.put(frames, self.name)


class FastWanUpsampler:
    """Doubles height and width, before that on request the time: n + 1 frames become 1 + 2n.

    A clip's frame 0 stays as it is; those after it are a clip of their own, with zeros before it.

    Args:
        name: Module path.
        time: Three taps, to the channels of the earlier and of the later frame; None leaves time
            alone. It is `late`: frame 0 never comes there.
        space: Nearest neighbours and 3x3.

    Memory: the result, and what time makes of the source.
    """

    def __init__(self, name: str, time: AnyCausalConv | None, space: Enlarger) -> None:
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
        both = self._time.of(source[head:], context).frames
        for half, frames in enumerate(both.chunk(2, dim=1)):
            if not self._space.reads_views:
                frames = frames.contiguous(memory_format=memory_format(both))
            yield frames, slice(head + half, None, 2)


class Averaged:
    """A stage that makes frames smaller: means of neighbouring pixels, frames or channels.

    Args:
        name: Module path.
        stage: Stage that it goes around.

    Memory: the means, as large as the result; a half more while they are made.
    """

    def __init__(self, name: str, stage: Stage) -> None:
        self._name = name
        self._channels, self._time, self._space = stage.result, stage.time, stage.space

    def before(self, context: SliceContext) -> Tensor:
        """The means already, as the stage works on its input in place."""
        source = context.take()
        context.put(source)
        means = self._means(source)
        context.seen(self._name, means)
        return means

    def add(self, kept: Tensor, context: SliceContext) -> None:
        """Add the means."""
        context.put(context.take().add_(kept))

    def _means(self, source: Tensor) -> Tensor:
        """Values in the order (channel, time, row, column), averaged in groups of neighbours."""
        values = self._over_time(self._over_space(source))
        count, height, width = values.shape[0], *values.shape[-2:]
        groups = values.flatten(1, -3).view(count, self._channels, -1, height, width)
        return groups.clone().squeeze(2) if groups.shape[2] == 1 else groups.mean(2)

    def _over_space(self, source: Tensor) -> Tensor:
        """[T, C, n, h, w]: the values of a square, or their mean where a group has all of them."""
        if not self._space:
            return source.unsqueeze(2)
        channels = source.shape[1]
        if channels * (1 + self._time) % self._channels == 0:
            return F.avg_pool2d(source, 2).unsqueeze(2)
        return torch.unflatten(F.pixel_unshuffle(source, 2), 1, (channels, 4))

    def _over_time(self, values: Tensor) -> Tensor:
        """[T', C, 1 or 2, n, h, w]: each two frames as one; before a clip's frame 0 is none."""
        if not self._time:
            return values.unsqueeze(2)
        count, channels, each, height, width = values.shape
        odd = count % 2
        pairs = values.new_empty((count + odd) // 2, height, width, channels, 2, each)
        pairs = pairs.permute(0, 3, 4, 5, 1, 2)
        pairs[odd:, :, 0] = values[odd::2]
        pairs[:, :, 1] = values[1 - odd :: 2]
        if odd:
            pairs[0, :, 0] = 0
        return pairs


class Repeated:
    """A stage that makes frames larger: each value is repeated over pixels, frames or channels.

    Args:
        name: Module path.
        stage: Stage that it goes around.

    Memory: the stage's input; its result once more only for an observer.
    """

    def __init__(self, name: str, stage: Stage) -> None:
        self._name = name
        self._channels, self._time = stage.result, 2 if stage.time else 1

    def before(self, context: SliceContext) -> Tensor:
        """A copy of the input, which is worked on in place."""
        source = context.take()
        context.put(source)
        return source.clone()

    def add(self, kept: Tensor, context: SliceContext) -> None:
        """Add the repeated values."""
        stream = context.take()
        if context.trace is not None:
            alone = torch.zeros_like(stream)
            self._spread(kept, alone, context)
            context.seen(self._name, alone)
        self._spread(kept, stream, context)
        context.put(stream)

    def _spread(self, kept: Tensor, stream: Tensor, context: SliceContext) -> None:
        """Add to all places; the frames before a clip's first one are dropped."""
        dropped = self._time - 1 if context.carry.first else 0
        for time, row, column in product(range(self._time), range(2), range(2)):
            source = self._source(kept, (time * 2 + row) * 2 + column)
            skip = 1 if time < dropped else 0
            places = stream[time - dropped + self._time * skip :: self._time]
            places[:, :, row::2, column::2] += source[skip:]

    def _source(self, kept: Tensor, offset: int) -> Tensor:
        """The channels that go to one of the 4 * time places of a square."""
        inner, places = kept.shape[1], 4 * self._time
        if inner > self._channels:
            each = inner // self._channels  # channels in, for each one out
            return kept[:, offset * each // places :: each]
        return kept.repeat_interleave(self._channels // inner, 1)


class Bridged:
    """A stage of Wan 2.2: its parts, and a shortcut around all of them.

    Args:
        name: Module path.
        parts: In order.
        shortcut: Shortcut from the input to the output of all of them.
    """

    def __init__(self, name: str, parts: Sequence[Part], shortcut: Averaged | Repeated) -> None:
        self.name = name
        self._parts, self._shortcut = parts, shortcut

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        kept = self._shortcut.before(context)
        for part in self._parts:
            part.run(context)
        self._shortcut.add(kept, context)
        context.put(context.take(), self.name)
