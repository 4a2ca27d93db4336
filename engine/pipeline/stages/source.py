"""Frames as the decoder gives them, to RGB on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.protocol.media import VideoInfo
from engine.video.colour.convert import colour_spec, to_rgb
from engine.video.read.frames import PlanarFrame


class SourceColours:
    """Turns code values into RGB on one device."""

    def __init__(self, video: VideoInfo, device: str) -> None:
        self._spec = colour_spec(video)
        self._device = device

    def rgb(self, frames: Sequence[PlanarFrame]) -> tuple[Tensor, Tensor | None]:
        """[T, 3, h, w] float32, nominally 0 to 1, and alpha [T, 1, h, w] or None."""
        whole = to_rgb(_stacked(frames), self._spec, self._device)
        return whole[:, :3], whole[:, 3:] if whole.shape[1] == 4 else None


def _stacked(frames: Sequence[PlanarFrame]) -> list[Tensor]:
    """Planes of several frames as tensors [T, h, w]; 16-bit values become int32."""
    planes = []
    for index in range(len(frames[0].planes)):
        parts = [_tensor(frame.planes[index]) for frame in frames]
        planes.append(parts[0][None] if len(parts) == 1 else torch.stack(parts))
    return planes


def _tensor(plane: np.ndarray) -> Tensor:
    if plane.dtype == np.uint16:
        return torch.from_numpy(plane.astype(np.int32))
    return torch.from_numpy(plane)
