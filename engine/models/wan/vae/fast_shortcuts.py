"""Shortcuts around the stages of Wan 2.2 without weights of their own, at little cost.

A stage's input is averaged, or repeated, to the shape of its result. The published description
spreads it to a list of (channel, time, row, column) and cuts that again; here the same pixels are
added where they belong, without a tensor in between that is larger than the smaller of the two.
"""

from __future__ import annotations

from itertools import product
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.context import SliceContext
from engine.models.wan.vae.config import Stage


class Shortcut(Protocol):
    """A shortcut around a stage."""

    def before(self, context: SliceContext) -> Tensor:
        """The part of the stage's input that `add` needs."""
        ...

    def add(self, kept: Tensor, context: SliceContext) -> None:
        """Add it to the stream that comes out."""
        ...


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
