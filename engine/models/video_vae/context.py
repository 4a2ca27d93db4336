"""What goes through the parts of a fast variant, and what a part is."""

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
    """What goes through all parts while one slice is worked on.

    The residual stream is taken out by a part and put back by it, so that no other part holds it:
    its memory goes as soon as the part is done with it.
    """

    carry: Carry
    workspace: Workspace
    switches: VaeSwitches
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


AnyFlow = TypeVar("AnyFlow", bound=SliceContext)
Going = TypeVar("Going", bound=SliceContext, contravariant=True)


class Part(Protocol[Going]):
    """A step of encoder or decoder."""

    name: str

    def run(self, flow: Going) -> None:
        """Work on the stream."""
        ...


class Norm(Protocol[Going]):
    """A norm before a convolution; a family may want a flow that tells it more."""

    def write(self, frames: Tensor, out: Tensor, flow: Going, *, silu: bool = True) -> None:
        """Write the normalised frames, through SiLU or not, into `out`, a view of some buffer."""
        ...


def _dense_copy(frames: Tensor) -> Tensor:
    """A copy of its own, in the layout of `frames`."""
    last = frames.stride(1) == 1
    return frames.clone(memory_format=torch.channels_last if last else torch.contiguous_format)
