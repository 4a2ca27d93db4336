"""Builds single parts of the fast variant of weights with the published names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.models.video_vae.causal_conv import CausalConv
from engine.models.video_vae.layers import AttentionLayer, ResidualLayer
from engine.models.wan.vae.fast_layers import CompiledWanRmsNorm, FastWanRmsNorm
from engine.models.wan.vae.fast_resample import (
    Enlarger,
    FastWanDownsampler,
    FastWanUpsampler,
    SteppedEnlarger,
)
from engine.ops.conv.frame_conv import ConvOptions, ConvShape, FrameConv
from engine.ops.conv.subpixel import NearestFold
from engine.settings.optimisations import VaeSwitches


class WanVaeBuilder:
    """Reads tensors by their published names, folds them, and keeps what will be used.

    Args:
        weights: Published name -> tensor; a tensor is asked for once, when it is needed.
        device: Device of the parts; folds are computed there too.
        options: Precision and method of the convolutions.
        switches: Which folds are made.

    Memory: the tables, and one layer's tensors in float32 while it is made.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        device: torch.device,
        options: ConvOptions,
        switches: VaeSwitches,
    ) -> None:
        self._weights, self._device = weights, device
        self._options, self._switches = options, switches

    def has(self, name: str) -> bool:
        """Whether there is a convolution of this name."""
        return f"{name}.weight" in self._weights

    def norm(self, name: str) -> FastWanRmsNorm:
        """A norm."""
        kind = CompiledWanRmsNorm if self._switches.compile else FastWanRmsNorm
        return kind(self._exact(f"{name}.gamma").flatten())

    def conv(self, name: str) -> CausalConv:
        """A causal convolution that keeps the size of a frame, with zeros before the clip."""
        weight = self._exact(f"{name}.weight")
        shape = ConvShape(padding=weight.shape[-1] // 2, past="zeros")
        return CausalConv(name, self._frame_conv(name, weight, shape))

    def residual(self, name: str) -> ResidualLayer:
        """A residual block."""
        inside, shortcut = f"{name}.residual", f"{name}.shortcut"
        norms = (self.norm(f"{inside}.0"), self.norm(f"{inside}.3"))
        convs = (self.conv(f"{inside}.2"), self.conv(f"{inside}.6"))
        around = self.conv(shortcut) if self.has(shortcut) else None
        return ResidualLayer(name, norms, convs, around)

    def attention(self, name: str) -> AttentionLayer:
        """The attention of the middle."""
        norm = self.norm(f"{name}.norm")
        return AttentionLayer(
            name, norm, self._linear(f"{name}.to_qkv"), self._linear(f"{name}.proj")
        )

    def downsampler(self, name: str, *, time: bool) -> FastWanDownsampler:
        """A downsampler of space, with `time` of time too."""
        space = f"{name}.resample.1"
        weight = self._exact(f"{space}.weight").unsqueeze(2)
        conv = self._frame_conv(space, weight, ConvShape(padding=0, space_stride=2))
        shape = ConvShape(padding=0, time_stride=2, past="none")
        return FastWanDownsampler(
            name, CausalConv(space, conv, pad=1), self._time(name, shape) if time else None
        )

    def upsampler(self, name: str, *, time: bool) -> FastWanUpsampler:
        """An upsampler of space, with `time` of time too."""
        shape = ConvShape(padding=0, past="zeros")
        return FastWanUpsampler(
            name, self._time(name, shape) if time else None, self._enlarger(f"{name}.resample.1")
        )

    def _time(self, name: str, shape: ConvShape) -> CausalConv:
        """The convolution over time of a resampler."""
        name = f"{name}.time_conv"
        conv = self._frame_conv(name, self._exact(f"{name}.weight"), shape)
        return CausalConv(name, conv, late=shape.past == "zeros")

    def _enlarger(self, name: str) -> Enlarger:
        weight, bias = self._exact(f"{name}.weight"), self._exact(f"{name}.bias")
        if self._switches.upsampler_fold:
            return NearestFold(weight, bias, self._options.dtype)
        conv = FrameConv(weight.unsqueeze(2), bias, ConvShape(), self._options)
        return SteppedEnlarger(conv, len(weight))

    def _frame_conv(self, name: str, weight: Tensor, shape: ConvShape) -> FrameConv:
        return FrameConv(weight, self._exact(f"{name}.bias"), shape, self._options)

    def _linear(self, name: str) -> tuple[Tensor, Tensor]:
        """A 1x1 convolution of frames as weight [O, I] and bias."""
        weight = self._rounded(f"{name}.weight").flatten(1)
        return weight, self._rounded(f"{name}.bias")

    def _exact(self, name: str) -> Tensor:
        """A tensor in the precision in which folds are computed."""
        exact = torch.promote_types(self._options.dtype, torch.float32)
        return self._weights[name].to(self._device, exact)

    def _rounded(self, name: str) -> Tensor:
        return self._weights[name].to(self._device, self._options.dtype)
