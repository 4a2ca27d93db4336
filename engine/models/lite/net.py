"""The Lite network: bicubic base plus a small convolutional residual, all at source size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.core.errors import UnknownKeys, WeightsError, WeightsMissing
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.models.lite.files import COLOURS, KERNEL, LiteConfig, config_from_shapes
from engine.models.load import shapes_alone

_BASE_REACH = 2  # source px that the bicubic base looks to each side
_HAS_FUSED = hasattr(torch.ops.mkldnn, "_convolution_pointwise")  # not on every CPU
_ASKED = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}


class LiteNet(nn.Module):
    """Upscale frames by `config.scale`.

    The frame is extended once by its edge px and then shrinks by one px in each convolution:
    borders are treated like the inside, and a tile cut with `receptive_radius` px around it
    gives exactly the px of the whole frame.

    Attributes:
        config: Its sizes.
        between: Called after each hidden layer; it may wait, or raise to stop.
    """

    def __init__(self, config: LiteConfig) -> None:
        super().__init__()
        self.config = config
        self.between: Callable[[], None] = _nothing
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inner, outer, KERNEL) for inner, outer in config.widths()
        )

    @property
    def receptive_radius(self) -> int:
        """Source px a tile needs around it to equal the whole frame."""
        return self.config.receptive_radius

    def forward(
        self, frames: Tensor, before: Tensor | None = None, after: Tensor | None = None
    ) -> Tensor:
        """Upscale frames.

        What is darker than black or brighter than white stays so: noise around black would become
        a grey veil if half of it were cut off, and cameras store lights above white.

        Args:
            frames: [N, 3, h, w], float32, RGB, nominally in [0, 1], any memory format.
            before: The frame before each, alike; None at the start of a shot, and for networks
                that see frames alone.
            after: The frame after each.

        Returns:
            [N, 3, scale*h, scale*w], float32, RGB, nominally in [0, 1].

        The residual is computed in the dtype of the weights, the base always in float32.
        Memory: see cost.py.
        """
        return self.inside(self._extended(self.seen(frames, before, after)))

    def seen(self, frames: Tensor, before: Tensor | None, after: Tensor | None) -> Tensor:
        """[N, 3*config.frames, h, w]: frames, then how their neighbours differ from them.

        Differences keep small changes exact in 16 bits, and are 0 where there is no neighbour.
        """
        if self.config.frames == 1:
            return frames
        near = [
            torch.zeros_like(frames) if one is None else one - frames for one in (before, after)
        ]
        return torch.cat([frames, *near], dim=1)

    def _extended(self, frames: Tensor) -> Tensor:
        return F.pad(frames, (self.receptive_radius,) * 4, mode="replicate")

    def inside(self, frames: Tensor) -> Tensor:
        """Upscale `seen` frames [N, ..., h, w] to [N, 3, scale*(h-2r), scale*(w-2r)].

        r is `receptive_radius`. Training uses it on cuttings, whose real surroundings are known.
        """
        frames = frames.contiguous(memory_format=torch.channels_last)
        crop = self.receptive_radius - _BASE_REACH
        middle = frames[:, :COLOURS, crop : frames.shape[2] - crop, crop : frames.shape[3] - crop]
        with torch.autocast(frames.device.type, enabled=False):  # training must see the same base
            base = _bicubic_phases(middle, self.config.scale)
        residual = self._residual(frames)
        return _shuffled(base.add_(residual), self.config.scale)

    def _residual(self, frames: Tensor) -> Tensor:
        """[N, 3*config.frames, h, w] -> [N, 3*scale**2, h-2r, w-2r] in the dtype of the weights."""
        *hidden, last = self.convolutions
        features = frames.to(next(last.parameters()).dtype)
        for convolution in hidden:
            features = _rectified(convolution, features)
            self.between()
        return _convolved(last, features)


def _nothing() -> None:
    """Networks compute without a break."""


def _rectified(convolution: nn.Module, features: Tensor) -> Tensor:
    """Convolution and ReLU; on a CPU in one operator, which saves a pass over the memory."""
    is_usual = features.device.type != "cpu" or torch.is_grad_enabled() or not _HAS_FUSED
    if is_usual or _is_widened(features):
        return F.relu(_convolved(convolution, features), inplace=True)
    weight, bias = convolution.get_parameter("weight"), convolution.get_parameter("bias")
    fused = torch.ops.mkldnn._convolution_pointwise
    return torch.as_tensor(fused(features, weight, bias, [0, 0], [1, 1], [1, 1], 1, "relu", [], ""))


def _convolved(convolution: nn.Module, features: Tensor) -> Tensor:
    if not _is_widened(features):
        return torch.as_tensor(convolution(features))
    weight, bias = convolution.get_parameter("weight"), convolution.get_parameter("bias")
    return F.conv2d(features.float(), weight.float(), bias.float()).to(features.dtype)


def _is_widened(features: Tensor) -> bool:
    """Whether 16-bit features are convolved in float32, and rounded.

    TRAP: a CPU without AVX-512 has no fast convolution for them, and the fused operator raises an
    error. A job that began in bfloat16 on another computer goes on with the same rounding.
    """
    return features.device.type == "cpu" and not _has_convolution(features.dtype)


@cache
def _has_convolution(dtype: torch.dtype) -> bool:
    if dtype not in _ASKED:
        return True
    asks = getattr(torch.ops.mkldnn, _ASKED[dtype], None)  # builds without oneDNN have none
    return asks is not None and bool(asks())


def _shuffled(phases: Tensor, scale: int) -> Tensor:
    """`pixel_shuffle`: [N, 3*scale**2, h, w] -> [N, 3, scale*h, scale*w], contiguous.

    On a CPU neighbours of a row are moved in pairs, as if they were numbers of 8 bytes: 15 (x2) and
    twice (x4) as fast as torch's own for channels last.
    """
    if phases.device.type != "cpu" or phases.requires_grad:
        return F.pixel_shuffle(phases, scale)
    count, _, height, width = phases.shape
    parts = phases.permute(0, 2, 3, 1).reshape(count, height, width, COLOURS, scale, scale)
    pairs = parts.view(torch.float64).permute(0, 3, 1, 4, 2, 5).contiguous()
    return pairs.view(torch.float32).reshape(count, COLOURS, height * scale, width * scale)


def _bicubic_phases(frames: Tensor, scale: int) -> Tensor:
    """Bicubic enlargement as the input of a pixel shuffle, without the outer two px.

    [N, 3, h, w] float32 -> [N, 3*scale**2, h-4, w-4]. One 5x5 convolution gives all phases; it
    takes a quarter of the time of `interpolate` on a CPU. On a GPU convolutions may round
    to TF32, so there `interpolate` does it.
    """
    if frames.device.type == "cpu":
        return F.conv2d(frames, bicubic_kernel(scale))
    size = (frames.shape[2] * scale, frames.shape[3] * scale)
    large = F.interpolate(frames, size, mode="bicubic", align_corners=False, antialias=True)
    border = _BASE_REACH * scale
    inner = large[:, :, border : size[0] - border, border : size[1] - border]
    return F.pixel_unshuffle(inner, scale)


def bicubic_kernel(scale: int) -> Tensor:
    """Kernel [3*scale**2, 3, 5, 5], float32: half-pixel centres, a = -0.5, as in Pillow."""
    taps = torch.zeros(scale, 2 * _BASE_REACH + 1)
    for phase in range(scale):
        centre = (phase + 0.5) / scale - 0.5
        for tap in range(-_BASE_REACH, _BASE_REACH + 1):
            taps[phase, tap + _BASE_REACH] = _cubic(abs(tap - centre))
    both = torch.einsum("ai,bj->abij", taps, taps).reshape(scale * scale, 5, 5)
    kernel = torch.zeros(COLOURS, scale * scale, COLOURS, 5, 5)
    for colour in range(COLOURS):
        kernel[colour, :, colour] = both
    flat = kernel.reshape(COLOURS * scale * scale, COLOURS, 5, 5)
    return flat.contiguous(memory_format=torch.channels_last)


def _cubic(x: float, a: float = -0.5) -> float:
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    if x < 2:
        return a * (x**3 - 5 * x**2 + 8 * x - 4)
    return 0.0


def load_lite(path: Path, *, dtype: torch.dtype = torch.float32) -> LiteNet:
    """Read weights strictly; the network is ready for inference on the CPU.

    Args:
        path: Safetensors file.
        dtype: Dtype of the residual: float32, or bfloat16 where the CPU computes in it.

    Raises:
        WeightsMissing: There is no such file.
        UnknownKeys: No safetensors file, or tensors missing, left over or misshapen.
    """
    if not path.is_file():
        raise WeightsMissing("built-in", file=path.name, path=str(path))
    try:
        with SafetensorsFile(path) as file:
            tensors = {name: file.tensor(name) for name in sorted(file.shapes)}
    except WeightsError as error:
        raise UnknownKeys("built-in-damaged", file=path.name, path=str(path)) from error
    config = config_from_shapes({name: tuple(value.shape) for name, value in tensors.items()})
    with shapes_alone():
        net = LiteNet(config)
    net.load_state_dict(tensors, strict=True, assign=True)
    net.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack memory_format
    return net.requires_grad_(False).eval()
