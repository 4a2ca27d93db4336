"""Convolution over K neighbouring frames, by the method that suits device and precision best."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops import launches
from engine.ops.choices import uses
from engine.ops.conv import folds
from engine.ops.trials import trial

Form = Literal["2d", "3d"]
_HALF = (torch.float16, torch.bfloat16)
_PIECE_BYTES = 96 * 2**20  # of stacked frames, or of results that are added, at a time
# Values of the larger of a 3-D convolution's input and result: beyond it cuDNN counts offsets in 64
# bits, by methods that took more than half a minute for 9 frames of 1080p on an H100.
_MOST_VALUES = 2**31 - 1


class TemporalConv:
    """Weights over K frames, applied to frames [N, I, H, W]; no padding in time.

    Output step j is the sum over k of `conv2d(frames[stride * j + k], weight[:, :, k])`, plus the
    bias. Three methods compute it:

    - sums: K convolutions in two dimensions, added up. On a CPU each adds into the result
      as it goes, and the result may be the residual stream itself.
    - 3-D: one call. In half precision the sum over k is then rounded once, not K times.
    - stacked: the K frames side by side as channels, calls in two dimensions: one rounding too, at
      the price of a copy; for half precision where 3-D convolutions are broken.

    A GPU computes no more steps in a call than `engine.ops.launches` allows.

    Args:
        weight: [O, I, K, kh, kw], on its device in its final dtype.
        bias: [O], or None.
        padding: Zeros on each side of height and width.
        stride: Over time and over space.
        form: "3d" where one call in three dimensions works and is the fastest, else "2d".
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        *,
        padding: int,
        stride: tuple[int, int] = (1, 1),
        form: Form = "2d",
    ) -> None:
        self.weight = weight
        self.bias = bias
        self.reach = weight.shape[2]
        self.stride = stride[0]
        self._padding = padding
        self._space = stride[1]
        self._form = form

    def with_taps(self, weight: Tensor, bias: Tensor | None = None) -> TemporalConv:
        """Convolution over other frames: weight [O, I, k, kh, kw], ready for use."""
        stride = (self.stride, self._space)
        return TemporalConv(weight, bias, padding=self._padding, stride=stride, form=self._form)

    def steps(self, frames: int) -> int:
        """Output steps that `frames` input frames give."""
        return max(0, (frames - self.reach) // self.stride + 1)

    def adds_up(self, dtype: torch.dtype) -> bool:
        """Whether a sum over frames is made of calls that each add into the result."""
        return self._form == "2d" and dtype not in _HALF

    def apply(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """All output steps of `frames`.

        Args:
            frames: [N, I, H, W], channels last (contiguous works too, slower).
            into: [steps, O, H', W'] to add to, or None.

        Returns:
            [steps, O, H', W']: a new tensor, or `into` with the sum added in place.

        Memory: the result. On a GPU, and in half precision, of as many steps at a time as have
            96 MiB, or of one: stacked frames, and results that are added. In three dimensions
            also the result of as many steps as one call can take, where that is not all of them.
        """
        steps, step = self.steps(frames.shape[0]), self._operations(frames)
        most = launches.pieces("convolution", steps, step, frames.device, frames.dtype)
        if self.reach > 1 and self._form == "3d" and (few := self._steps_of_a_call(frames)):
            most = min(most, few)
            if into is not None:
                most = min(most, max(1, _PIECE_BYTES // into[:1].nbytes))
            return self._in_pieces(frames, into, most, self._in_3d)
        if self.reach > 1 and not self.adds_up(frames.dtype):
            most = min(most, max(1, _PIECE_BYTES // (self.reach * frames[:1].nbytes)))
            stacked = partial(self._stacked, weight=self._stacked_weight(frames))
            return self._in_pieces(frames, into, most, stacked)
        if most < steps:
            return self._in_pieces(frames, into, most, self._added_up)
        return self._added_up(frames, into)

    def _added_up(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """All output steps, from a call for each tap over time."""
        for k in range(self.reach):
            into = self._accumulate(into, self._thinned(frames, k), k)
        return _given(into)

    def _operations(self, frames: Tensor) -> float:
        """Floating-point operations of an output step."""
        pixels = frames.shape[2] * frames.shape[3] / self._space**2
        return 2.0 * self.weight.numel() * pixels

    def _thinned(self, frames: Tensor, k: int) -> Tensor:
        steps = self.steps(frames.shape[0])
        part = frames[k : k + self.stride * steps : self.stride]
        return part.contiguous(memory_format=memory_format(frames)) if self.stride > 1 else part

    def _accumulate(self, into: Tensor | None, part: Tensor, k: int) -> Tensor:
        weight = self.weight[:, :, k]
        bias = self.bias if k == 0 else None
        if into is None:
            return self._in_2d(part, weight, bias)
        if part.shape[0] and adds_in_place(part.device.type, part.dtype):
            return _add_in_place(into, part, weight, bias, (self._space, self._padding))
        return into.add_(self._in_2d(part, weight, bias))

    def _in_2d(self, part: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        operations = self._operations(part) * part.shape[0] * weight.numel() / self.weight.numel()
        with launches.trials_bounded(operations, part.device, part.dtype):
            return F.conv2d(part, weight, bias, self._space, self._padding)

    def _steps_of_a_call(self, frames: Tensor) -> int:
        """Steps of `frames` that one call in three dimensions may compute; 0: none."""
        steps = self.steps(frames.shape[0])
        if not steps:
            return 0
        frame = frames[0].numel()
        result = self.weight.shape[0] * frame // (frames.shape[1] * self._space**2)
        of_input = (_MOST_VALUES // frame - self.reach) // self.stride + 1
        return max(0, min(steps, of_input, _MOST_VALUES // max(1, result)))

    def _in_3d(self, frames: Tensor) -> Tensor:
        stride = (self.stride, self._space, self._space)
        padding = (0, self._padding, self._padding)
        clip = frames.movedim(0, 1).unsqueeze(0)
        operations = self._operations(frames) * self.steps(frames.shape[0])
        with launches.trials_bounded(operations, frames.device, frames.dtype):
            return F.conv3d(clip, self.weight, self.bias, stride, padding)[0].movedim(0, 1)

    def _stacked(self, frames: Tensor, weight: Tensor) -> Tensor:
        parts = [self._thinned(frames, k) for k in range(self.reach)]
        return self._in_2d(torch.cat(parts, dim=1), weight, self.bias)

    def _stacked_weight(self, frames: Tensor) -> Tensor:
        weight = self.weight.movedim(2, 1).flatten(1, 2)
        return weight.contiguous(memory_format=memory_format(frames))

    def _in_pieces(
        self, frames: Tensor, into: Tensor | None, most: int, convolve: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Convolve frames, some steps at a time.

        Args:
            frames: All of them.
            into: See `apply`.
            most: Steps at a time.
            convolve: Convolution of some frames.
        """
        steps = self.steps(frames.shape[0])
        if steps <= most:
            found = convolve(frames)
            return found if into is None else into.add_(found)
        whole = into
        for start in range(0, steps, most):
            end = min(steps, start + most)
            last = self.stride * (end - 1) + self.reach
            found = convolve(frames[self.stride * start : last])
            if whole is None:
                whole = _empty_as(found, steps)
            part = whole[start:end]
            part.copy_(found) if into is None else part.add_(found)
            del found  # or it would wait for the next one
        return _given(whole)


def memory_format(frames: Tensor) -> torch.memory_format:
    """Channels last where the frames are, else contiguous."""
    last = frames.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def laid_out(weight: Tensor, form: Form) -> Tensor:
    """Weights [O, I, K, kh, kw] with the channels innermost, as a method reads them.

    Sums read one tap at a time: taps that are apart in memory save a copy in each call, a fifth of
    the time of a convolution of 1024 channels on frames of 16 x 16.
    """
    if form == "3d":
        return weight.contiguous(memory_format=torch.channels_last_3d)
    return weight.permute(2, 0, 3, 4, 1).contiguous().permute(1, 4, 0, 2, 3)


def _empty_as(piece: Tensor, steps: int) -> Tensor:
    """[steps, O, H, W], laid out as a piece of it, whose strides may count its own steps."""
    like: dict[str, Any] = {"dtype": piece.dtype, "device": piece.device}
    return torch.empty((steps, *piece.shape[1:]), memory_format=memory_format(piece), **like)


def _given(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise ValueError("a convolution without taps")
    return tensor


def _in_place_operator() -> Callable[..., Tensor]:
    return torch.ops.mkldnn._convolution_pointwise_.binary


def _add_in_place(
    into: Tensor, part: Tensor, weight: Tensor, bias: Tensor | None, shape: tuple[int, int]
) -> Tensor:
    """`into += conv2d(part)` inside oneDNN: no second result, no second pass over memory."""
    sides = ([shape[1]] * 2, [shape[0]] * 2, [1, 1], 1)  # padding, stride, dilation, groups
    _in_place_operator()(into, part, weight, bias, *sides, "add", 1.0, None, [], None)
    return into


def adds_in_place(device: str, dtype: torch.dtype) -> bool:
    """Whether oneDNN's convolution that adds into its result exists and is right."""
    serves = device == "cpu" and dtype is torch.float32
    return serves and uses(device, "onednn", ("sums in place",), _fault_in_place)


@trial(2e-5, AttributeError, RuntimeError, TypeError)
def _fault_in_place() -> float:
    """Fault of the operator, which is not part of torch's public interface.

    It is tried on small tensors, into a part of a larger one as it is used here; on any difference
    the ordinary method is used.
    """
    part = torch.linspace(-1, 1, 2 * 4 * 25).reshape(2, 5, 5, 4).permute(0, 3, 1, 2)
    weight = torch.linspace(1, -1, 8 * 4 * 9).reshape(8, 4, 3, 3)
    whole = torch.ones(3, 5, 5, 8).permute(0, 3, 1, 2)
    expected = torch.ones_like(whole)
    expected[1:] += F.conv2d(part, weight, padding=1)
    _add_in_place(whole[1:], part, weight, None, (1, 1))
    return float((whole - expected).abs().max())


# --- Winograd's F(2, 3)


class WinogradConv:
    """A convolution over three frames, stride 1 in time, in pairs of outputs; more rounding.

    Args:
        weight: [O, I, 3, kh, kw], in the precision in which folds are computed.
        direct: Convolution by its taps, with its bias, in its final dtype.

    Memory: four taps.
    """

    def __init__(self, weight: Tensor, direct: TemporalConv) -> None:
        self._direct = direct
        tables = folds.temporal_winograd(weight).unsqueeze(3)
        dtype = direct.weight.dtype
        self._taps = [direct.with_taps(laid_out(table.to(dtype), "2d")) for table in tables]

    def apply(self, frames: Tensor, into: Tensor | None = None) -> Tensor:
        """Convolve as `TemporalConv.apply`; a last odd frame by its three taps.

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
