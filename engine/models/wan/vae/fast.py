"""The Wan VAEs, fast variant: equals the plain one but for rounding; docs/vae-folds.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from engine.models.video_vae.builder import Builder, Table, in_order, single_conv
from engine.models.video_vae.layers import (
    AttentionLayer,
    Mark,
    OutputLayer,
    PatchLayer,
    Pictures,
    ResidualLayer,
)
from engine.models.video_vae.runner import FastSlicedVae, Parts
from engine.models.video_vae.slice_context import Part
from engine.models.video_vae.slicing import clamp_logvar
from engine.models.wan.vae.config import Stage, WanConfig
from engine.models.wan.vae.fast_layers import (
    Averaged,
    Bridged,
    FastWanDownsampler,
    FastWanRmsNorm,
    FastWanUpsampler,
    Repeated,
)
from engine.models.wan.vae.plain import (
    DownStage,
    Head,
    UpStage,
    WanAttention,
    WanDownsampler,
    WanResidualBlock,
    WanUpsampler,
    WanVae,
)
from engine.models.wan.vae.split import decoder_high_stages, encoder_high_stages
from engine.ops.conv.causal_conv import Carry, ZeroPastConv3d


def _norm(build: Builder, plain: nn.Module) -> FastWanRmsNorm:
    """A norm."""
    return FastWanRmsNorm(build.exact(plain, "gamma").flatten())


def _residual(build: Builder, plain: WanResidualBlock) -> list[Part]:
    """A residual block."""
    norm1, conv1, norm2, conv2 = plain.residual.values()
    norms = (_norm(build, norm1), _norm(build, norm2))
    convs = (build.conv(conv1, norm="rms"), build.conv(conv2, norm="rms"))
    around = build.conv(plain.shortcut) if hasattr(plain, "shortcut") else None
    return [ResidualLayer(build.name(plain), norms, convs, around)]


def _attention(build: Builder, plain: WanAttention) -> list[Part]:
    """The attention of the middle."""
    norm, qkv, out = _norm(build, plain.norm), build.linear(plain.to_qkv), build.linear(plain.proj)
    return [AttentionLayer(build.name(plain), norm, qkv, out)]


def _downsampler(build: Builder, plain: WanDownsampler) -> list[Part]:
    """A downsampler of space, and of time where the plain one is."""
    space = build.conv(plain.resample["1"], pad=1)
    time = build.conv(plain.time_conv) if hasattr(plain, "time_conv") else None
    return [FastWanDownsampler(build.name(plain), space, time)]


def _upsampler(build: Builder, plain: WanUpsampler) -> list[Part]:
    """An upsampler of space, and of time where the plain one is."""
    time = build.conv(plain.time_conv, late=True) if hasattr(plain, "time_conv") else None
    space = build.enlarger(plain.resample["1"])
    return [FastWanUpsampler(build.name(plain), time, space)]


def _head(build: Builder, plain: Head) -> list[Part]:
    """The last two layers of encoder or decoder."""
    norm, conv = plain.values()
    return [OutputLayer(_norm(build, norm), build.conv(conv, norm="rms"))]


def _down_stage(build: Builder, plain: DownStage) -> list[Part]:
    """A stage of the Wan 2.2 encoder."""
    shortcut = Averaged(build.name(plain.avg_shortcut), plain.avg_shortcut.stage)
    return [Bridged(build.name(plain), build.parts(plain.downsamples), shortcut)]


def _up_stage(build: Builder, plain: UpStage) -> list[Part]:
    """A stage of the Wan 2.2 decoder."""
    name, parts = build.name(plain), build.parts(plain.upsamples)
    if plain.avg_shortcut is None:
        return [*parts, Mark(name)]
    shortcut = Repeated(build.name(plain.avg_shortcut), plain.avg_shortcut.stage)
    return [Bridged(name, parts, shortcut)]


class FastWanVae(FastSlicedVae[WanVae, WanConfig]):
    """Encoder and decoder with folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Both also run in two halves, for one clip at a time: the low one has the attention and
    sees whole frames; the high one is local and may be given tiles, see
    `engine.models.wan.vae.split`.

    Arguments: see `FastSlicedVae`.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W], of the first clip of a batch.

    Memory: measured, see `engine.models.video_vae.measured_memory`.
    """

    plain_type = WanVae
    table: ClassVar[Table] = {
        nn.ModuleList: in_order,
        ZeroPastConv3d: single_conv,
        WanResidualBlock: _residual,
        WanAttention: _attention,
        WanDownsampler: _downsampler,
        WanUpsampler: _upsampler,
        Head: _head,
        DownStage: _down_stage,
        UpStage: _up_stage,
    }

    def build_parts(self, build: Builder, plain: WanVae) -> Parts:
        """The parts of encoder and decoder, each in its halves; see `split`."""
        encoder, decoder, config = plain.encoder, plain.decoder, self.config
        down, up = list(encoder.downsamples), list(decoder.upsamples)
        cut = _modules(config, config.encoder_stages[: encoder_high_stages(config)])
        self._encode_high: list[Part] = [PatchLayer(columns_first=True)] if config.patch > 1 else []
        self._encode_high += build.parts(encoder.conv1, *down[:cut])
        self._encode_low = build.parts(*down[cut:], encoder.middle, encoder.head, plain.conv1)
        cut = len(up) - _modules(config, decoder_high_stages(config))
        self._decode_low = build.parts(plain.conv2, decoder.conv1, decoder.middle, *up[:cut])
        self._decode_high = build.parts(*up[cut:], decoder.head)
        if config.patch > 1 or config.upscale > 1:
            self._decode_high.append(Pictures(columns_first=config.patch > 1))
        return {
            "encode": [*self._encode_high, *self._encode_low],
            "decode": [*self._decode_low, *self._decode_high],
        }

    def encode_high(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the encoder at high resolution, which may be given a tile.

        Args:
            frames: [T, 3, H, W] in [-1, 1], a slice or a box of it; not changed.
            carry: Carry of this half and this tile.

        Returns:
            Features [T', C, y, x] in channels last, see `split.encode_cut`; the next carry.
        """
        return self.run_frames(self._encode_high, frames, carry)

    def encode_low(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the encoder at low resolution, which sees the whole frame.

        Args:
            features: [T, C, y, x] of whole frames; not changed.
            carry: Carry of this half.

        Returns:
            Mean and log-variance [1, 2*L, t, h, w], the latter clamped; the next carry.
        """
        found, carry = self.run_frames(self._encode_low, features, carry)
        return clamp_logvar(found.movedim(0, 1).unsqueeze(0)), carry

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Carry of this half.

        Returns:
            Features [T, C, y, x] in channels last, see `split.decode_cut`; the next carry.

        Raises:
            ValueError: Several clips; an error in the caller.
        """
        if len(latent) != 1:
            raise ValueError("the halves take one clip at a time")
        return self.run_frames(self._decode_low, latent[0].movedim(1, 0), carry)

    def decode_high(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` gave; not changed.
            carry: Carry of this half and this tile.

        Returns:
            Finished pictures [T', 3, H, W] of the box, not clipped; the next carry.
        """
        return self.run_frames(self._decode_high, features, carry)


def _modules(config: WanConfig, stages: Sequence[Stage]) -> int:
    """Number of modules that some stages are in the plain variant: Wan 2.1 has one flat list."""
    if config.has_stage_shortcuts:
        return len(stages)
    return sum(stage.blocks + stage.space for stage in stages)
