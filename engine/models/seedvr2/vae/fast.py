"""The VAE of SeedVR2, fast variant: equals the plain one but for rounding; docs/vae-folds.md."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast_layers import (
    FastSeedVr2Upsampler,
    FoldedUpsampler,
    GroupNorm,
    KernelUpsampler,
)
from engine.models.seedvr2.vae.plain import (
    DownBlock,
    FrameNorm,
    MidBlock,
    SeedVr2Attention,
    SeedVr2Downsampler,
    SeedVr2ResidualBlock,
    SeedVr2Upsampler,
    SeedVr2Vae,
    UpBlock,
)
from engine.models.video_vae.builder import Builder, Table, in_order, single_conv
from engine.models.video_vae.causal_layers import AnyCausalConv
from engine.models.video_vae.layers import (
    AddResidual,
    AttentionLayer,
    ConvLayer,
    Mark,
    OutputLayer,
    ResidualLayer,
)
from engine.models.video_vae.runner import FastSlicedVae, Parts
from engine.models.video_vae.slice_context import Part
from engine.ops.conv import folds
from engine.ops.conv.causal_conv import Carry, CausalConv3d, ConvShape
from engine.ops.conv.folds import PHASES
from engine.ops.kernels.group_norm import working
from engine.ops.norm import compiled
from engine.ops.norm.group_norm import add_residual


def _norm(build: Builder, plain: FrameNorm) -> GroupNorm:
    """A GroupNorm."""
    affine = (build.exact(plain, "weight"), build.exact(plain, "bias"))
    return GroupNorm(affine, plain.num_groups, plain.eps)


def _residual(build: Builder, plain: SeedVr2ResidualBlock) -> list[Part]:
    """A residual block; biases are added where the results are read next, if one pass can."""
    name, norms = build.name(plain), (_norm(build, plain.norm1), _norm(build, plain.norm2))
    leaves, bias = _leaves_biases(build), build.exact(plain.conv2, "bias")
    around: AnyCausalConv | None = None
    if hasattr(plain, "conv_shortcut"):
        around = build.conv(plain.conv_shortcut, adds_bias=not leaves)
        if leaves:
            bias = bias + build.exact(plain.conv_shortcut, "bias")
    convs = (
        build.conv(plain.conv1, leaves_bias=leaves, norm="group", groups=plain.norm2.num_groups),
        build.conv(
            plain.conv2,
            bias=bias,
            leaves_bias=leaves,
            norm="group",
            groups=plain.norm2.num_groups,
        ),
    )
    add: AddResidual | None = None
    if leaves:
        add = partial(add_residual, groups=plain.norm2.num_groups)
        if build.switches.compile:
            add = compiled.sum_or(add)
    return [ResidualLayer(name, norms, convs, around, add)]


def _leaves_biases(build: Builder) -> bool:
    """Whether a pass that runs anyway adds the biases of convolutions."""
    switches, options = build.switches, build.options
    adds_up = options.form != "3d" and options.dtype == torch.float32  # in the stream itself
    allowed = switches.fused_norm and switches.in_place and not adds_up
    return allowed and (
        switches.compile or (switches.kernels and working(build.device, options.dtype))
    )


def _attention(build: Builder, plain: SeedVr2Attention) -> list[Part]:
    """The attention of the mid block; its three projections become one."""
    qkv, out = build.linear(plain.to_q, plain.to_k, plain.to_v), build.linear(plain.to_out[0])
    return [AttentionLayer(build.name(plain), _norm(build, plain.group_norm), qkv, out)]


def _middle(build: Builder, plain: MidBlock) -> list[Part]:
    """The mid block, seen by an observer as a whole too."""
    first, second = plain.resnets
    parts = build.parts(first, plain.attentions[0], second)
    return [*parts, Mark(build.name(plain))]


def _downsampler(build: Builder, plain: SeedVr2Downsampler) -> list[Part]:
    """Zeros to the right and below, then a convolution with strides."""
    conv = build.conv(plain.conv, pad=1, groups=_groups(build))
    return [ConvLayer(build.name(plain), conv)]


def _conv_in(build: Builder, plain: CausalConv3d) -> ConvLayer:
    """The first convolution of encoder or decoder, which the norm of a residual block follows."""
    return ConvLayer(build.name(plain), build.conv(plain, groups=_groups(build)))


def _groups(build: Builder) -> int:
    """Groups of all norms."""
    assert isinstance(build.plain, SeedVr2Vae)
    return build.plain.config.norm_groups


def _upsampler(build: Builder, plain: SeedVr2Upsampler) -> list[Part]:
    """An upsampler, folded or in the steps of the specification."""
    name, widen, conv = build.name(plain), plain.upscale_conv, plain.conv
    if not build.switches.upsampler_fold:
        steps = build.conv(widen), build.conv(conv)
        return [FastSeedVr2Upsampler(name, *steps, plain.frames_each)]
    fold = folds.upsampler(
        build.exact(widen, "weight"),
        build.exact(widen, "bias"),
        build.exact(conv, "weight"),
        build.exact(conv, "bias"),
        plain.frames_each > 1,
    )
    times, reach, outer, *taps = fold.taps.shape
    shape = times * outer, taps[0], reach, *taps[1:]
    method = build.options.method(shape, build.device, ConvShape(), times * PHASES)
    if method.kernel is not None:
        return [KernelUpsampler(name, fold, method.kernel)]
    return [FoldedUpsampler(name, fold.to(build.device, build.options.dtype), method.form)]


def _output(build: Builder, plain_norm: FrameNorm, conv: CausalConv3d) -> OutputLayer:
    """The last two layers of encoder or decoder."""
    return OutputLayer(_norm(build, plain_norm), build.conv(conv, norm="group"))


class FastVae(FastSlicedVae[SeedVr2Vae, VaeConfig]):
    """Encoder and decoder with exact folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Arguments: see `FastSlicedVae`.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W] (attention: [T, C, H, W]), of the first clip of a batch.

    Memory: measured, see `engine.models.video_vae.measured_memory`.
    """

    plain_type = SeedVr2Vae
    table: ClassVar[Table] = {
        nn.ModuleList: in_order,
        DownBlock: in_order,
        UpBlock: in_order,
        MidBlock: _middle,
        CausalConv3d: single_conv,
        SeedVr2ResidualBlock: _residual,
        SeedVr2Attention: _attention,
        SeedVr2Downsampler: _downsampler,
        SeedVr2Upsampler: _upsampler,
    }

    def build_parts(self, build: Builder, plain: SeedVr2Vae) -> Parts:
        """The parts of encoder and decoder; the decoder's are in two lists.

        The low one ends with the residual blocks of the second level.
        """
        encoder, decoder, config = plain.encoder, plain.decoder, self.config
        first = [plain.post_quant_conv] if config.post_quant_conv else []
        blocks = [part for block in decoder.up_blocks for part in block.children()]
        layers = [layer for part in blocks for layer in part.children()]
        cut = 2 * (config.layers_per_block + 1) + 1
        # The decoder before the encoder: folding its upsamplers takes the most memory.
        self._low = [*build.parts(*first), _conv_in(build, decoder.conv_in)]
        self._low += build.parts(decoder.mid_block, *layers[:cut])
        self._high = build.parts(*layers[cut:])
        self._high.append(_output(build, decoder.conv_norm_out, decoder.conv_out))
        encode: list[Part] = [_conv_in(build, encoder.conv_in)]
        encode += build.parts(encoder.down_blocks, encoder.mid_block)
        encode.append(_output(build, encoder.conv_norm_out, encoder.conv_out))
        if config.quant_conv:
            encode += build.parts(plain.quant_conv)
        return {"encode": encode, "decode": [*self._low, *self._high]}

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Carry of this part.

        Returns:
            Features [T, C, 2*h, 2*w] in channels last, T = 2*t, one less in the first slice; the
            next carry.
        """
        if len(latent) != 1:
            raise ValueError("split decoding takes one clip at a time")
        return self.run_parts(self._low, self.context_of(latent[0].movedim(0, 1), carry.begin()))

    def decode_high(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` returned; not changed.
            carry: Carry of this part and this tile.

        Returns:
            Frames [T', 3, 4*y, 4*x], not clipped, T' = 2*T, one less in the first slice; the next
            carry.
        """
        return self.run_parts(self._high, self.context_of(features, carry.begin()))

    def show(self, name: str, frames: Tensor) -> None:
        """Pass a copy of a part's result to the observer, of attention as frames."""
        if ".attentions." not in name:
            super().show(name, frames)
        elif self.trace is not None:
            self.trace(name, frames.clone(memory_format=torch.contiguous_format))
