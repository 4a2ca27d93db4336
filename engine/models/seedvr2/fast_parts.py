"""What the fast form of the VAE is made of: norms, convolutions, attention, on frames.

Everything works on the frames [T, C, H, W] of one clip, channels last, without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.fast_statistics import Statistics
from engine.ops.attention.single_head import attend_single_head
from engine.ops.conv3d import Carry
from engine.ops.frame_conv import FrameConv
from engine.ops.norm import group_norm_silu, normalise, scale_and_shift
from engine.ops.workspace import Workspace
from engine.optimisations import VaeSwitches

Trace = Callable[[str, Tensor], None]


@dataclass(slots=True, kw_only=True)
class Flow:
    """What goes through all parts while one slice is worked on.

    The residual stream is taken out by a part and put back by it, so that nobody else holds it:
    its memory goes as soon as the part is done with it.
    """

    carry: Carry
    workspace: Workspace
    switches: VaeSwitches
    statistics: Statistics | None = None
    trace: Trace | None = None
    stream: Tensor | None = None
    batch: int = 0  # which clip of a batch this is; each has a carry of its own

    def take(self) -> Tensor:
        """The stream; it is the caller's now."""
        stream, self.stream = self.stream, None
        if stream is None:
            raise ValueError("the stream was taken and not put back")
        return stream

    def put(self, stream: Tensor, name: str = "") -> None:
        """Give the stream back; under `name` an observer sees it."""
        self.stream = stream
        if name:
            self.seen(name, stream)

    def seen(self, name: str, frames: Tensor) -> None:
        """Tell the observer, if there is one, what a part gave."""
        if self.trace is not None:
            self.trace(name, frames)

    def keep(self, name: str, tail: Tensor) -> None:
        """Keep a copy of the last frames that a part saw, unless no slice follows.

        What it kept before has been copied to where it is read, so its memory goes first.
        """
        if not self.carry.last:
            self.carry.forget((self.batch, name))
            self.carry.keep((self.batch, name), _dense_copy(tail))

    def keeps(self, name: str) -> bool:
        """Whether a part kept anything under this name in a slice before."""
        return self.carry.tail((self.batch, name)) is not None

    def kept(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """What a part kept in the slice before.

        Raises:
            ValueError: The carry is of another clip; a mistake in the caller.
        """
        tail = self.carry.tail((self.batch, name))
        if tail is None or tail.shape != shape:
            raise ValueError("the carry belongs to another clip, or was handed over before")
        return tail


class Norm:
    """GroupNorm of each frame by itself, with SiLU behind it or not.

    Args:
        name: Module path: what its statistics are filed under.
        affine: Weight and bias [C], float32 or float64 whatever the precision of the frames.
        groups: Divides C.
        eps: Added to the variance.
    """

    def __init__(self, name: str, affine: tuple[Tensor, Tensor], groups: int, eps: float) -> None:
        self.name = name
        self._affine = affine
        self._groups, self._eps = groups, eps

    def write(self, frames: Tensor, out: Tensor, flow: Flow, *, silu: bool = True) -> None:
        """Write the normalised frames into `out`, a view of some buffer."""
        kernels = flow.switches.kernels
        if flow.statistics is not None:
            moments = flow.statistics.moments(self.name, frames, self._groups, kernels=kernels)
            scale, shift = scale_and_shift(moments, *self._affine, self._eps)
            normalise(frames, scale, shift, out, silu=silu, kernels=kernels)
        elif flow.switches.fused_norm:
            sizes = (self._groups, self._eps)
            group_norm_silu(frames, *self._affine, *sizes, out, silu=silu, kernels=kernels)
        else:
            out.copy_(self._in_steps(frames, silu=silu))

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """As the plain form does it, on contiguous frames for the same reason (see `FrameNorm`)."""
        weight, bias = (part.to(frames.dtype) for part in self._affine)
        normed = F.group_norm(frames.contiguous(), self._groups, weight, bias, self._eps)
        return F.silu(normed) if silu else normed


class Conv:
    """A causal convolution and its window: its new frames, with the past in front if it has one.

    Args:
        name: Module path: what its carry is filed under.
        conv: The convolution.
        pad: Lines of zeros to the right and below (downsamplers).
    """

    def __init__(self, name: str, conv: FrameConv, *, pad: int = 0) -> None:
        self.name = name
        self._conv = conv
        self._pad = pad

    def of(self, frames: Tensor, flow: Flow) -> Tensor:
        """Convolve frames as they are."""
        if self._conv.copies == 0 and self._pad == 0:
            return self._conv.run(frames)
        window = self.window(frames, flow, lambda out: out.copy_(frames))
        return self.over(window, flow)

    def normed(self, norm: Norm, frames: Tensor, flow: Flow, *, silu: bool = True) -> Tensor:
        """The window over what `norm` makes of the frames."""
        return self.window(frames, flow, lambda out: norm.write(frames, out, flow, silu=silu))

    def window(self, frames: Tensor, flow: Flow, write: Callable[[Tensor], object]) -> Tensor:
        """What the convolution runs over; valid until the next window.

        Args:
            frames: [T, C, H, W], for their shape.
            flow: Holds the past, gets the new one.
            write: Fills its argument, [T, C, H, W].
        """
        before = self._before(frames.shape[0], flow)
        if flow.switches.ring_buffers:
            window = self._in_ring(frames, before, flow, write)
        else:
            window = self._joined(frames, before, flow, write)
        kept = self._conv.history
        if kept:
            flow.keep(self.name, last_frames(window, kept))
        return window

    def over(self, window: Tensor, flow: Flow, into: Tensor | None = None) -> Tensor:
        """Convolve a window; add to `into` in place if it is given."""
        folded = flow.carry.first and self._folds(window.shape[0], flow)
        run = self._conv.run_first if folded else self._conv.run
        return run(window, into)

    def _folds(self, count: int, flow: Flow) -> bool:
        """Whether a clip's first `count` frames go without copies in front of them.

        Never true of a window that has copies: that is longer than one frame, and its clip does
        not fold longer ones.
        """
        switches = flow.switches
        wanted = switches.first_frame_fold or (switches.image_mode and count == 1)
        return wanted and self._conv.folds

    def _before(self, count: int, flow: Flow) -> int:
        if not flow.carry.first:
            return self._conv.history
        return 0 if self._folds(count, flow) else self._conv.copies

    def _in_ring(
        self, frames: Tensor, before: int, flow: Flow, write: Callable[[Tensor], object]
    ) -> Tensor:
        count, channels, height, width = frames.shape
        shape = (before + count, channels, height + self._pad, width + self._pad)
        window = flow.workspace.frames("window", shape)
        write(window[before:, :, :height, :width])
        if self._pad:
            window[:, :, height:] = 0
            window[:, :, :, width:] = 0
        if before:
            window[:before] = self._past(window[before:], before, flow)
        return window

    def _joined(
        self, frames: Tensor, before: int, flow: Flow, write: Callable[[Tensor], object]
    ) -> Tensor:
        """The way without a ring: fresh memory, padding and joining are copies."""
        _, channels, height, width = frames.shape
        fresh = flow.workspace.fresh((frames.shape[0], channels, height, width))
        write(fresh)
        if self._pad:
            fresh = F.pad(fresh, (0, self._pad, 0, self._pad))
        if not before:
            return fresh
        past = self._past(fresh, before, flow)
        return torch.cat([past.expand(before, -1, -1, -1), fresh])

    def _past(self, frames: Tensor, before: int, flow: Flow) -> Tensor:
        if flow.carry.first:
            return frames[:1]
        return flow.kept(self.name, (before, *frames.shape[1:]))


class ResidualBlock:
    """Norm, SiLU and convolution twice, added to the stream.

    Memory: the window, and the frames between the convolutions or the stream of new width.
    """

    def __init__(
        self, name: str, norms: tuple[Norm, Norm], convs: tuple[Conv, Conv], shortcut: Conv | None
    ) -> None:
        self.name = name
        self._norms, self._convs = norms, convs
        self._shortcut = shortcut

    def run(self, flow: Flow) -> None:
        """Work on the stream."""
        stream = flow.take()
        first, second = self._convs
        inner = first.over(first.normed(self._norms[0], stream, flow), flow)
        window = second.normed(self._norms[1], inner, flow)
        del inner
        if self._shortcut is not None:
            stream = self._shortcut.of(stream, flow)
        if flow.switches.in_place:
            flow.put(second.over(window, flow, stream), self.name)
        else:
            flow.put(stream + second.over(window, flow), self.name)


class Attention:
    """Self-attention over the positions of each frame, one head, added to the stream.

    Args:
        name: Module path.
        norm: Before the projections.
        qkv: Weight [3*C, C] and bias [3*C] of the three projections.
        out: Weight and bias of the last one.
    """

    def __init__(
        self, name: str, norm: Norm, qkv: tuple[Tensor, Tensor], out: tuple[Tensor, Tensor]
    ) -> None:
        self.name = name
        self._norm, self._qkv, self._out = norm, qkv, out

    def run(self, flow: Flow) -> None:
        """Work on the stream."""
        stream = flow.take()
        count, channels, height, width = stream.shape
        normed = flow.workspace.frames("window", (count, channels, height, width))
        self._norm.write(stream, normed, flow, silu=False)
        q, k, v = F.linear(_tokens(normed), *self._qkv).chunk(3, dim=-1)
        found = attend_single_head(q, k, v, chunked=flow.switches.chunked_attention)
        change = F.linear(found, *self._out).transpose(1, 2).reshape(stream.shape)
        flow.put(stream.add_(change) if flow.switches.in_place else stream + change, self.name)


def last_frames(frames: Tensor, count: int) -> Tensor:
    """The last frames; where there are fewer, copies of the only one."""
    return frames[-count:] if len(frames) >= count else frames[-1:].expand(count, -1, -1, -1)


def _tokens(frames: Tensor) -> Tensor:
    """[T, C, H, W] as [T, H*W, C]; a view of channels-last frames."""
    return frames.permute(0, 2, 3, 1).flatten(1, 2)


def _dense_copy(frames: Tensor) -> Tensor:
    """A copy of its own, in the layout of `frames`."""
    last = frames.stride(1) == 1
    return frames.clone(memory_format=torch.channels_last if last else torch.contiguous_format)
