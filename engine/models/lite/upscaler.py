"""Lite as a frame upscaler."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.lite.net import LiteNet
from engine.models.lite.plan import LitePlan


class LiteUpscaler:
    """A loaded Lite network on the device and in the precision of a plan."""

    def __init__(self, net: LiteNet, plan: LitePlan) -> None:
        self._net = net.to(plan.device, getattr(torch, plan.dtype))

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self._net.config.scale

    @property
    def halo(self) -> int:
        """Input pixels around a pixel that its result depends on."""
        return self._net.receptive_radius

    def upscale(self, frames: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] float32 to [T, 3, scale*h, scale*w] float32, 0 to 1."""
        return torch.as_tensor(self._net(frames))
