"""Lite as a frame upscaler."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.hardware import devices
from engine.models.contracts import BenchRequest, BenchWork
from engine.models.lite import files
from engine.models.lite.cost import lite_multiplications
from engine.models.lite.net import LiteNet, load_lite
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

    def upscale(self, frames: Tensor, *near: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] float32 to [T, 3, scale*h, scale*w] float32, 0 to 1."""
        return torch.as_tensor(self._net(frames, *near))


_FRAMES = 2
_SIZE = {"cpu": Size(480, 272), "cuda": Size(1920, 1080)}


def upscaler(
    scale: int, device: str = "cpu", dtype: str = "float32", treatment: str = "faithful"
) -> LiteUpscaler:
    """A network by its factor."""
    name = files.weights_name(scale, treatment)
    frame = Size(64, 64)  # tiles are the pipeline's business
    plan = LitePlan(factor=scale, weights=name, device=device, dtype=dtype, frame=frame, tile=frame)
    return LiteUpscaler(load_lite(files.weights_path(name)), plan)


def upscaling(request: BenchRequest, scale: int) -> BenchWork:
    """Two frames in one call; megapixels are those of the result."""
    half = "bfloat16" if devices.cpu_has_bf16() else "float32"
    dtype = request.dtype or ("float16" if request.device == "cuda" else half)
    size = request.size or _SIZE[request.device]
    frames = torch.rand(_FRAMES, 3, size.height, size.width, device=request.device)
    config = files.config_of(files.weights_name(scale, "faithful"))
    return BenchWork(
        compute=partial(upscaler(scale, request.device, dtype).upscale, frames),
        dtype=dtype,
        megapixels=_FRAMES * size.pixels * scale**2 / 1e6,
        operations=2 * lite_multiplications(config, size, _FRAMES),
    )
