"""Layers that only the fast variant of the SeedVR2 VAE has: norm and upsamplers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.causal_layers import AnyCausalConv
from engine.models.video_vae.slice_context import NormInput, SliceContext, keep_last
from engine.ops.conv.folds import PhaseBias, UpsamplerFold
from engine.ops.conv.kernel_conv import KernelPhases
from engine.ops.conv.subpixel import correct_lines, interleave
from engine.ops.conv.temporal_conv import Form, TemporalConv
from engine.ops.kernels.conv import ConvKernel, Factors
from engine.ops.kernels.conv_tiles import DTYPE
from engine.ops.norm import compiled
from engine.ops.norm.group_norm import factors_of, group_norm_silu

_PHASE_BYTES = 96 * 2**20  # of the phases that exist at once


class GroupNorm:
    """GroupNorm of each frame by itself, with or without SiLU after it.

    Args:
        affine: Weight and bias [C], float32 or float64 whatever the precision of the frames.
        groups: Divides C.
        eps: Added to the variance.
    """

    def __init__(self, affine: tuple[Tensor, Tensor], groups: int, eps: float) -> None:
        self._affine = affine
        self._groups, self._eps = groups, eps

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
        if context.switches.compile and self._compiled(given, out, silu=silu):
            keep_last(out, kept)
        elif context.switches.fused_norm:
            group_norm_silu(
                given.frames,
                *self._affine,
                self._groups,
                self._eps,
                out,
                silu=silu,
                kernels=context.switches.kernels,
                added=given.bias,
                known=given.statistics,
                kept=kept,
            )
        else:
            out.copy_(self._in_steps(given.finished(), silu=silu))
            keep_last(out, kept)

    def factors(
        self, given: NormInput, context: SliceContext, kept: Tensor | None
    ) -> Factors | None:
        """Factors for a convolution that normalises its input; see `Norm`."""
        if not context.kernels_normalise:
            return None
        return factors_of(
            given.frames,
            *self._affine,
            self._groups,
            self._eps,
            added=given.bias,
            known=given.statistics,
            kept=kept,
        )

    def _compiled(self, given: NormInput, out: Tensor, *, silu: bool) -> bool:
        """Norm compiled by torch, if it can."""
        weight, bias = (part.view(self._groups, -1) for part in self._affine)
        return compiled.group_norm_silu(
            given.frames, (weight, bias), self._eps, out, silu=silu, added=given.bias
        )

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """Norm as in the plain variant, on contiguous frames for the reason of `FrameNorm`."""
        weight, bias = (part.to(frames.dtype) for part in self._affine)
        normed = F.group_norm(frames.contiguous(), self._groups, weight, bias, self._eps)
        return F.silu(normed) if silu else normed


class _Upsampler:
    """A folded upsampler: what it keeps between slices."""

    def __init__(self, name: str, fold: UpsamplerFold) -> None:
        self.name = name
        self._first_bias, self._second_bias = fold.first_bias, fold.second_bias
        self._bias = fold.bias
        self._times, self._reach = fold.taps.shape[:2]

    def _result(self, source: Tensor, context: SliceContext) -> Tensor:
        """Memory for the frames that source frames [T, C, h, w] become."""
        count, _, height, width = source.shape
        frames = self._times * count - (self._times - 1 if context.carry.first else 0)
        channels = self._first_bias.rows.shape[-1]
        return context.workspace.fresh((frames, channels, 2 * height, 2 * width))

    def _past(self, source: Tensor, context: SliceContext) -> Tensor:
        """The frames before those of a later slice."""
        name = self._filed(alone=self._was_alone(context))
        return context.kept(name, (self._reach - 1, *source.shape[1:]))

    def _filed(self, *, alone: bool) -> str:
        """A clip's only frame so far, of which the second half was dropped, has its own file."""
        return f"{self.name}.alone" if alone else self.name

    def _was_alone(self, context: SliceContext) -> bool:
        """Whether the slices before had one source frame together, and time doubles."""
        return self._times > 1 and not context.keeps(self.name)


class FoldedUpsampler(_Upsampler):
    """An upsampler in one step: small convolutions on the source's grid, then interleaving.

    Args:
        name: Module path: what its carry is filed under.
        fold: Tables on their device in their final dtype.
        form: Form of its convolutions.

    Memory: the result, and the phases of one source frame or `_PHASE_BYTES` if that is more;
    without chunked upsampling those of all source frames. The tables are kept once.
    """

    def __init__(self, name: str, fold: UpsamplerFold, form: Form) -> None:
        super().__init__(name, fold)
        kernel = table_of(fold).contiguous(memory_format=torch.channels_last_3d)
        # a bias of a convolution is a pass of its own on a GPU
        self._adds_interior = kernel.device.type != "cpu"
        regular, second, first = (
            None if self._adds_interior else _interior(bias)
            for bias in (fold.bias, fold.second_bias, (fold.first_bias,))
        )
        self._regular = TemporalConv(kernel, regular, padding=1, form=form)
        self._newest = self._regular.with_taps(kernel[:, :, -1:], second)
        self._first = self._regular.with_taps(_single(fold.first), first)
        self._second = self._regular.with_taps(_single(fold.second.flatten(0, 1)))

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        source = context.take()
        kept, first = self._reach - 1, context.carry.first
        result = self._result(source, context)
        head = first or self._was_alone(context)
        window = source if first else torch.cat([self._past(source, context), source])
        alone = first and len(source) < self._times
        context.keep(self._filed(alone=alone), last_frames(window, kept))
        del source
        done = self._start(window, result, context) if head else kept
        rest = window[done - kept :] if len(window) > done else window[:0]
        self._rest(rest, result[len(result) - self._times * (len(window) - done) :], context)
        context.put(result, self.name)

    def _start(self, window: Tensor, result: Tensor, context: SliceContext) -> int:
        """The first two source frames of a clip, whose past is made up; how many there were."""
        if context.carry.first:
            self._write(self._first.apply(window[:1]), (self._first_bias,), result[:1])
            result = result[1:]
        if len(window) > 1:
            self._write(self._step_one(window), self._second_bias, result[: self._times])
        return min(2, len(window))

    def _step_one(self, window: Tensor) -> Tensor:
        """Phases of a clip's second source frame, in half precision rounded once too."""
        if self._newest.adds_up(window.dtype):
            return self._second.apply(window[:1], self._newest.apply(window[1:2]))
        weight = torch.cat([self._second.weight, self._newest.weight], dim=2)
        weight = weight.contiguous(memory_format=torch.channels_last_3d)
        return self._newest.with_taps(weight, self._newest.bias).apply(window[:2])

    def _rest(self, window: Tensor, result: Tensor, context: SliceContext) -> None:
        """Source frames with true frames before them."""
        steps = self._regular.steps(len(window))
        chunk = self._chunk(window) if context.switches.chunked_upsampling else steps
        for start in range(0, steps, max(1, chunk)):
            part = window[start : start + chunk + self._reach - 1]
            phases = self._regular.apply(part)
            target = result[self._times * start : self._times * (start + len(phases))]
            self._write(phases, self._bias, target)
            del phases  # or they would wait for the next ones

    def _write(self, phases: Tensor, bias: tuple[PhaseBias, ...], result: Tensor) -> None:
        parts = phases.chunk(len(bias), dim=1)
        for frame, (part, each) in enumerate(zip(parts, bias, strict=True)):
            target = result[frame :: len(bias)]
            interleave(part, each, target, adds_interior=self._adds_interior)

    def _chunk(self, window: Tensor) -> int:
        """Source frames at a time."""
        step = self._regular.weight.shape[0] * (window.shape[2] + 1) * (window.shape[3] + 1)
        return max(1, _PHASE_BYTES // (step * window.element_size()))


class KernelUpsampler(_Upsampler):
    """An upsampler by our kernel, which writes each phase where it belongs.

    Args:
        name: Module path: what its carry is filed under.
        fold: Tables on their device, in the precision in which folds are computed.
        kernel: Kernel of a phase.

    Memory: the result. The tables are kept once.
    """

    def __init__(self, name: str, fold: UpsamplerFold, kernel: ConvKernel) -> None:
        super().__init__(name, fold)
        device = fold.first.device  # lines are corrected in half precision
        self._first_bias = fold.first_bias.to(device, DTYPE)
        self._second_bias = tuple(one.to(device, DTYPE) for one in fold.second_bias)
        self._bias = tuple(one.to(device, DTYPE) for one in fold.bias)
        taps = fold.taps.transpose(1, 2).transpose(2, 3)  # [S, 4 * O, I, K, 2, 2]
        self._regular, self._second = (
            [
                KernelPhases(table, each.interior, kernel)
                for table, each in zip(tables, bias, strict=True)
            ]
            for tables, bias in (
                (taps, fold.bias),
                (fold.second.unsqueeze(3), fold.second_bias),
            )
        )
        self._newest = [
            KernelPhases.sharing(phases, each.interior)
            for phases, each in zip(self._regular, fold.second_bias, strict=True)
        ]
        self._first = KernelPhases(fold.first.unsqueeze(2), fold.first_bias.interior, kernel)

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        source, first = context.take(), context.carry.first
        kept, times = self._reach - 1, self._times
        result = self._result(source, context)
        head = first or self._was_alone(context)
        past = None if first else self._past(source, context)
        self._keep(source, past, context)
        rest, written = source, 0
        if first:
            self._first.write(source[:1], result[:1])
            correct_lines(result[:1], self._first_bias)
            past, rest, written = source[:1], source[1:], 1
        if head and len(rest):
            assert past is not None
            joined = [new.after(old) for new, old in zip(self._newest, self._second, strict=True)]
            self._write(joined, self._second_bias, (past[-1:], rest[:1]), result[written:][:times])
            # of a later slice only where time doubles, and one frame is the past
            past = source[:2][2 - kept :] if first else rest[:1]
            rest, written = rest[1:], written + times
        if len(rest):
            assert past is not None
            self._write(self._regular, self._bias, (past, rest), result[written:])
        context.put(result, self.name)

    def _keep(self, source: Tensor, past: Tensor | None, context: SliceContext) -> None:
        """Keep the last source frames for the next slice."""
        kept, count = self._reach - 1, len(source)
        alone = context.carry.first and count < self._times
        tail = source
        if past is not None and count < kept:
            tail = torch.cat([past[count - kept :], source])
        context.keep(self._filed(alone=alone), last_frames(tail, kept))

    def _write(
        self,
        phases: Sequence[KernelPhases],
        bias: tuple[PhaseBias, ...],
        given: tuple[Tensor, Tensor],
        result: Tensor,
    ) -> None:
        """Write the frames that source frames become, of which `given` has the past first."""
        past, frames = given
        for number, (each, of_lines) in enumerate(zip(phases, bias, strict=True)):
            target = result[number :: self._times]
            each.write(frames, target, past)
            correct_lines(target, of_lines)


def table_of(fold: UpsamplerFold) -> Tensor:
    """Kernels of regular steps, [S * 4 * O, I, K, 2, 2]."""
    return fold.taps.permute(0, 2, 3, 1, 4, 5).flatten(0, 1)


class FastSeedVr2Upsampler:
    """An upsampler as the specification has it: widen, depth to space, convolve.

    Args:
        name: Module path.
        widen: The 1x1x1 convolution.
        conv: The 3x3x3 convolution.
        times: Output frames of each source frame.
    """

    def __init__(self, name: str, widen: AnyCausalConv, conv: AnyCausalConv, times: int) -> None:
        self.name = name
        self._widen, self._conv, self._times = widen, conv, times

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        wide = self._widen.of(context.take(), context).frames
        context.put(self._conv.of(self._unfolded(wide, context), context).frames, self.name)

    def _unfolded(self, wide: Tensor, context: SliceContext) -> Tensor:
        """Depth to space; the second frame of a clip is dropped where time doubles."""
        times = self._times
        count, channels, height, width = wide.shape
        channels //= 4 * times
        shape = (times * count, channels, 2 * height, 2 * width)
        large = context.workspace.fresh(shape)
        parts = wide.view(count, 2, 2, times, channels, height, width)
        for sy in range(2):
            for sx in range(2):
                for st in range(times):
                    large[st::times, :, sy::2, sx::2] = parts[:, sy, sx, st]
        if times == 2 and context.carry.first:
            large[1] = large[0]
            large = large[1:]
        return large


def last_frames(frames: Tensor, count: int) -> Tensor:
    """The last frames; where there are fewer, copies of the only one."""
    return frames[-count:] if len(frames) >= count else frames[-1:].expand(count, -1, -1, -1)


def _interior(bias: tuple[PhaseBias, ...]) -> Tensor:
    return torch.cat([part.interior for part in bias])


def _single(kernel: Tensor) -> Tensor:
    """A kernel over one frame."""
    return kernel.unsqueeze(2).contiguous(memory_format=torch.channels_last_3d)
