"""Convolutions by the kernel of `engine.ops.kernels.conv`: it reads frames where they lie.

The past of a slice is beside its frames, not joined with them; bias and residual sum are parts of
the convolution. Weights are kept in the kernel's order alone.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from engine.ops.conv.causal_conv import ConvShape
from engine.ops.conv.folds import PHASES
from engine.ops.kernels import conv
from engine.ops.kernels.conv import ConvKernel, Factors, Work, vector_of
from engine.ops.kernels.conv_tiles import UNIT, Norm
from engine.ops.kernels.group_norm import BlockStatistics


class Beside(NamedTuple):
    """Frames to convolve, and what is before them.

    Attributes:
        frames: [T, I, H, W].
        past: [n, I, H, W], n at least the history of the convolution; None: they begin a clip.
        norm: Norm and SiLU that `frames` still lack; None: they lack nothing.
        past_norm: Norm and SiLU that `past` still lacks.
    """

    frames: Tensor
    past: Tensor | None = None
    norm: Factors | None = None
    past_norm: Factors | None = None


class Convolved(NamedTuple):
    """Frames that a convolution gave, and their statistics where it gives any."""

    frames: Tensor
    statistics: BlockStatistics | None = None


class KernelConv:
    """Causal convolution [O, I, K, kh, kw] of half precision; see `FrameConv`.

    The first frame of a clip, whose past is copies of it, takes the sum of the taps, rounded once.

    Args:
        weight: On the device, in the precision in which folds are computed.
        bias: [O], or None.
        shape: Padding and strides.
        kernel: Kernel for this kind of layer, without a norm or statistics.
        pad: More lines of zeros below frames and to the right.
        norm: Norm that frames may lack.
        group: Channels of a group of the result whose statistics are of use; 0: none.

    Attributes:
        normalises: Whether frames may lack that norm.

    Memory: the weights, padded to whole tiles; in the first slice of a clip those of one frame.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        shape: ConvShape,
        kernel: ConvKernel,
        *,
        pad: int = 0,
        norm: Norm = "none",
        group: int = 0,
    ) -> None:
        self._shape, self._pad = shape, pad
        self._packed = kernel.program.packed(weight)
        self._bias = None if bias is None else bias.float().contiguous()
        self._usual = _with(kernel, weight.device, "none", group) or kernel
        self._normed: ConvKernel | None = None
        if norm != "none":
            found = _with(kernel, weight.device, norm, group) if group else None
            self._normed = found or _with(kernel, weight.device, norm, 0)
        self.normalises = self._normed is not None

    @property
    def history(self) -> int:
        """Frames of the past that a slice reads."""
        return max(0, self._usual.program.taps.reach - self._shape.time_stride)

    def run(self, given: Beside, into: Tensor | None = None) -> Convolved:
        """Convolve a slice that does not begin a clip; add to `into` in place if it is given."""
        assert given.past is not None or not self.history
        return self._into(given, into, 0)

    def run_first(self, given: Beside, into: Tensor | None = None) -> Convolved:
        """Convolve the first frames of a clip; add to `into` in place if it is given."""
        reach = self._usual.program.taps.reach
        if reach == 1 or self._shape.past != "copies":
            return self._into(given, into, reach - 1 if self._shape.past == "zeros" else 0)
        frames, norm = given.frames, given.norm
        out = self._room(frames, (len(frames) - 1) // self._shape.time_stride + 1, into)
        packed = self._packed.float().sum(1, keepdim=True).to(self._packed.dtype)
        begin = Beside(frames[:1], None, _part(norm, slice(1)))
        adds = out is into
        parts = [self._write(begin, out[:1], packed, adds=adds)]
        if len(out) > 1:
            copies = frames[:1].expand(self.history, -1, -1, -1)
            copied = _repeated(_part(norm, slice(1)), self.history)
            rest = Beside(frames[1:], copies, _part(norm, slice(1, None)), copied)
            parts.append(self._write(rest, out[1:], self._packed, adds=adds))
        return _added(Convolved(out, _joined(parts)), into)

    def _into(self, given: Beside, into: Tensor | None, zeros: int) -> Convolved:
        """Convolve frames whose past is given, or is n frames of zeros."""
        before = zeros if given.past is None else len(given.past)
        count = before + len(given.frames) - self._usual.program.taps.reach
        out = self._room(given.frames, max(0, count // self._shape.time_stride + 1), into)
        found = self._write(given, out, self._packed, adds=out is into, zeros=zeros)
        return _added(Convolved(out, found), into)

    def _room(self, frames: Tensor, steps: int, into: Tensor | None) -> Tensor:
        """Frames for n steps of the result: those of `into` if it lies well, or new ones."""
        if into is not None and vector_of(into) >= self._usual.program.store:
            return into
        taps, shape = self._usual.program.taps, self._shape
        more = 2 * shape.padding + self._pad
        height, width = (
            (side + more - kernel) // taps.stride + 1
            for side, kernel in zip(frames.shape[2:], (taps.rows, taps.columns), strict=True)
        )
        return empty_frames(frames, (steps, taps.outer, height, width))

    def _write(
        self, given: Beside, out: Tensor, packed: Tensor, *, adds: bool, zeros: int = 0
    ) -> BlockStatistics | None:
        """Write a result, or add it to what is there."""
        if not len(out):
            return None
        kernel = self._usual if given.norm is None else self._normed
        assert kernel is not None
        past = given.past if given.past is not None and len(given.past) else None
        work = Work(
            frames=readable(given.frames),
            out=out,
            past=None if past is None else readable(past),
            past_count=zeros,
            above=self._shape.padding,
            left=self._shape.padding,
            time_stride=self._shape.time_stride,
            bias=self._bias,
            residual=out if adds else None,
            norm=given.norm,
            past_norm=given.past_norm,
            silu=given.norm is not None,
        )
        return over_frames(kernel, packed).convolve(packed, work)


class KernelPhases:
    """The four phases of frames of twice the size, written as every second pixel of them.

    Args:
        table: [4 * O, I, K, 2, 2], in the order of `folds.PHASES`.
        bias: [4 * O], or None.
        kernel: Kernel of one phase.

    Memory: the table, padded to whole tiles.
    """

    def __init__(self, table: Tensor, bias: Tensor | None, kernel: ConvKernel) -> None:
        self._kernel = kernel
        self._packed = [kernel.program.packed(part) for part in table.chunk(PHASES)]
        self._bias = None if bias is None else bias.float().chunk(PHASES)

    @classmethod
    def sharing(cls, other: KernelPhases, bias: Tensor) -> KernelPhases:
        """Phases of the same table with another bias [4 * O]."""
        made = copy.copy(other)
        made._bias = bias.float().chunk(PHASES)
        return made

    def after(self, older: KernelPhases) -> KernelPhases:
        """Phases of the taps of an older frame and the newest of these, with this bias."""
        made = copy.copy(self)
        pairs = zip(older._packed, self._packed, strict=True)
        made._packed = [torch.cat([old, new[:, -1:]], 1) for old, new in pairs]
        return made

    def write(self, frames: Tensor, out: Tensor, past: Tensor | None = None) -> None:
        """Enlarge frames.

        Args:
            frames: [T, I, h, w], channels last.
            out: [T, O, 2h, 2w], every second frame of a buffer will do.
            past: [K - 1, I, h, w], the frames before; None where K is 1.
        """
        past = None if past is None else readable(past)
        for phase, packed in enumerate(self._packed):
            sy, sx = divmod(phase, 2)
            work = Work(
                frames=readable(frames),
                out=out[:, :, sy::2, sx::2],
                past=past,
                above=1 - sy,
                left=1 - sx,
                bias=None if self._bias is None else self._bias[phase],
            )
            over_frames(self._kernel, packed).convolve(packed, work)


def over_frames(kernel: ConvKernel, packed: Tensor) -> ConvKernel:
    """A kernel for packed weights of more or fewer frames."""
    program = kernel.program
    taps = program.taps._replace(reach=packed.shape[1])
    return ConvKernel(kernel.module, replace(program, taps=taps))


def readable(frames: Tensor) -> Tensor:
    """Frames as the kernel reads them: nearly always they are already."""
    if vector_of(frames) == UNIT:
        return frames
    return frames.clone(memory_format=torch.channels_last)


def empty_frames(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Uninitialised frames [T, C, H, W], channels last."""
    count, channels, height, width = shape
    return like.new_empty(count, height, width, channels).permute(0, 3, 1, 2)


def _added(found: Convolved, into: Tensor | None) -> Convolved:
    """The result in `into`, where it is given and does not have it yet."""
    if into is None or found.frames is into:
        return found
    return Convolved(into.add_(found.frames))


def _with(kernel: ConvKernel, device: torch.device, norm: Norm, group: int) -> ConvKernel | None:
    """The kernel for frames before their norm, or with statistics; None where it does not work."""
    program = replace(kernel.program, norm=norm, group=group)
    return conv.load(device, program) if program.can_group else None


def _part(norm: Factors | None, frames: slice) -> Factors | None:
    """Factors of some frames."""
    if norm is None:
        return None
    scale, shift, of_pixel = norm
    return Factors(
        scale if scale.ndim == 1 else scale[frames],
        None if shift is None else shift[frames],
        None if of_pixel is None else of_pixel[frames],
    )


def _repeated(norm: Factors | None, count: int) -> Factors | None:
    """Factors of n copies of a frame."""
    if norm is None:
        return None
    scale, shift, of_pixel = norm
    return Factors(
        scale if scale.ndim == 1 else scale.repeat(count, 1),
        None if shift is None else shift.repeat(count, 1),
        None if of_pixel is None else of_pixel.repeat(count, 1, 1),
    )


def _joined(parts: Sequence[BlockStatistics | None]) -> BlockStatistics | None:
    """Statistics of frames that were computed in parts."""
    found = [one for one in parts if one is not None]
    if len(found) < len(parts):
        return None
    first = found[0]
    if len(found) == 1:
        return first
    mean, m2 = (torch.cat([getattr(one, name) for one in found]) for name in ("mean", "m2"))
    return replace(first, mean=mean, m2=m2, grid=replace(first.grid, frames=len(mean)))
