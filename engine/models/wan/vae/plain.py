"""The Wan VAEs in their plain variant: reads like the description, and is what others must equal.

Source: Wan 2.1 and Wan 2.2 VAEs (Wan-AI, Apache-2.0), the layout of the 2x decoder (spacepxl,
Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
from einops import rearrange
from torch import Tensor, nn

from engine.models.video_vae.slicing import clamp_logvar
from engine.models.wan.vae.blocks import Head, WanResidualBlock, middle, wide_conv
from engine.models.wan.vae.config import WAN21, Stage, WanConfig
from engine.models.wan.vae.interface import WanVaeVariant
from engine.models.wan.vae.resample import (
    AveragedShortcut,
    RepeatedShortcut,
    WanDownsampler,
    WanUpsampler,
)
from engine.ops.conv.causal_conv import Carry, ZeroPastConv3d


class DownStage(nn.Module):
    """A level of the Wan 2.2 encoder, with its shortcut."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.downsamples = nn.ModuleList(_parts(stage, WanDownsampler))
        self.avg_shortcut = AveragedShortcut(stage)

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, result, T', H', W']."""
        result = _through(self.downsamples, frames, carry)
        return result + torch.as_tensor(self.avg_shortcut(frames, carry))


class UpStage(nn.Module):
    """A level of the Wan 2.2 decoder, with a shortcut where it enlarges."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.upsamples = nn.ModuleList(_parts(stage, WanUpsampler))
        self.avg_shortcut = RepeatedShortcut(stage) if stage.space else None

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, result, T', H', W']."""
        result = _through(self.upsamples, frames, carry)
        if self.avg_shortcut is None:
            return result
        return result + torch.as_tensor(self.avg_shortcut(frames, carry))


class WanEncoder(nn.Module):
    """Frames to mean and log-variance."""

    def __init__(self, config: WanConfig) -> None:
        super().__init__()
        stages = config.encoder_stages
        self.conv1 = wide_conv(config.in_channels * config.patch**2, stages[0].inner)
        if config.has_stage_shortcuts:
            self.downsamples = nn.ModuleList(DownStage(stage) for stage in stages)
        else:
            flat = [part for stage in stages for part in _parts(stage, WanDownsampler)]
            self.downsamples = nn.ModuleList(flat)
        self.middle = middle(stages[-1].result)
        self.head = Head(stages[-1].result, 2 * config.latent_channels)

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> [B, 2*L, t, h, w]."""
        parts = (self.conv1, *self.downsamples, *self.middle, self.head)
        return _through(parts, frames, carry)


class WanDecoder(nn.Module):
    """Latent to frames."""

    def __init__(self, config: WanConfig) -> None:
        super().__init__()
        stages = config.decoder_stages
        self.conv1 = wide_conv(config.latent_channels, stages[0].inner)
        self.middle = middle(stages[0].inner)
        if config.has_stage_shortcuts:
            self.upsamples = nn.ModuleList(UpStage(stage) for stage in stages)
        else:
            flat = [part for stage in stages for part in _parts(stage, WanUpsampler)]
            self.upsamples = nn.ModuleList(flat)
        self.head = Head(stages[-1].result, config.out_channels * config.patch**2)

    def forward(self, latent: Tensor, carry: Carry) -> Tensor:
        """[B, L, t, h, w] -> [B, C, T, H, W]."""
        parts = (self.conv1, *self.middle, *self.upsamples, self.head)
        return _through(parts, latent, carry)


class WanVae(nn.Module, WanVaeVariant):
    """Encoder and decoder under the published names; see `SlicedVae` for what it does.

    Frames and latents have the type and device of the weights. Gradients flow through both.
    A slice may have any length: the first one 1 + 4n frames or 1 + n latents, later ones 4n or n.
    """

    def __init__(self, config: WanConfig = WAN21) -> None:
        super().__init__()
        self.config = config
        both = 2 * config.latent_channels
        self.encoder = WanEncoder(config)
        self.conv1 = ZeroPastConv3d(both, both, 1)
        self.conv2 = ZeroPastConv3d(config.latent_channels, config.latent_channels, 1)
        self.decoder = WanDecoder(config)

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae.encode_slice`."""
        carry = carry.begin()
        posterior = self.conv1(self.encoder(patches(frames, self.config.patch), carry))
        return clamp_logvar(posterior), carry.done()

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Frames of one slice, and the carry for the next; see `SlicedVae.decode_slice`.

        They are pictures [B, 3, T, upscale * H, upscale * W].
        """
        carry = carry.begin()
        frames = self.decoder(self.conv2(latent), carry)
        return pictures(frames, self.config), carry.done()


def pictures(frames: Tensor, config: WanConfig) -> Tensor:
    """What the decoder's head gives, [B, C, T, h, w], as pictures [B, 3, T, H, W].

    Wan 2.2 unfolds its patches (channel 4 * colour + 2 * column + row), the 2x decoder shuffles
    its channels into pixels (channel 4 * colour + 2 * row + column), the others are done.
    """
    if config.patch > 1:
        pattern = "b (c column row) t h w -> b c t (h row) (w column)"
        frames = rearrange(frames, pattern, row=config.patch, column=config.patch)
    if config.upscale > 1:
        pattern = "b (c row column) t h w -> b c t (h row) (w column)"
        frames = rearrange(frames, pattern, row=config.upscale, column=config.upscale)
    return frames


def patches(frames: Tensor, side: int) -> Tensor:
    """[B, 3, T, H, W] -> [B, 3 * side**2, T, h, w], channel 4 * colour + 2 * column + row."""
    if side == 1:
        return frames
    pattern = "b c t (h row) (w column) -> b (c column row) t h w"
    return rearrange(frames, pattern, row=side, column=side)


def _parts(stage: Stage, resampler: type[WanDownsampler | WanUpsampler]) -> list[nn.Module]:
    """Residual blocks of a level, and after them what changes the size."""
    widths = [stage.inner] + [stage.outer] * stage.blocks
    blocks: list[nn.Module] = [WanResidualBlock(*pair) for pair in pairwise(widths)]
    return [*blocks, resampler(stage)] if stage.space else blocks


def _through(parts: Iterable[nn.Module], frames: Tensor, carry: Carry) -> Tensor:
    for part in parts:
        frames = part(frames, carry)
    return frames
