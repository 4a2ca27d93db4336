"""Causal convolutions over time, and the carry from one slice of a clip to the next."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from engine.ops.transfer.parking import Parking

Past = Literal["copies", "zeros", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """Position of a convolution on its frames.

    Before a clip are copies of its frame 0, or frames of zeros, or none: then the first output
    needs a whole kernel of frames.
    """

    padding: int = 1  # zeros on each side of height and width
    time_stride: int = 1
    space_stride: int = 1
    past: Past = "copies"


class Carry:
    """State that a slice hands to the next one: the last inputs of every causal convolution.

    `Carry()` starts a clip. A slice works on `begin()`, a copy, so that the carry it was given
    is unchanged and can be used again; `handed_over()` saves the memory of that copy when
    the old one is not needed any more.

    Attributes:
        first: No slice was done yet.
        last: No slice follows, so nothing needs to be kept.
    """

    def __init__(self, *, last: bool = False) -> None:
        self.first = True
        self.last = last
        self._tails: dict[Hashable, Tensor] = {}
        self._is_ours = self._is_open = False

    def tail(self, key: Hashable) -> Tensor | None:
        """The frames that `key` kept from the slice before; None in the first slice."""
        return self._tails.get(key)

    def keep(self, key: Hashable, frames: Tensor) -> None:
        """Keep frames for the next slice, in the place of those from the slice before."""
        self._tails[key] = frames

    def forget(self, key: Hashable) -> None:
        """Drop the frames that `key` kept, once they are not read any more."""
        self._tails.pop(key, None)

    def begin(self) -> Carry:
        """The carry to work on in a slice: this one if it was handed over, else a copy.

        Raises:
            ValueError: It was handed over to a slice that ended in an error: some of its frames
                are new and some are old. The clip has to start again.
        """
        self._need_whole()
        if self._is_ours:
            self._is_ours, self._is_open = False, True
            return self
        return self._with_tails(dict(self._tails))

    def done(self) -> Carry:
        """Carry after its slice; nothing is kept after the last one."""
        self.first = self._is_open = False
        if self.last:
            self._tails = {}
        return self

    def handed_over(self, *, last: bool = False) -> Carry:
        """A carry with the frames of this one, which is empty afterwards.

        Args:
            last: The next slice is the last one.

        Raises:
            ValueError: As for `begin`.

        Memory: a convolution's old frames are freed as soon as it has new ones.
        """
        self._need_whole()
        tails, self._tails = self._tails, {}
        other = self._with_tails(tails)
        other.last, other._is_ours = last, True
        return other

    def moved(self, device: torch.device | str) -> Carry:
        """Carry with its frames on another device, in the same memory format.

        From pinned memory they come while the CPU does other work.
        """
        self._need_whole()
        tails = {
            key: frames.to(device, non_blocking=frames.is_pinned())
            for key, frames in self._tails.items()
        }
        return self._with_tails(tails)

    def parked(self, parking: Parking, key: Hashable) -> Carry:
        """Carry with its frames in main memory, until `key` is parked there again."""
        self._need_whole()
        frames = parking.park(key, list(self._tails.values()))
        return self._with_tails(dict(zip(self._tails, frames, strict=True)))

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """Keys under which frames are kept."""
        return tuple(self._tails)

    @property
    def bytes_held(self) -> int:
        """Bytes of all frames kept."""
        return sum(frames.nbytes for frames in self._tails.values())

    def _need_whole(self) -> None:
        if self._is_open:
            raise ValueError("the carry was handed over to a slice that did not end")

    def _with_tails(self, tails: dict[Hashable, Tensor]) -> Carry:
        other = Carry(last=self.last)
        other.first, other._tails = self.first, tails
        return other


class CausalConv3d(nn.Conv3d):
    """A 3-D convolution whose result at a frame depends on that frame and earlier ones only.

    Space is padded with zeros as given. Before the first frame of a clip are `kernel - 1` copies
    of it, before a later slice the last inputs of the one before.

    Memory: the input once more where the kernel spans several frames.

    Attributes:
        past: Frames before a clip: copies of its frame 0, zeros, or none.
    """

    past: ClassVar[Past] = "copies"

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """Convolve one slice.

        Args:
            frames: [B, C, T, H, W]; T a multiple of the temporal stride, one more in the first
                slice.
            carry: Working copy of this slice; None for a clip in one piece.

        Returns:
            [B, C', T', H', W'], T' = ceil(T / temporal stride).

        Raises:
            ValueError: The carry is of another clip.
        """
        if self.kernel_size[0] > 1:
            frames = self._with_history(frames, carry)
        return super().forward(frames)

    def before_the_clip(self, frames: Tensor) -> Tensor:
        """Frames before the first one of [B, C, T, H, W]: `kernel - 1` copies of it."""
        return frames[:, :, :1].expand(-1, -1, self.kernel_size[0] - 1, -1, -1)

    def _with_history(self, frames: Tensor, carry: Carry | None) -> Tensor:
        if carry is None or carry.first:
            history = self.before_the_clip(frames)
        else:
            history = self._tail_of(carry, frames)
        joined = torch.cat((history, frames), dim=2)
        if carry is not None and not carry.last:
            kept = self.kernel_size[0] - self.stride[0]
            carry.keep(self, joined[:, :, joined.shape[2] - kept :].clone())
        return joined

    def _tail_of(self, carry: Carry, frames: Tensor) -> Tensor:
        tail = carry.tail(self)
        if tail is None or tail.shape[3:] != frames.shape[3:] or len(tail) != len(frames):
            raise ValueError("the carry belongs to another clip, or was handed over before")
        return tail


class ZeroPastConv3d(CausalConv3d):
    """Causal convolution with black frames before the first one of a clip, not its copies."""

    past = "zeros"

    def before_the_clip(self, frames: Tensor) -> Tensor:
        """Frames before the first one of [B, C, T, H, W]: `kernel - 1` frames of zeros."""
        shape = (*frames.shape[:2], self.kernel_size[0] - 1, *frames.shape[3:])
        return frames.new_zeros(()).expand(shape)
