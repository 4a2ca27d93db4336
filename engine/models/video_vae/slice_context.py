"""State that all parts of a fast variant share for one slice, and what parts and norms are.

Everything works on the frames [T, C, H, W] of one clip, channels last, without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.ops.kernels.conv import Factors
from engine.ops.kernels.group_norm import BlockStatistics
from engine.settings.optimisations import VaeSwitches

Trace = Callable[[str, Tensor], None]


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

    @property
    def kernels_normalise(self) -> bool:
        """Whether kernels compute norms, so that the one of a convolution may do it as it reads."""
        switches = self.switches
        return switches.fused_norm and switches.kernels and not switches.compile

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

    def factors(
        self, given: NormInput, context: SliceContext, kept: Tensor | None
    ) -> Factors | None:
        """Factors for a convolution that normalises its input; None where there are none.

        Args:
            given: [T, C, H, W].
            context: Context of the slice.
            kept: [n, C, H, W], gets the last n frames through norm and SiLU, where there are
                factors.
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
