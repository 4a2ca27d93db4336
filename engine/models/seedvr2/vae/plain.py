"""The SeedVR2 VAE in its plain variant: follows the publication, and is the reference for others.

Source: SeedVR2 VAE, s8_c16_t4 (ByteDance-Seed/SeedVR, Apache-2.0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.seedvr2.vae.blocks import (
    DownBlock,
    FrameNorm,
    MidBlock,
    UpBlock,
    activated,
    wide_conv,
)
from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.seedvr2.vae.interface import SeedVr2VaeVariant
from engine.models.video_vae.slicing import clamp_logvar
from engine.ops.conv.causal_conv import Carry, CausalConv3d


class SeedVr2Encoder(nn.Module):
    """Frames to mean and log-variance."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        widths = config.block_out_channels
        self.conv_in = wide_conv(config.in_channels, widths[0])
        self.down_blocks = nn.ModuleList(DownBlock(config, level) for level in range(len(widths)))
        self.mid_block = MidBlock(config)
        self.conv_norm_out = FrameNorm(config, widths[-1])
        self.conv_out = wide_conv(widths[-1], 2 * config.latent_channels)

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, 3, T, H, W] -> mean and log-variance [B, 2*L, t, h, w], not clamped."""
        frames = self.conv_in(frames, carry)
        for block in (*self.down_blocks, self.mid_block):
            frames = block(frames, carry)
        return torch.as_tensor(self.conv_out(activated(self.conv_norm_out, frames), carry))


class SeedVr2Decoder(nn.Module):
    """Latent to frames."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        widths = config.block_out_channels
        self.conv_in = wide_conv(config.latent_channels, widths[-1])
        self.up_blocks = nn.ModuleList(UpBlock(config, level) for level in range(len(widths)))
        self.mid_block = MidBlock(config)
        self.conv_norm_out = FrameNorm(config, widths[0])
        self.conv_out = wide_conv(widths[0], config.out_channels)

    def forward(self, latent: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, L, t, h, w] -> [B, 3, T, H, W], not clipped."""
        frames = self.conv_in(latent, carry)
        for block in (self.mid_block, *self.up_blocks):
            frames = block(frames, carry)
        return torch.as_tensor(self.conv_out(activated(self.conv_norm_out, frames), carry))


class SeedVr2Vae(nn.Module, SeedVr2VaeVariant):
    """Encoder and decoder under the published names; see `SlicedVae`.

    Frames and latents have the type and device of the weights. Gradients flow through both.

    Memory: a slice of n frames takes the carry and about 5n + 5 frames of full size with twice
    the first width; on a processor a quarter of that is workspace of the convolutions.
    """

    def __init__(self, config: VaeConfig = VAE) -> None:
        super().__init__()
        self.config = config
        self.encoder = SeedVr2Encoder(config)
        self.decoder = SeedVr2Decoder(config)
        if config.quant_conv:
            both = 2 * config.latent_channels
            self.quant_conv = CausalConv3d(both, both, 1)
        if config.post_quant_conv:
            self.post_quant_conv = CausalConv3d(config.latent_channels, config.latent_channels, 1)

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae.encode_slice`."""
        carry = carry.begin()
        posterior = self.encoder(frames, carry)
        if self.config.quant_conv:
            posterior = self.quant_conv(posterior)
        return clamp_logvar(posterior), carry.done()

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Frames of one slice, and the carry for the next; see `SlicedVae.decode_slice`."""
        carry = carry.begin()
        if self.config.post_quant_conv:
            latent = self.post_quant_conv(latent)
        return self.decoder(latent, carry), carry.done()
