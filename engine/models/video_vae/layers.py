"""Parts that the fast variants of all families have, and the state that they share for one slice.

Everything works on the frames [T, C, H, W] of one clip, channels last, without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.ops.attention.single_head import attend_single_head
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.frame_conv import FrameConv
from engine.ops.conv.workspace import Workspace
from engine.ops.kernels.group_norm import BlockStatistics
from engine.settings.optimisations import VaeSwitches

Trace = Callable[[str, Tensor], None]
Write = Callable[[Tensor, Tensor | None], None]
AddResidual = Callable[[Tensor, Tensor, Tensor], BlockStatistics | None]


@dataclass(frozen=True, slots=True, eq=False)
class NormInput:
    """Frames on their way into a norm.

    Attributes:
        frames: [T, C, H, W].
        bias: [C] float32 (float64) of the convolution that made them, not added yet; None: nothing.
        statistics: Statistics of the frames, where the step that made them gave them.
    """

    frames: Tensor
    bias: Tensor | None = None
    statistics: BlockStatistics | None = None

    def finished(self) -> Tensor:
        """The frames with their bias, which is added in place."""
        if self.bias is None:
            return self.frames
        return self.frames.add_(self.bias.to(self.frames.dtype)[:, None, None])


@dataclass(slots=True, kw_only=True)
class SliceContext:
    """State of one slice on its way through all parts.

    A part takes the residual stream out and puts its result back: no other part holds the stream,
    so its memory is freed as soon as the part has finished with it.
    """

    carry: Carry
    workspace: Workspace
    switches: VaeSwitches
    trace: Trace | None = None
    stream: Tensor | None = None
    stream_statistics: BlockStatistics | None = None  # None where its last part gave none
    batch: int = 0  # which clip of a batch this is; each has a carry of its own

    def take(self) -> Tensor:
        """The stream, which the caller owns from now on."""
        return self.take_for_norm().frames

    def take_for_norm(self) -> NormInput:
        """The stream, which the caller owns from now on, with its statistics if there are any."""
        stream, self.stream = self.stream, None
        statistics, self.stream_statistics = self.stream_statistics, None
        if stream is None:
            raise ValueError("the stream was taken and not put back")
        return NormInput(stream, statistics=statistics)

    def put(
        self, stream: Tensor, name: str = "", statistics: BlockStatistics | None = None
    ) -> None:
        """Put the stream back; the observer gets it under `name`, if there is one."""
        self.stream, self.stream_statistics = stream, statistics
        if name:
            self.seen(name, stream)

    def seen(self, name: str, frames: Tensor) -> None:
        """Pass the result of a part to the observer, if there is one."""
        if self.trace is not None:
            self.trace(name, frames)

    def keep(self, name: str, tail: Tensor) -> None:
        """Keep a copy of the last frames that a part saw, unless no slice follows.

        Frames kept before have already been copied to where they are read: they are freed first.
        """
        if not self.carry.last:
            self.carry.forget((self.batch, name))
            self.carry.keep((self.batch, name), _dense_copy(tail))

    def room(self, name: str, tail: Tensor) -> Tensor:
        """Memory for last frames of this shape, in the place of those kept before.

        The caller fills it, and has copied what was kept before to where it is read.
        """
        self.carry.forget((self.batch, name))
        made = torch.empty_like(tail, memory_format=_format_of(tail))
        self.carry.keep((self.batch, name), made)
        return made

    def keeps(self, name: str) -> bool:
        """Whether a part kept frames under this name in an earlier slice."""
        return self.carry.tail((self.batch, name)) is not None

    def kept(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Frames that a part kept in the slice before.

        Raises:
            ValueError: The carry is of another clip; an error in the caller.
        """
        tail = self.carry.tail((self.batch, name))
        if tail is None or tail.shape != shape:
            raise ValueError("the carry belongs to another clip, or was handed over before")
        return tail


class Part(Protocol):
    """A step of encoder or decoder."""

    name: str

    def run(self, context: SliceContext) -> None:
        """Apply the part to the stream."""
        ...


class Norm(Protocol):
    """A norm before a convolution."""

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames, through SiLU or not.

        Args:
            given: [T, C, H, W], may be changed if a bias is left.
            out: [T, C, H, W], a view of a buffer.
            context: Context of the slice.
            silu: Apply SiLU.
            kept: [n, C, H, W], gets the last n frames of `out`, too.
        """
        ...


def keep_last(frames: Tensor, kept: Tensor | None) -> None:
    """Copy the last frames into `kept`, unless that is None."""
    if kept is not None:
        kept.copy_(frames[-len(kept) :])


def _dense_copy(frames: Tensor) -> Tensor:
    """A copy of its own, in the layout of `frames`."""
    return frames.clone(memory_format=_format_of(frames))


def _format_of(frames: Tensor) -> torch.memory_format:
    return torch.channels_last if frames.stride(1) == 1 else torch.contiguous_format


class ConvInput(NamedTuple):
    """Input of a convolution; valid until the next one is made.

    Attributes:
        frames: The new frames, with their past in front where they have one.
        folded: They are the first of a clip; their past is folded into the weights.
    """

    frames: Tensor
    folded: bool


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

    def of(self, frames: Tensor, context: SliceContext) -> Tensor:
        """Convolve frames as they are."""
        before, folded = self._lies(frames.shape[0], context)
        if before or self._pad:
            return self.over(self.window(frames, context, partial(_copied, frames)))
        self._keep(frames, context)
        return self.over(ConvInput(frames, folded))

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

    def over(self, window: ConvInput, into: Tensor | None = None) -> Tensor:
        """Convolve a window; add to `into` in place if it is given."""
        run = self._conv.run_first if window.folded else self._conv.run
        return run(window.frames, into)

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
        """Without a ring: fresh memory, padding and joining are copies."""
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


def _copied(frames: Tensor, out: Tensor, kept: Tensor | None) -> None:
    keep_last(out.copy_(frames), kept)


class ConvLayer:
    """A convolution that belongs to no block, or is all of one."""

    def __init__(self, name: str, conv: CausalConv) -> None:
        self.name = name
        self._conv = conv

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        context.put(self._conv.of(context.take(), context), self.name)


class OutputLayer:
    """Norm, SiLU and the last convolution."""

    def __init__(self, norm: Norm, conv: CausalConv) -> None:
        self.name = conv.name
        self._norm, self._conv = norm, conv

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        window = self._conv.normed(self._norm, context.take_for_norm(), context)
        context.put(self._conv.over(window), self.name)


class Mark:
    """Passes the stream to the observer under the name of several parts together."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, context: SliceContext) -> None:
        """Show the stream as it is."""
        given = context.take_for_norm()
        context.put(given.frames, self.name, given.statistics)


class ResidualLayer:
    """Norm, SiLU and convolution twice, added to the stream.

    Args:
        name: Module path.
        norms: Before the convolutions.
        convs: The second one without its bias where `add` is given.
        shortcut: Widens the stream; None: it is as wide as the result.
        add: Adds a change and a bias to the stream in place, and gives statistics of the sum.

    Memory: the input window, and the frames between the convolutions or the widened stream.
    """

    def __init__(
        self,
        name: str,
        norms: tuple[Norm, Norm],
        convs: tuple[CausalConv, CausalConv],
        shortcut: CausalConv | None,
        add: AddResidual | None = None,
    ) -> None:
        self.name = name
        self._norms, self._convs = norms, convs
        self._shortcut, self._add = shortcut, add

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        given = context.take_for_norm()
        first, second = self._convs
        inner = first.over(first.normed(self._norms[0], given, context))
        window = second.normed(self._norms[1], NormInput(inner, first.bias), context)
        stream = given.frames
        del inner, given
        if self._shortcut is not None:
            stream = self._shortcut.of(stream, context)
        if self._add is not None and second.bias is not None:
            statistics = self._add(stream, second.over(window), second.bias)
            context.put(stream, self.name, statistics)
        elif context.switches.in_place:
            context.put(second.over(window, stream), self.name)
        else:
            context.put(stream + second.over(window), self.name)


class AttentionLayer:
    """Self-attention over the positions of each frame, one head, added to the stream.

    Args:
        name: Module path.
        norm: Before the projections.
        qkv: Weight [3*C, C] and bias [3*C] of the three projections.
        out: Weight and bias of the output projection.
    """

    def __init__(
        self,
        name: str,
        norm: Norm,
        qkv: tuple[Tensor, Tensor],
        out: tuple[Tensor, Tensor],
    ) -> None:
        self.name = name
        self._norm, self._qkv, self._out = norm, qkv, out

    def run(self, context: SliceContext) -> None:
        """Work on the stream."""
        given = context.take_for_norm()
        stream = given.frames
        count, channels, height, width = stream.shape
        normed = context.workspace.frames("window", (count, channels, height, width))
        self._norm.write(given, normed, context, silu=False)
        q, k, v = F.linear(_tokens(normed), *self._qkv).chunk(3, dim=-1)
        switches = context.switches
        found = attend_single_head(
            q, k, v, chunked=switches.chunked_attention, kernels=switches.kernels
        )
        change = F.linear(found, *self._out).transpose(1, 2).reshape(stream.shape)
        context.put(
            stream.add_(change) if context.switches.in_place else stream + change, self.name
        )


def _tokens(frames: Tensor) -> Tensor:
    """[T, C, H, W] as [T, H*W, C]; a view of channels-last frames."""
    return frames.permute(0, 2, 3, 1).flatten(1, 2)
