"""Phases: the four sub-pixel images that make one image of twice the size."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.ops.conv import folds
from engine.ops.conv.causal_conv import ConvShape
from engine.ops.conv.folds import PHASES, PhaseBias
from engine.ops.conv.frame_conv import ConvOptions
from engine.ops.conv.kernel_conv import KernelPhases
from engine.ops.conv.temporal_conv import TemporalConv


def interleave(
    phases: Tensor, bias: PhaseBias | None, out: Tensor, *, adds_interior: bool = False
) -> None:
    """Crop the phases, put them between each other and correct the outermost lines.

    Pixel (2y + sy, 2x + sx) of `out` is phase sy * 2 + sx at (y + sy, x + sx). Every pixel is
    written once; only the outermost lines are read again.

    Args:
        phases: [T, 4 * C, h + 1, w + 1], any strides.
        bias: Its border corrections, on the device and in the dtype of `out`; None: there is
            nothing to correct, as the inner bias holds everywhere.
        out: [T, C, 2 * h, 2 * w], any strides (a part of a larger buffer too); overwritten.
        adds_interior: The inner bias is not in the phases yet.

    Raises:
        ValueError: The shapes do not belong together; an internal error.

    Memory: nothing beyond `out`.
    """
    frames, channels, height, width = out.shape
    if height % 2 or width % 2:
        raise ValueError(f"{height} x {width} px is not twice anything")
    expected = (frames, PHASES * channels, height // 2 + 1, width // 2 + 1)
    if tuple(phases.shape) != expected:
        raise ValueError(f"phases of {tuple(out.shape)} are {expected}, not {tuple(phases.shape)}")
    for phase in range(PHASES):
        sy, sx = divmod(phase, 2)
        part = phases[:, phase * channels : (phase + 1) * channels]
        part = part[:, :, sy : sy + height // 2, sx : sx + width // 2]
        target = out[:, :, sy::2, sx::2]
        if bias is not None and adds_interior:
            interior = bias.interior[phase * channels : (phase + 1) * channels]
            torch.add(part, interior[:, None, None], out=target)
        else:
            target.copy_(part)
    if bias is not None:
        correct_lines(out, bias)


def correct_lines(out: Tensor, bias: PhaseBias) -> None:
    """Add the corrections of rows, columns and corners; a line may be both first and last."""
    for side, line in enumerate((0, -1)):
        for sub in range(2):
            out[:, :, line, sub::2] += bias.rows[side, sub, :, None]
            out[:, :, sub::2, line] += bias.columns[side, sub, :, None]
        for across, column in enumerate((0, -1)):
            out[:, :, line, column] += bias.corners[side, across]


_PHASE_BYTES = 96 * 2**20  # of the phases that exist at once


class NearestFold:
    """Nearest-neighbour x2 and a 3x3 convolution, as small convolutions of the frames themselves.

    Four convolutions of 2x2 taps, one for each sub-pixel, take 16 products for each pixel and pair
    of channels in the place of 36 (docs/vae-folds.md), and doubled frames never exist.

    Args:
        weight: [O, I, 3, 3], on its device, in the precision in which folds are computed.
        bias: [O]; None: none.
        options: Type of the table that is kept, rounded once, and whether our kernel may use it.

    Attributes:
        channels: O, of the result.
        reads_views: Frames may be views of some channels of others.

    Memory: the table of 16 * O * I values.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, options: ConvOptions) -> None:
        self.channels = weight.shape[0]
        dtype, table = options.dtype, folds.nearest(weight).unsqueeze(2)
        kernel = options.method(table.shape, table.device, ConvShape(), PHASES).kernel
        self.reads_views = kernel is not None
        biases = None if bias is None else bias.repeat(PHASES)
        self._phases = KernelPhases(table, biases, kernel) if kernel is not None else None
        if self._phases is not None:
            return
        table = table.to(dtype)
        table = table.contiguous(memory_format=torch.channels_last_3d)
        biases = None if biases is None else biases.to(dtype)
        self._taps = TemporalConv(table, biases, padding=1)

    def write(self, frames: Tensor, out: Tensor, *, chunked: bool = True) -> None:
        """Enlarge frames.

        Args:
            frames: [T, I, h, w], channels last.
            out: [T, O, 2h, 2w], any strides: every second frame of a buffer will do.
            chunked: Some frames at a time.

        Memory: the phases of one frame, or `_PHASE_BYTES` if that is more; of all frames where it
        is not chunked; none with our kernel.
        """
        if self._phases is not None:
            self._phases.write(frames, out)
            return
        step = self._chunk(frames) if chunked else max(1, frames.shape[0])
        for start in range(0, frames.shape[0], step):
            part = slice(start, start + step)
            interleave(self._taps.apply(frames[part]), None, out[part])

    def _chunk(self, frames: Tensor) -> int:
        """Frames at a time."""
        height, width = frames.shape[2:]
        phases = self._taps.weight.shape[0] * (height + 1) * (width + 1)
        return max(1, _PHASE_BYTES // (phases * frames.element_size()))
