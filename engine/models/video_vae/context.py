"""State that the parts of a fast variant share for one slice, and the protocol of a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches

Trace = Callable[[str, Tensor], None]


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
    batch: int = 0  # which clip of a batch this is; each has a carry of its own

    def take(self) -> Tensor:
        """The stream, which the caller owns from now on."""
        stream, self.stream = self.stream, None
        if stream is None:
            raise ValueError("the stream was taken and not put back")
        return stream

    def put(self, stream: Tensor, name: str = "") -> None:
        """Put the stream back; the observer gets it under `name`, if there is one."""
        self.stream = stream
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


AnyContext = TypeVar("AnyContext", bound=SliceContext)
ContextIn = TypeVar("ContextIn", bound=SliceContext, contravariant=True)


class Part(Protocol[ContextIn]):
    """A step of encoder or decoder."""

    name: str

    def run(self, context: ContextIn) -> None:
        """Apply the part to the stream."""
        ...


class Norm(Protocol[ContextIn]):
    """A norm before a convolution; a family may need a context with more in it."""

    def write(self, frames: Tensor, out: Tensor, context: ContextIn, *, silu: bool = True) -> None:
        """Write the normalised frames, through SiLU or not, into `out`, a view of a buffer."""
        ...


def _dense_copy(frames: Tensor) -> Tensor:
    """A copy of its own, in the layout of `frames`."""
    last = frames.stride(1) == 1
    return frames.clone(memory_format=torch.channels_last if last else torch.contiguous_format)
