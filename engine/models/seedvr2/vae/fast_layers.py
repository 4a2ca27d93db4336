"""Layers that only the fast variant of the SeedVR2 VAE has: norm and upsamplers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.layers import CausalConv, NormInput, SliceContext, keep_last
from engine.ops.conv.folds import PhaseBias, UpsamplerFold
from engine.ops.conv.frame_conv import ConvOptions, ConvShape
from engine.ops.conv.subpixel import interleave
from engine.ops.conv.temporal_conv import TemporalConv
from engine.ops.norm import compiled
from engine.ops.norm.group_norm import group_norm_silu

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


class FoldedUpsampler:
    """An upsampler in one step: small convolutions on the source's grid, then interleaving.

    Args:
        name: Module path: what its carry is filed under.
        fold: Tables on their device in their final dtype.
        options: For the form of its convolutions.

    Memory: the result, and the phases of one source frame or `_PHASE_BYTES` if that is more;
    without chunked upsampling those of all source frames. The tables are kept once.
    """

    def __init__(self, name: str, fold: UpsamplerFold, options: ConvOptions) -> None:
        self.name = name
        self._first_bias, self._second_bias = fold.first_bias, fold.second_bias
        self._bias = fold.bias
        self._times, self._reach = fold.taps.shape[:2]
        kernel = fold.taps.permute(0, 2, 3, 1, 4, 5).flatten(0, 1)
        kernel = kernel.contiguous(memory_format=torch.channels_last_3d)
        form, _ = options.form_of(kernel, ConvShape())
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
        count, _, height, width = source.shape
        kept, first = self._reach - 1, context.carry.first
        frames = self._times * count - (self._times - 1 if first else 0)
        channels = self._first_bias.rows.shape[-1]
        result = context.workspace.fresh((frames, channels, 2 * height, 2 * width))
        head = first or self._was_alone(context)
        window = source if first else self._with_past(source, context)
        alone = first and count < self._times
        context.keep(self._filed(alone=alone), last_frames(window, kept))
        del source
        done = self._start(window, result, context) if head else kept
        rest = window[done - kept :] if len(window) > done else window[:0]
        self._rest(rest, result[frames - self._times * (len(window) - done) :], context)
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

    def _filed(self, *, alone: bool) -> str:
        """A clip's only frame so far, of which the second half was dropped, has its own file."""
        return f"{self.name}.alone" if alone else self.name

    def _was_alone(self, context: SliceContext) -> bool:
        """Whether the slices before had one source frame together, and time doubles."""
        return self._times > 1 and not context.keeps(self.name)

    def _with_past(self, source: Tensor, context: SliceContext) -> Tensor:
        name = self._filed(alone=self._was_alone(context))
        return torch.cat([context.kept(name, (self._reach - 1, *source.shape[1:])), source])

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


class FastSeedVr2Upsampler:
    """An upsampler as the specification has it: widen, depth to space, convolve.

    Args:
        name: Module path.
        widen: The 1x1x1 convolution.
        conv: The 3x3x3 convolution.
        times: Output frames of each source frame.
    """

    def __init__(self, name: str, widen: CausalConv, conv: CausalConv, times: int) -> None:
        self.name = name
        self._widen, self._conv, self._times = widen, conv, times

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        large = self._unfolded(self._widen.of(context.take(), context), context)
        context.put(self._conv.of(large, context), self.name)

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
