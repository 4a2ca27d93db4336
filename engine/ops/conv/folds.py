"""Exact folds: several linear steps become one set of weights, computed once when a model loads.

Weights go in, tables come out, on the device of the weights: in float64 for float64 weights, else
in float32 (TF32 must be off); the caller rounds a table once to the dtype of the model.
docs/vae-folds.md derives each fold with a figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

PHASES = 4  # sub-pixels of a source pixel, in the order sy * 2 + sx
_TAPS = 3  # per axis, of the causal convolutions that are folded


def first_frame(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Kernels of the first two frames of a clip, whose past is copies of frame 0.

    y0 = (W0 + W1 + W2) x0 and y1 = (W0 + W1) x0 + W2 x1; from y2 on nothing is copied.

    Args:
        weight: [O, I, 3, kh, kw] of a causal convolution, taps from the past to the present.

    Returns:
        W0 + W1 + W2 and W0 + W1, each [O, I, kh, kw], float64 or float32.
    """
    _need_three_taps(weight)
    past = _precise(weight[:, :, 0]) + _precise(weight[:, :, 1])
    return past + _precise(weight[:, :, 2]), past


@dataclass(frozen=True, slots=True, eq=False)
class PhaseBias:
    """Bias of the phases of a folded upsampler.

    Inside, the bias is one value per phase and channel. On the outermost lines taps of
    the 3x3 kernel are outside of the frame, on zeros: their share of the inner bias is subtracted
    again. A corner is on two such lines, so what was subtracted twice is added back.

    Attributes:
        interior: [4 * C], order (sy * 2 + sx) * C + c; goes into the convolution's own bias, or
            is added by `interleave`.
        rows: [2, 2, C], top and bottom line x sx; added by `interleave`.
        columns: [2, 2, C], left and right line x sy; added by `interleave`.
        corners: [2, 2, C], top and bottom x left and right; added by `interleave`.
    """

    interior: Tensor
    rows: Tensor
    columns: Tensor
    corners: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype) -> PhaseBias:
        """The tables on a device, rounded once to a dtype."""
        parts = (self.interior, self.rows, self.columns, self.corners)
        return PhaseBias(*(part.to(device, dtype) for part in parts))


@dataclass(frozen=True, slots=True, eq=False)
class UpsamplerFold:
    """An upsampler on its source's grid: 2x2 convolutions that give the four phases of a frame.

    Source step t makes S output frames S * t + st (S = 2 when time doubles too, else 1) out of the
    K newest source frames (K = 2, else 3), the oldest first:

        phases = sum over k of conv2d(source[t - K + 1 + k], taps[st, k], padding=1)

    plus the bias; `interleave` makes the frame of it. Step 0 of a clip gives one frame, from
    `first` alone. Step 1 gives S frames, of `second[st]` on source frame 0 plus `taps[st, K - 1]`
    on source frame 1. Later steps are regular; between slices K - 1 source frames are carried.

    The kernels [4 * O, I, 2, 2] are channels-last in memory.
    """

    taps: Tensor  # [S, K, 4 * O, I, 2, 2], output channels in the order (sy * 2 + sx) * O + o
    first: Tensor  # [4 * O, I, 2, 2]
    second: Tensor  # [S, 4 * O, I, 2, 2]
    bias: tuple[PhaseBias, ...]  # S biases, of steps from 2 on
    first_bias: PhaseBias  # bias of step 0
    second_bias: tuple[PhaseBias, ...]  # S biases, of step 1

    def to(self, device: torch.device | str, dtype: torch.dtype) -> UpsamplerFold:
        """The tables on a device, rounded once to a dtype."""
        return UpsamplerFold(
            self.taps.to(device, dtype),
            self.first.to(device, dtype),
            self.second.to(device, dtype),
            tuple(bias.to(device, dtype) for bias in self.bias),
            self.first_bias.to(device, dtype),
            tuple(bias.to(device, dtype) for bias in self.second_bias),
        )


def upsampler(
    expand_weight: Tensor, expand_bias: Tensor, weight: Tensor, bias: Tensor, time: bool
) -> UpsamplerFold:
    """Fold a 1x1x1 convolution, depth-to-space and a causal 3x3x3 convolution into one.

    Args:
        expand_weight: [S * 4 * C, I, 1, 1, 1]; channel ((sy * 2 + sx) * S + st) * C + c becomes
            channel c of pixel (2 * y + sy, 2 * x + sx) in frame S * t + st.
        expand_bias: [S * 4 * C].
        weight: [O, C, 3, 3, 3]; zeros around a frame, copies of the first frame before it.
        bias: [O].
        time: Whether time doubles too (S = 2); then frame 1 of a clip is dropped between the two.

    Returns:
        Tables in float64 for float64 weights, else in float32.

    Raises:
        ValueError: The shapes do not belong together; an internal error.

    Memory: the S * (K + 1) + 1 kernels of the result, one more, and a copy of `weight`; with time
    and 512 channels in float32 that is 8 x 16 MiB and 27 MiB.
    """
    subframes = 2 if time else 1
    _need_upsampler(expand_weight, expand_bias, weight, bias, subframes)
    expand = _precise(expand_weight).reshape(PHASES, subframes, weight.shape[1], -1)
    shift = _precise(expand_bias).reshape(PHASES, subframes, weight.shape[1])
    kernel = _precise(weight).permute(2, 3, 4, 0, 1).contiguous()
    taps, first, second = _tables(kernel, expand)
    shares = _shares(kernel, shift)
    constant = _precise(bias)
    steps = range(subframes)
    return UpsamplerFold(
        taps=_channels_second(taps),
        first=_channels_second(first),
        second=_channels_second(second),
        bias=tuple(_phase_bias(_seen_shares(shares, st), constant) for st in steps),
        first_bias=_phase_bias(shares[0].sum(0), constant),
        second_bias=tuple(
            _phase_bias(_seen_shares(shares, st, head=True), constant) for st in steps
        ),
    )


def nearest(weight: Tensor) -> Tensor:
    """Fold doubling each pixel on both axes and a 3x3 convolution into four of 2x2 taps.

    Taps that see copies of the same pixel are added up. The zeros around the doubled frame are as
    good as zeros around the frame itself: no tap sees an edge pixel and its copy outside.

    Args:
        weight: [O, I, 3, 3].

    Returns:
        [4 * O, I, 2, 2], float64 or float32, channels last; output channels in the order
        (sy * 2 + sx) * O + o. With padding 1 it gives what `interleave` makes the frame of.

    Raises:
        ValueError: Another kernel; an internal error.
    """
    if weight.ndim != 4 or tuple(weight.shape[2:]) != (_TAPS, _TAPS):
        raise ValueError(f"not a 3x3 kernel: {tuple(weight.shape)}")
    kernel = _precise(weight).permute(2, 3, 0, 1)
    table = kernel.new_zeros(PHASES, weight.shape[0], 2, 2, weight.shape[1])
    for rows in _AXIS:
        for columns in _AXIS:
            part = table[rows.phase * 2 + columns.phase, :, rows.tap, columns.tap]
            part += kernel[rows.kernel_tap, columns.kernel_tap]
    return _channels_second(table.flatten(0, 1))


def _seen(tap: int, st: int, subframes: int) -> tuple[int, int]:
    """Source step t + back and sub-frame that a temporal tap sees from output frame S * t + st."""
    return divmod(st - (_TAPS - 1) + tap, subframes)


def _tables(kernel: Tensor, expand: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Kernels with the input channels last: regular [S, K, n...], first [n...], second [S, n...].

    Each product of a temporal tap and a sub-frame is made once and added wherever it is seen. At
    the head of a clip everything before source step 1 is sub-frame 0 of step 0: the copies before
    the clip, and step 0's other sub-frame, which is dropped.
    """
    subframes = expand.shape[1]
    sources = 1 + (_TAPS - 1) // subframes
    shape = (PHASES * kernel.shape[3], 2, 2, expand.shape[3])
    taps = kernel.new_zeros(subframes, sources, *shape)
    first, second = kernel.new_zeros(shape), kernel.new_zeros(subframes, *shape)
    for tap in range(_TAPS):
        for sub in range(subframes):
            product = _product(kernel[tap], expand[:, sub])
            for st in range(subframes):
                back, seen = _seen(tap, st, subframes)
                if seen == sub:
                    taps[st, back - 1] += product
                if sub == 0 and back < 0:
                    second[st] += product
            if sub == 0:
                first += product
    return taps, first, second


def _product(kernel: Tensor, expand: Tensor) -> Tensor:
    """One temporal tap after one sub-frame of the expansion.

    Args:
        kernel: [3, 3, O, C].
        expand: [4, C, I], a matrix for each sub-pixel.

    Returns:
        [4 * O, 2, 2, I].
    """
    table = kernel.new_zeros(PHASES, kernel.shape[2], 2, 2, expand.shape[2])
    for rows in _AXIS:
        for columns in _AXIS:
            part = table[rows.phase * 2 + columns.phase, :, rows.tap, columns.tap]
            matrix = kernel[rows.kernel_tap, columns.kernel_tap]
            part.addmm_(matrix, expand[rows.sub * 2 + columns.sub])
    return table.flatten(0, 1)


class _Path(NamedTuple):
    """One path along one axis from a source pixel through the 3-tap kernel to an output pixel."""

    phase: int  # sub-pixel of the output
    kernel_tap: int
    sub: int  # sub-pixel of the expansion that the tap sees
    tap: int  # tap of the folded kernel


def _paths() -> tuple[_Path, ...]:
    """All paths along one axis.

    Output pixel 2y + phase sees through tap j expanded pixel 2y + phase + j - 1: a sub-pixel of
    source pixel y + step. The folded convolution gives it at y + phase and pads by one, so its tap
    0 is at source pixel y + phase - 1.
    """
    paths = []
    for phase in range(2):
        for kernel_tap in range(_TAPS):
            step, sub = divmod(phase + kernel_tap - 1, 2)
            paths.append(_Path(phase, kernel_tap, sub, step + 1 - phase))
    return tuple(paths)


_AXIS = _paths()


def _shares(kernel: Tensor, shift: Tensor) -> Tensor:
    """Share of the bias of a tap that sees a sub-frame: [S, 3, 2, 2, 3, 3, O].

    Indices: sub-frame, tap in time, phase sy and sx, tap in rows and columns, output channel.

    Args:
        kernel: [3, 3, 3, O, C].
        shift: [4, S, C], the expansion's bias at each sub-pixel and sub-frame.
    """
    shares = kernel.new_empty(shift.shape[1], _TAPS, 2, 2, _TAPS, _TAPS, kernel.shape[3])
    for rows in _AXIS:
        for columns in _AXIS:
            jy, jx = rows.kernel_tap, columns.kernel_tap
            seen = shift[rows.sub * 2 + columns.sub]
            share = torch.einsum("toc,sc->sto", kernel[:, jy, jx], seen)
            shares[:, :, rows.phase, columns.phase, jy, jx] = share
    return shares


def _seen_shares(shares: Tensor, st: int, *, head: bool = False) -> Tensor:
    """Sum over the temporal taps of output sub-frame `st`, of a regular step or of step 1.

    Args:
        shares: [S, 3, 2, 2, 3, 3, O].
        st: Sub-frame of the output.
        head: Whether the step before is the clip's first, which has sub-frame 0 only.
    """
    total = torch.zeros_like(shares[0, 0])
    for tap in range(_TAPS):
        back, sub = _seen(tap, st, shares.shape[0])
        total += shares[0 if head and back < 0 else sub, tap]
    return total


def _phase_bias(shares: Tensor, bias: Tensor) -> PhaseBias:
    """Bias from [2, 2, 3, 3, O]: all taps inside, without those outside on each border."""
    rows = [-shares[0, :, 0].sum(1), -shares[1, :, 2].sum(1)]
    columns = [-shares[:, 0, :, 0].sum(1), -shares[:, 1, :, 2].sum(1)]
    corners = [shares[sy, sx, 2 * sy, 2 * sx] for sy in range(2) for sx in range(2)]
    return PhaseBias(
        interior=(shares.sum((2, 3)) + bias).flatten(),
        rows=torch.stack(rows),
        columns=torch.stack(columns),
        corners=torch.stack(corners).reshape(2, 2, -1),
    )


def temporal_winograd(weight: Tensor) -> Tensor:
    """Kernels of Winograd's F(2, 3) over time: two frames from four 2-D convolutions, not six.

    With d0..d3 the four frames that outputs y0 and y1 see:

        g0 = W0                   m0 = g0 (d0 - d2)
        g1 = (W0 + W1 + W2) / 2   m1 = g1 (d1 + d2)       y0 = m0 + m1 + m2
        g2 = (W0 - W1 + W2) / 2   m2 = g2 (d2 - d1)       y1 = m1 - m2 - m3
        g3 = W2                   m3 = g3 (d1 - d3)

    Equal in real arithmetic; rounding grows by about half, so this is "rounding".

    Args:
        weight: [O, I, 3, kh, kw], taps from the past to the present.

    Returns:
        [4, O, I, kh, kw], float64 or float32.
    """
    _need_three_taps(weight)
    past, middle, present = (_precise(weight[:, :, tap]) for tap in range(_TAPS))
    outer = (past + present) / 2
    return torch.stack([past, outer + middle / 2, outer - middle / 2, present])


def _precise(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)


def _channels_second(table: Tensor) -> Tensor:
    """View [..., n, 2, 2, I] as [..., n, I, 2, 2], a kernel that is channels-last in memory."""
    return table.movedim(-1, -3)


def _need_three_taps(weight: Tensor) -> None:
    if weight.ndim != 5 or weight.shape[2] != _TAPS:
        raise ValueError(f"not a kernel of three temporal taps: {tuple(weight.shape)}")


def _need_upsampler(
    expand_weight: Tensor, expand_bias: Tensor, weight: Tensor, bias: Tensor, subframes: int
) -> None:
    _need_three_taps(weight)
    outputs, channels = weight.shape[:2]
    expanded = PHASES * subframes * channels
    wanted = ((expanded, expand_weight.shape[1], 1, 1, 1), (expanded,), (outputs,))
    given = (tuple(expand_weight.shape), tuple(expand_bias.shape), tuple(bias.shape))
    if given != wanted or tuple(weight.shape[2:]) != (_TAPS,) * 3:
        raise ValueError(f"not one upsampler: {given} and {tuple(weight.shape)}")
