"""Frames of twice the size: each pixel doubled, then a 3x3 convolution, in one step."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.conv import folds
from engine.ops.conv.subpixel import PHASES, interleave
from engine.ops.conv.temporal_conv import Taps

_PHASE_BYTES = 96 * 2**20  # of the phases that exist at once


class NearestFold:
    """Nearest-neighbour x2 and a 3x3 convolution, as small convolutions of the frames themselves.

    Four convolutions of 2x2 taps, one for each sub-pixel, take 16 products for each pixel and pair
    of channels in the place of 36 (docs/vae-folds.md), and doubled frames never exist.

    Args:
        weight: [O, I, 3, 3], on its device, in the precision in which folds are computed.
        bias: [O].
        dtype: Of the table that is kept, rounded once.

    Attributes:
        channels: O, of the result.

    Memory: the table of 16 * O * I values.
    """

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self.channels = weight.shape[0]
        table = folds.nearest(weight).to(dtype).unsqueeze(2)
        table = table.contiguous(memory_format=torch.channels_last_3d)
        self._taps = Taps(table, bias.to(dtype).repeat(PHASES), padding=1)

    def write(self, frames: Tensor, out: Tensor, *, chunked: bool = True) -> None:
        """Enlarge frames.

        Args:
            frames: [T, I, h, w], channels last.
            out: [T, O, 2h, 2w], any strides: every second frame of a buffer will do.
            chunked: Some frames at a time.

        Memory: the phases of one frame, or `_PHASE_BYTES` if that is more; of all frames where it
        is not chunked.
        """
        step = self._chunk(frames) if chunked else max(1, frames.shape[0])
        for start in range(0, frames.shape[0], step):
            part = slice(start, start + step)
            interleave(self._taps.apply(frames[part]), None, out[part])

    def _chunk(self, frames: Tensor) -> int:
        """Frames at a time."""
        height, width = frames.shape[2:]
        phases = self._taps.weight.shape[0] * (height + 1) * (width + 1)
        return max(1, _PHASE_BYTES // (phases * frames.element_size()))
