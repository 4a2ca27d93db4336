"""Causal convolution over frames whose past is either folded away or in front of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.ops.conv import folds
from engine.ops.conv.causal_conv import ConvShape
from engine.ops.conv.temporal_conv import Form, TemporalConv, WinogradConv, laid_out
from engine.ops.conv.trial import LayerKind, choose_convolution
from engine.ops.kernels.conv import ConvKernel, find
from engine.ops.kernels.conv_tiles import DTYPE, UNIT, Taps
from engine.settings.optimisations import Convolution


class Method(NamedTuple):
    """Way in which a layer is computed.

    Attributes:
        form: See `TemporalConv`.
        winograd: It takes F(2, 3).
        kernel: Our kernel computes it instead; None: it does not.
    """

    form: Form
    winograd: bool = False
    kernel: ConvKernel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvOptions:
    """Ways of computing a convolution; all combinations are equal but for rounding."""

    dtype: torch.dtype  # dtype of the tables that are kept; folds are rounded once to it
    form: Convolution  # see `TemporalConv`; "auto" is what a trial of each layer on a GPU finds
    fold: bool = True  # make the tables of `FrameConv.run_first`
    winograd: bool = False  # see `WinogradConv`; with "auto" where the trial finds it the fastest
    kernels: bool = False  # "auto" may choose our kernel
    fp16_sums: bool = False  # which may add products up in half precision, see `find`

    def method(
        self, weight: Sequence[int], device: torch.device, shape: ConvShape, parts: int = 1
    ) -> Method:
        """The way in which a layer is computed.

        Args:
            weight: O, I, K, kh, kw.
            device: Device of the layer.
            shape: Padding and strides of the layer.
            parts: Layers that our kernel would compute in its place, each of a share of O.
        """
        kernel = self._kernel_for(weight, device, shape, parts)
        if self.form == "kernel":
            return Method("2d", kernel=kernel)
        if self.form != "auto":
            return Method(self.form, self.winograd)
        if kernel is None and weight[2] == 1:
            return Method("2d")
        stride = (shape.time_stride, shape.space_stride)
        layer = LayerKind(tuple(weight), shape.padding, stride)
        choice = choose_convolution(device, self.dtype, layer, kernel)
        if choice.form == "kernel":
            return Method("2d", kernel=kernel)
        return Method(choice.form, self.winograd and choice.winograd)

    def _kernel_for(
        self, weight: Sequence[int], device: torch.device, shape: ConvShape, parts: int
    ) -> ConvKernel | None:
        """Our kernel where it may be used and works: that of one of the parts."""
        if not self.kernels or self.dtype != DTYPE or self.form not in ("auto", "kernel"):
            return None
        outer, inner, reach, rows, columns = weight
        taps = Taps(outer // parts, inner, reach, rows, columns, shape.space_stride)
        store = math.gcd(taps.outer, UNIT)
        return find(taps, device, store=store, half_sums=self.fp16_sums)


class FrameConv:
    """Causal convolution [O, I, K, kh, kw] on frames [T, I, H, W]; with copies before them K = 3.

    Two entry points with equal results: `run` on frames that have their `history` in front;
    `run_first` on the first frames of a clip, whose past is folded into the weights
    (docs/vae-folds.md): taps on copies of frame 0 are summed, taps on zeros left out. One frame
    alone then needs one convolution in two dimensions.

    Args:
        weight: On the device, in the precision in which folds are computed.
        bias: [O]; None where it is added elsewhere.
        shape: Padding and strides.
        options: Precision, folds.
        method: Way in which it is computed, not by our kernel; None: that of `options`.

    Memory: the weights; for the fold of copies one tap more, and again on a CPU once an
        image came.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        shape: ConvShape,
        options: ConvOptions,
        method: Method | None = None,
    ) -> None:
        self._shape, self._dtype, self._fold = shape, options.dtype, options.fold
        self._bias = None if bias is None else bias.to(options.dtype)
        method = method or options.method(weight.shape, weight.device, shape)
        self._form = method.form
        self._all = TemporalConv(
            self._laid_out(weight),
            self._bias,
            padding=shape.padding,
            stride=(shape.time_stride, shape.space_stride),
            form=self._form,
        )
        self._run: TemporalConv | WinogradConv = self._all
        self._image: TemporalConv | None = None
        self._older: TemporalConv | None = None  # taps of frame 0 in output 1: W0 + W1, or one
        if self._all.reach == 1:
            return
        kept = self._all.weight
        self._past = self._all.with_taps(kept[:, :, :-1])
        self._oldest = self._all.with_taps(kept[:, :, :1])
        self._newest = self._all.with_taps(kept[:, :, -1:], self._bias)
        if options.fold and shape.time_stride == 1:  # output 1 sees the past, too
            self._older = self._older_taps(weight)
        if method.winograd and shape.time_stride == 1 and self._all.reach == 3:
            self._run = WinogradConv(weight, self._all)

    @property
    def history(self) -> int:
        """Frames of the past that are in front of the frames given to `run`."""
        return max(0, self._all.reach - self._shape.time_stride)

    @property
    def lead(self) -> int:
        """Frames that stand for the past of a clip where nothing is folded."""
        return 0 if self._shape.past == "none" else self._all.reach - 1

    @property
    def folds(self) -> bool:
        """Whether `run_first` works."""
        return self._fold or self.lead == 0

    def past(self, frames: Tensor) -> Tensor:
        """A frame [1, I, H, W] of the past of a clip that begins with these frames."""
        if self._shape.past == "copies":
            return frames[:1]
        return frames.new_zeros(1, 1, 1, 1).expand(1, *frames.shape[1:])

    def tail(self, window: Tensor) -> Tensor:
        """The last `history` frames of a window, from the past where it is shorter than that."""
        count = self.history
        if window.shape[0] >= count:
            return window[window.shape[0] - count :]
        if self._shape.past == "copies":
            return window[:1].expand(count, -1, -1, -1)
        return torch.cat([self.past(window), window])

    def run(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """Convolve frames [history + T, I, H, W]; add to `into` in place when it is given."""
        return self._run.apply(frames, into)

    def run_first(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """Convolve the first frames [T, I, H, W] of a clip; add to `into` when it is given.

        Raises:
            ValueError: The tables of the fold were not made.
        """
        if self.lead == 0:
            return self.run(frames, into)
        if not self._fold:
            raise ValueError("made without the first-frame fold")
        if frames.shape[0] == 1:
            image = self._image or self._image_taps()
            if frames.device.type == "cpu":  # there it is made in no time, and memory is dear
                self._image = image
            return image.apply(frames, into)
        if self._older is not None and self._all.adds_up(frames.dtype):
            return self._added_first(frames, self._older, into)
        parts = [self._image_taps().apply(frames[:1])]
        if self._older is not None and self._all.reach > 2:  # with two taps no past is left
            parts.append(self._second_taps(self._older).apply(frames[:2]))
        if self._all.steps(frames.shape[0]):
            parts.append(self.run(frames))
        found = torch.cat(parts)
        return found if into is None else into.add_(found)

    def _added_first(self, frames: Tensor, older: TemporalConv, into: Tensor | None) -> Tensor:
        """The first frames by sums; copies of frame 0 add the same to both first outputs."""
        into = self._newest.apply(frames, into)
        if self._shape.past == "zeros":
            older.apply(frames[:-1], into[1:])
            if into.shape[0] > 2 and self._all.reach > 2:
                self._oldest.apply(frames[:-2], into[2:])
            return into
        into[:2].add_(older.apply(frames[:1]))
        if into.shape[0] > 2:
            self._past.apply(frames[:-1], into[2:])
        return into

    def _image_taps(self) -> TemporalConv:
        """Weight of output 0: W0 + W1 + W2, rounded once, or W2 alone.

        A CPU keeps the sum for images; a video needs it once a clip.
        """
        if self._shape.past == "zeros":
            return self._newest
        exact = torch.promote_types(self._dtype, torch.float32)
        weight = self._all.weight.to(exact).sum(2, keepdim=True)
        return self._all.with_taps(self._laid_out(weight), self._bias)

    def _older_taps(self, weight: Tensor) -> TemporalConv:
        if self._shape.past == "zeros":
            return self._all.with_taps(self._all.weight[:, :, -2:-1])
        return self._all.with_taps(self._laid_out(folds.first_frame(weight)[1].unsqueeze(2)))

    def _second_taps(self, older: TemporalConv) -> TemporalConv:
        """Weight of output 1: those of frame 0 and W2, joined so that the sum is rounded once."""
        weight = torch.cat([older.weight, self._newest.weight], dim=2)
        return self._all.with_taps(self._laid_out(weight), self._bias)

    def _laid_out(self, weight: Tensor) -> Tensor:
        return laid_out(weight.to(self._dtype), self._form)
