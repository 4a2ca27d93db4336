"""Buffers that are planned once and used by every layer and slice."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

Shape = tuple[int, int, int, int]


class Workspace:
    """One buffer per purpose, as large as the largest request so far.

    What a request returns is overwritten by the next request for the same purpose: it is
    valid while one convolution runs. After the first slice nothing grows any more, so nothing is
    allocated on the device.

    Args:
        device: Device of the memory.
        dtype: Type of the frames.
        planned: False allocates fresh memory for each request.
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
        """Whether its memory is on this device and of this dtype."""
        return (self._device, self._dtype) == (device, dtype)

    def frames(self, purpose: str, shape: Shape) -> Tensor:
        """Uninitialised frames [T, C, H, W], valid until the next request for `purpose`."""
        return self._shaped(self.flat(purpose, prod(shape)), shape)

    def flat(self, purpose: str, size: int) -> Tensor:
        """Uninitialised values [size], valid until the next request for `purpose`."""
        if not self._planned:
            return self._empty(size)
        stretch = self._stretches.get(purpose)
        if stretch is None or stretch.numel() < size:
            self._stretches.pop(purpose, None)  # free the old one before the new one is made
            del stretch
            stretch = self._stretches[purpose] = self._empty(size)
        return stretch[:size]

    def fresh(self, shape: Shape) -> Tensor:
        """Uninitialised frames [T, C, H, W] of their own."""
        return self._shaped(self._empty(prod(shape)), shape)

    def release(self) -> None:
        """Free all memory."""
        self._stretches.clear()

    @property
    def bytes_held(self) -> int:
        """Bytes of all buffers."""
        return sum(stretch.nbytes for stretch in self._stretches.values())

    def _empty(self, size: int) -> Tensor:
        return torch.empty(size, device=self._device, dtype=self._dtype)

    def _shaped(self, flat: Tensor, shape: Shape) -> Tensor:
        count, channels, height, width = shape
        if not self._last:
            return flat.view(shape)
        return flat.view(count, height, width, channels).permute(0, 3, 1, 2)
