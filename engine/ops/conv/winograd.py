"""Winograd's F(2, 3) over time: two frames from four products instead of six."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.conv import folds
from engine.ops.conv.temporal_conv import TemporalConv, laid_out


class WinogradConv:
    """A convolution over three frames, stride 1 in time, in pairs of outputs; more rounding.

    Args:
        weight: [O, I, 3, kh, kw], in the precision in which folds are computed.
        direct: The same convolution by its taps, with its bias, in its final dtype.

    Memory: four taps.
    """

    def __init__(self, weight: Tensor, direct: TemporalConv) -> None:
        self._direct = direct
        tables = folds.temporal_winograd(weight).unsqueeze(3)
        dtype = direct.weight.dtype
        self._taps = [direct.with_taps(laid_out(table.to(dtype), "2d")) for table in tables]

    def apply(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """As `TemporalConv.apply`; a last odd frame by its three taps.

        Memory: the result, and for each pair of its frames four of the input and four of the
        result.
        """
        steps = self._direct.steps(frames.shape[0])
        if steps < 2:
            return self._direct.apply(frames, into)
        even = steps - steps % 2
        d0, d1, d2, d3 = (_dense(frames[k : k + even - 1 : 2]) for k in range(4))
        outer, last = self._taps[0].apply(d0 - d2), self._taps[3].apply(d1 - d3)
        plus, minus = self._taps[1].apply(d1 + d2), self._taps[2].apply(d2 - d1)
        result = outer.new_empty_strided((steps, *outer.shape[1:]), outer.stride())
        result[0:even:2] = outer.add_(plus).add_(minus)
        result[1:even:2] = plus.sub_(minus).sub_(last)
        if self._direct.bias is not None:
            result[:even] += self._direct.bias[:, None, None]
        if steps > even:
            result[even:] = self._direct.apply(frames[even:])
        return result if into is None else into.add_(result)


def _dense(frames: Tensor) -> Tensor:
    """Every second frame, made dense in its layout."""
    last = frames.stride(1) == 1
    return frames.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
