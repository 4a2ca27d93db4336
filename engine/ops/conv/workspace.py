"""Buffers that are planned once and used by every layer and slice."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

Shape = tuple[int, int, int, int]


class Workspace:
    """One stretch of memory for a purpose, as large as the largest request so far.

    What a request returns is overwritten by the next request for the same purpose: it lives as
    long as one convolution runs. After the first slice nothing grows any more, so a device's
    allocator has nothing to do.

    Args:
        device: Where the memory is.
        dtype: Of the frames.
        planned: False gives fresh memory each time, as it would be without planning.
        channels_last: Layout of the frames.
    """

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        *,
        planned: bool,
        channels_last: bool = False,
    ) -> None:
        self._device, self._dtype = device, dtype
        self._planned = planned
        self._last = channels_last
        self._stretches: dict[str, Tensor] = {}

    def holds(self, device: torch.device, dtype: torch.dtype) -> bool:
        """Whether its memory is of this kind."""
        return (self._device, self._dtype) == (device, dtype)

    def frames(self, purpose: str, shape: Shape) -> Tensor:
        """Uninitialised frames [T, C, H, W], valid until the next request for `purpose`."""
        return self._shaped(self.numbers(purpose, prod(shape)), shape)

    def numbers(self, purpose: str, size: int) -> Tensor:
        """Uninitialised values [size], valid until the next request for `purpose`."""
        if not self._planned:
            return self._empty(size)
        stretch = self._stretches.get(purpose)
        if stretch is None or stretch.numel() < size:
            self._stretches.pop(purpose, None)  # first the old one goes, then the new one comes
            del stretch
            stretch = self._stretches[purpose] = self._empty(size)
        return stretch[:size]

    def fresh(self, shape: Shape) -> Tensor:
        """Uninitialised frames [T, C, H, W] of their own."""
        return self._shaped(self._empty(prod(shape)), shape)

    def stretches(self) -> list[Tensor]:
        """All memory in use, for those who must keep it alive."""
        return list(self._stretches.values())

    def release(self) -> None:
        """Give all memory back."""
        self._stretches.clear()

    @property
    def bytes_held(self) -> int:
        """Bytes of all stretches."""
        return sum(stretch.nbytes for stretch in self._stretches.values())

    def _empty(self, size: int) -> Tensor:
        return torch.empty(size, device=self._device, dtype=self._dtype)

    def _shaped(self, flat: Tensor, shape: Shape) -> Tensor:
        count, channels, height, width = shape
        if not self._last:
            return flat.view(shape)
        return flat.view(count, height, width, channels).permute(0, 3, 1, 2)
