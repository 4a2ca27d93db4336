"""Causal convolutions between slices: how the past of a clip comes before its new frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.video_vae.slice_context import Norm, NormInput, SliceContext, keep_last
from engine.ops.conv.causal_conv import Past
from engine.ops.conv.frame_conv import FrameConv
from engine.ops.conv.kernel_conv import Beside, KernelConv
from engine.ops.kernels.conv import Factors

Write = Callable[[Tensor, Tensor | None], None]


class ConvInput(NamedTuple):
    """Input of a convolution; valid until the next one is made.

    Attributes:
        frames: The new frames, with their past in front where they have one.
        folded: They are the first of a clip; their past is folded into the weights.
        past: Past frames that are not in front; None: they are, or there are none.
        norm: Norm and SiLU that `frames` still lack; None: they lack nothing.
    """

    frames: Tensor
    folded: bool
    past: Tensor | None = None
    norm: Factors | None = None


class CausalConv:
    """A causal convolution and its input window.

    Args:
        name: Module path: what its carry is filed under.
        conv: The convolution.
        pad: Lines of zeros to the right and below (downsamplers).
        late: It starts with the first frames it is given, in whichever slice: a clip's frame 0,
            which may be all of the first slice, does not pass through it.
        bias: [C] float32 (float64), what its results lack and its caller adds; None: nothing.
    """

    def __init__(
        self,
        name: str,
        conv: FrameConv,
        *,
        pad: int = 0,
        late: bool = False,
        bias: Tensor | None = None,
    ) -> None:
        self.name, self.bias = name, bias
        self._conv = conv
        self._pad, self._late = pad, late

    def of(self, frames: Tensor, context: SliceContext, into: Tensor | None = None) -> NormInput:
        """Convolve frames as they are; add to `into` in place if it is given."""
        before, folded = self._lies(frames.shape[0], context)
        if before or self._pad:
            window = self.window(frames, context, partial(_copied, frames))
        else:
            self._keep(frames, context)
            window = ConvInput(frames, folded)
        return self.over(window, into)

    def normed(self, norm: Norm, given: NormInput, context: SliceContext) -> ConvInput:
        """The input window of the normalised frames, through SiLU."""

        def write(out: Tensor, kept: Tensor | None) -> None:
            norm.write(given, out, context, kept=kept)

        return self.window(given.frames, context, write)

    def window(self, frames: Tensor, context: SliceContext, write: Write) -> ConvInput:
        """Make the input of the convolution.

        Args:
            frames: [T, C, H, W], for their shape.
            context: Has the past frames, gets the new ones.
            write: Fills its first argument, [T, C, H, W], and its second with the last of these
                frames, [n, C, H, W] or None.
        """
        before, folded = self._lies(frames.shape[0], context)
        if context.switches.ring_buffers:
            window = self._in_ring(frames, before, context, write)
        else:
            window = self._joined(frames, before, context, write)
            self._keep(window, context)
        return ConvInput(window, folded)

    def over(self, window: ConvInput, into: Tensor | None = None) -> NormInput:
        """Convolve a window; add to `into` in place if it is given."""
        run = self._conv.run_first if window.folded else self._conv.run
        return NormInput(run(window.frames, into), self.bias)

    def _lies(self, count: int, context: SliceContext) -> tuple[int, bool]:
        """Number of past frames in front of `count` new ones, and whether they fold."""
        if not self._begins(context):
            return self._conv.history, False
        switches = context.switches
        wanted = switches.first_frame_fold or (switches.image_mode and count == 1)
        folded = self._conv.folds and (wanted or not self._conv.lead)
        return 0 if folded else self._conv.lead, folded

    def _begins(self, context: SliceContext) -> bool:
        """Whether the frames are the first of the clip that the convolution sees."""
        return context.carry.first or (self._late and not context.keeps(self.name))

    def _keep(self, window: Tensor, context: SliceContext) -> None:
        if self._conv.history and not context.carry.last:
            context.keep(self.name, self._conv.tail(window))

    def _in_ring(self, frames: Tensor, before: int, context: SliceContext, write: Write) -> Tensor:
        count, channels, height, width = frames.shape
        shape = (before + count, channels, height + self._pad, width + self._pad)
        window = context.workspace.frames("window", shape)
        inside, kept = window[before:, :, :height, :width], None
        begins = self._begins(context)
        if before and not begins:
            window[:before] = self._past(window[before:], before, context)
            if before <= count and not self._pad and not context.carry.last:
                kept = context.room(self.name, window[-before:])
        write(inside, kept)
        if self._pad:
            window[:, :, height:] = 0
            window[:, :, :, width:] = 0
        if before and begins:
            window[:before] = self._past(window[before:], before, context)
        if kept is None:
            self._keep(window, context)
        return window

    def _joined(self, frames: Tensor, before: int, context: SliceContext, write: Write) -> Tensor:
        """Window without a ring: fresh memory, padded and joined by copies."""
        _, channels, height, width = frames.shape
        fresh = context.workspace.fresh((frames.shape[0], channels, height, width))
        write(fresh, None)
        if self._pad:
            fresh = F.pad(fresh, (0, self._pad, 0, self._pad))
        if not before:
            return fresh
        past = self._past(fresh, before, context)
        return torch.cat([past.expand(before, -1, -1, -1), fresh])

    def _past(self, frames: Tensor, before: int, context: SliceContext) -> Tensor:
        if self._begins(context):
            return self._conv.past(frames)
        return context.kept(self.name, (before, *frames.shape[1:]))


class KernelCausalConv:
    """A causal convolution by our kernel: its past stays where it was kept; see `CausalConv`.

    Where the kernel also normalises, norms write no more than the frames that are kept.

    Attributes:
        bias: None: results lack nothing.
    """

    bias: Tensor | None = None

    def __init__(self, name: str, conv: KernelConv, past: Past, *, late: bool = False) -> None:
        self.name = name
        self._conv, self._past, self._late = conv, past, late

    def of(self, frames: Tensor, context: SliceContext, into: Tensor | None = None) -> NormInput:
        """Convolve frames as they are; add to `into` in place if it is given."""
        past = self._take_past(frames, context)
        with self._keeping(frames, past, context) as kept:
            if kept is not None:
                kept.copy_(frames[-len(kept) :])
        return self.over(ConvInput(frames, past is None, past), into)

    def normed(self, norm: Norm, given: NormInput, context: SliceContext) -> ConvInput:
        """The input of the convolution of the normalised frames, through SiLU."""
        frames = given.frames
        past = self._take_past(frames, context)
        with self._keeping(frames, past, context) as kept:
            factors = norm.factors(given, context, kept) if self._conv.normalises else None
            if factors is None:
                frames = context.workspace.frames("window", (*frames.shape,))
                norm.write(given, frames, context, kept=kept)
        return ConvInput(frames, past is None, past, factors)

    def over(self, window: ConvInput, into: Tensor | None = None) -> NormInput:
        """Convolve a window; add to `into` in place if it is given."""
        run = self._conv.run_first if window.folded else self._conv.run
        found = run(Beside(window.frames, window.past, window.norm), into)
        return NormInput(found.frames, statistics=found.statistics)

    def _take_past(self, frames: Tensor, context: SliceContext) -> Tensor | None:
        """Frames kept in the slice before, which the caller holds; None: these begin a clip."""
        if context.carry.first or (self._late and not context.keeps(self.name)):
            return None
        if not self._conv.history:
            return frames[:0]
        return context.kept(self.name, (self._conv.history, *frames.shape[1:]))

    @contextmanager
    def _keeping(
        self, frames: Tensor, past: Tensor | None, context: SliceContext
    ) -> Iterator[Tensor | None]:
        """Memory for the last of the new frames, which the caller fills; None: nothing is kept.

        Where they are fewer than the next slice reads, those before them are added.
        """
        history = self._conv.history
        if not history or context.carry.last:
            yield None
            return
        kept = context.room(self.name, frames[:1].expand(history, -1, -1, -1))
        older = max(0, history - len(frames))
        yield kept[older:]
        if older and past is not None:
            kept[:older] = past[history - older :]
        elif older:
            kept[:older] = kept[older : older + 1] if self._past == "copies" else 0


AnyCausalConv = CausalConv | KernelCausalConv


def _copied(frames: Tensor, out: Tensor, kept: Tensor | None) -> None:
    keep_last(out.copy_(frames), kept)
