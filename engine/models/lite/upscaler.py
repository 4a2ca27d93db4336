"""Lite and Lite Plus as frame upscalers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.hardware import devices
from engine.models.contracts import BenchRequest, BenchWork
from engine.models.lite import files
from engine.models.lite.cost import lite_multiplications
from engine.models.lite.files import WeightsFile
from engine.models.lite.net import LiteNet, load_lite
from engine.models.lite.plan import LitePlan


class LiteUpscaler:
    """A loaded network on the device and in the precision of a plan.

    Args:
        net: The network.
        plan: The plan.
        between: Called between layers on a CPU, where a layer may take a tenth of a second.
    """

    def __init__(
        self, net: LiteNet, plan: LitePlan, between: Callable[[], None] | None = None
    ) -> None:
        self._net = net.to(plan.device, getattr(torch, plan.dtype))
        if between is not None and plan.device == "cpu":
            self._net.between = between

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return self._net.config.scale

    @property
    def halo(self) -> int:
        """Input pixels around a pixel that its result depends on."""
        return self._net.receptive_radius

    def upscale(self, frames: Tensor, *near: Tensor) -> Tensor:
        """Enlarge frames [T, 3, h, w] float32, nominally 0 to 1, to [T, 3, scale*h, scale*w]."""
        return torch.as_tensor(self._net(frames, *near))


_FRAMES = 2
_SIZE = {"cpu": Size(480, 272), "cuda": Size(1920, 1080)}


def upscaler(file: WeightsFile, device: str = "cpu", dtype: str = "float32") -> LiteUpscaler:
    """The network of a weights file."""
    frame = Size(64, 64)  # tiles are the pipeline's business
    plan = LitePlan(
        model=file.model,
        factor=file.scale,
        weights=file.name,
        device=device,
        dtype=dtype,
        frame=frame,
        tile=frame,
    )
    return LiteUpscaler(load_lite(files.weights_path(file.name)), plan)


def upscaling(request: BenchRequest, scale: int, model: str = "lite") -> BenchWork:
    """Two frames in one call; megapixels are those of the result."""
    half = "bfloat16" if devices.cpu_has_bf16() else "float32"
    dtype = request.dtype or ("float16" if request.device == "cuda" else half)
    size = request.size or _SIZE[request.device]
    frames = torch.rand(_FRAMES, 3, size.height, size.width, device=request.device)
    file = WeightsFile(model, scale, "faithful")
    return BenchWork(
        compute=partial(upscaler(file, request.device, dtype).upscale, frames),
        dtype=dtype,
        megapixels=_FRAMES * size.pixels * scale**2 / 1e6,
        operations=2 * lite_multiplications(files.config_of(file.name), size, _FRAMES),
    )
