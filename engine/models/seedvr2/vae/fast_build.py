"""The fast variant put together: its parts from published tensors, in the order of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast_resample import (
    FastSeedVr2Downsampler,
    FastSeedVr2Upsampler,
    FoldedUpsampler,
)
from engine.models.video_vae.causal_conv import CausalConv
from engine.models.video_vae.context import NormInput, Part, SliceContext, keep_last
from engine.models.video_vae.layers import (
    AddResidual,
    AttentionLayer,
    ConvLayer,
    Mark,
    OutputLayer,
    ResidualLayer,
)
from engine.ops.conv import folds
from engine.ops.conv.frame_conv import ConvOptions, ConvShape, FrameConv
from engine.ops.kernels.group_norm import working
from engine.ops.norm import compiled
from engine.ops.norm.group_norm import add_residual, group_norm_silu
from engine.settings.optimisations import VaeSwitches

SeedVr2Part = Part


class GroupNorm:
    """GroupNorm of each frame by itself, with or without SiLU after it.

    Args:
        affine: Weight and bias [C], float32 or float64 whatever the precision of the frames.
        groups: Divides C.
        eps: Added to the variance.
    """

    def __init__(self, affine: tuple[Tensor, Tensor], groups: int, eps: float) -> None:
        self._affine = affine
        self._groups, self._eps = groups, eps

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames into `out`, a view of some buffer; see `Norm`."""
        if context.switches.fused_norm:
            group_norm_silu(
                given.frames,
                *self._affine,
                self._groups,
                self._eps,
                out,
                silu=silu,
                kernels=context.switches.kernels,
                added=given.bias,
                known=given.statistics,
                kept=kept,
            )
        else:
            out.copy_(self._in_steps(given.finished(), silu=silu))
            keep_last(out, kept)

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """Norm as in the plain variant, on contiguous frames for the reason of `FrameNorm`."""
        weight, bias = (part.to(frames.dtype) for part in self._affine)
        normed = F.group_norm(frames.contiguous(), self._groups, weight, bias, self._eps)
        return F.silu(normed) if silu else normed


class CompiledGroupNorm(GroupNorm):
    """Norm compiled by torch; what it cannot compile is done as without the switch."""

    def write(
        self,
        given: NormInput,
        out: Tensor,
        context: SliceContext,
        *,
        silu: bool = True,
        kept: Tensor | None = None,
    ) -> None:
        """Write the normalised frames into `out`, a view of some buffer; see `Norm`."""
        weight, bias = (part.view(self._groups, -1) for part in self._affine)
        done = compiled.group_norm_silu(
            given.frames, (weight, bias), self._eps, out, silu=silu, added=given.bias
        )
        if done:
            keep_last(out, kept)
        else:
            super().write(given, out, context, silu=silu, kept=kept)


class SeedVr2VaeBuilder:
    """Reads tensors by their published names, folds them, and keeps what will be used.

    Args:
        config: Configuration of the VAE.
        weights: Published name -> tensor; a tensor is asked for once, when it is needed.
        device: Device of the parts; folds are computed there too.
        options: Precision and method of the convolutions.
        switches: Which folds are made.

    Memory: the tables, and one layer's tensors in float32 while it is made.
    """

    def __init__(
        self,
        config: VaeConfig,
        weights: Mapping[str, Tensor],
        device: torch.device,
        options: ConvOptions,
        switches: VaeSwitches,
    ) -> None:
        self._config, self._weights = config, weights
        self._device, self._options, self._switches = device, options, switches
        adds_up = options.form != "3d" and options.dtype == torch.float32  # in the stream itself
        allowed = switches.fused_norm and switches.in_place and not adds_up
        self._is_fused = allowed and (
            switches.compile or (switches.kernels and working(device, options.dtype))
        )

    def has(self, name: str) -> bool:
        """Whether there is a part of this name."""
        return f"{name}.weight" in self._weights

    def norm(self, name: str) -> GroupNorm:
        """A GroupNorm."""
        affine = (self._exact(f"{name}.weight"), self._exact(f"{name}.bias"))
        kind = CompiledGroupNorm if self._switches.compile else GroupNorm
        return kind(affine, self._config.norm_groups, self._config.norm_eps)

    def conv(self, name: str, shape: ConvShape | None = None, *, pad: int = 0) -> CausalConv:
        """A convolution; without a shape its padding keeps the size of a frame."""
        weight = self._exact(f"{name}.weight")
        usual = ConvShape(padding=weight.shape[-1] // 2)
        conv = FrameConv(weight, self._exact(f"{name}.bias"), shape or usual, self._options)
        return CausalConv(name, conv, pad=pad)

    def residual(self, name: str) -> ResidualLayer:
        """A residual block; biases are added where the results are read next, if one pass can."""
        norms = (self.norm(f"{name}.norm1"), self.norm(f"{name}.norm2"))
        first, second, shortcut = (f"{name}.{part}" for part in ("conv1", "conv2", "conv_shortcut"))
        if not self._is_fused:
            around = self.conv(shortcut) if self.has(shortcut) else None
            return ResidualLayer(name, norms, (self.conv(first), self.conv(second)), around)
        around, bias = None, self._exact(f"{second}.bias")
        if self.has(shortcut):
            around = self._conv_without_bias(shortcut)
            bias = bias + self._exact(f"{shortcut}.bias")
        convs = (
            self._conv_without_bias(first, self._exact(f"{first}.bias")),
            self._conv_without_bias(second, bias),
        )
        add: AddResidual = partial(add_residual, groups=self._config.norm_groups)
        if self._switches.compile:
            add = compiled.sum_or(add)
        return ResidualLayer(name, norms, convs, around, add)

    def _conv_without_bias(self, name: str, bias: Tensor | None = None) -> CausalConv:
        weight = self._exact(f"{name}.weight")
        shape = ConvShape(padding=weight.shape[-1] // 2)
        return CausalConv(name, FrameConv(weight, None, shape, self._options), bias=bias)

    def attention(self, name: str) -> AttentionLayer:
        """The attention of a mid block; its three projections become one."""
        parts = [f"{name}.to_{part}" for part in "qkv"]
        qkv = tuple(
            torch.cat([self._rounded(f"{part}.{kind}") for part in parts])
            for kind in ("weight", "bias")
        )
        out = (self._rounded(f"{name}.to_out.0.weight"), self._rounded(f"{name}.to_out.0.bias"))
        return AttentionLayer(name, self.norm(f"{name}.group_norm"), (qkv[0], qkv[1]), out)

    def downsampler(self, name: str, *, time: bool) -> FastSeedVr2Downsampler:
        """A downsampler of space, with `time` of time too."""
        shape = ConvShape(padding=0, time_stride=2 if time else 1, space_stride=2)
        return FastSeedVr2Downsampler(name, self.conv(f"{name}.conv", shape, pad=1))

    def upsampler(self, name: str, *, time: bool) -> FoldedUpsampler | FastSeedVr2Upsampler:
        """An upsampler of space, with `time` of time too."""
        widen, conv = f"{name}.upscale_conv", f"{name}.conv"
        if not self._switches.upsampler_fold:
            return FastSeedVr2Upsampler(name, self.conv(widen), self.conv(conv), 2 if time else 1)
        fold = folds.upsampler(
            self._exact(f"{widen}.weight"),
            self._exact(f"{widen}.bias"),
            self._exact(f"{conv}.weight"),
            self._exact(f"{conv}.bias"),
            time,
        )
        return FoldedUpsampler(name, fold.to(self._device, self._options.dtype), self._options)

    def _exact(self, name: str) -> Tensor:
        """A tensor in the precision in which folds are computed."""
        exact = torch.promote_types(self._options.dtype, torch.float32)
        return self._weights[name].to(self._device, exact)

    def _rounded(self, name: str) -> Tensor:
        return self._weights[name].to(self._device, self._options.dtype)


def encoder(build: SeedVr2VaeBuilder, config: VaeConfig) -> list[SeedVr2Part]:
    """All parts of the encoder."""
    parts: list[SeedVr2Part] = [ConvLayer(build.conv("encoder.conv_in"))]
    for level in range(len(config.block_out_channels)):
        name = f"encoder.down_blocks.{level}"
        parts += _residuals(build, name, config.layers_per_block)
        if level < len(config.encoder_time):
            time = config.encoder_time[level]
            parts.append(build.downsampler(f"{name}.downsamplers.0", time=time))
    parts += _middle(build, "encoder.mid_block")
    parts.append(OutputLayer(build.norm("encoder.conv_norm_out"), build.conv("encoder.conv_out")))
    if config.quant_conv:
        parts.append(ConvLayer(build.conv("quant_conv")))
    return parts


def decoder(
    build: SeedVr2VaeBuilder, config: VaeConfig
) -> tuple[list[SeedVr2Part], list[SeedVr2Part]]:
    """The decoder: low part, up to the residual blocks of the second level, and high part."""
    low: list[SeedVr2Part] = []
    if config.post_quant_conv:
        low.append(ConvLayer(build.conv("post_quant_conv")))
    low.append(ConvLayer(build.conv("decoder.conv_in")))
    low += _middle(build, "decoder.mid_block")
    high: list[SeedVr2Part] = []
    for level in range(len(config.block_out_channels)):
        name = f"decoder.up_blocks.{level}"
        parts = low if level < 2 else high
        parts += _residuals(build, name, config.layers_per_block + 1)
        if level < len(config.decoder_time):
            up = build.upsampler(f"{name}.upsamplers.0", time=config.decoder_time[level])
            (low if level < 1 else high).append(up)
    high.append(OutputLayer(build.norm("decoder.conv_norm_out"), build.conv("decoder.conv_out")))
    return low, high


def _residuals(build: SeedVr2VaeBuilder, name: str, count: int) -> list[SeedVr2Part]:
    return [build.residual(f"{name}.resnets.{index}") for index in range(count)]


def _middle(build: SeedVr2VaeBuilder, name: str) -> list[SeedVr2Part]:
    return [
        build.residual(f"{name}.resnets.0"),
        build.attention(f"{name}.attentions.0"),
        build.residual(f"{name}.resnets.1"),
        Mark(name),
    ]
