"""The SeedVR2 VAE in its plain variant: follows the publication, and is the reference for others.

Frames are [B, C, T, H, W]. `carry` is the working copy of this slice, or None for a whole clip.

Source: SeedVR2 VAE, s8_c16_t4 (ByteDance-Seed/SeedVR, Apache-2.0).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from engine.models.seedvr2.vae.config import VAE, VaeConfig
from engine.models.video_vae.slicing import SlicedVae, clamp_logvar
from engine.ops.conv.causal_conv import Carry, CausalConv3d


class FrameNorm(nn.GroupNorm):
    """GroupNorm of every frame by itself: no statistics over time, so slices are exact.

    Each frame is made contiguous for it: on a CPU torch takes the variance of channels-last
    frames as a difference of two large sums, which costs three digits where the mean is 30 times
    the deviation.
    """

    def __init__(self, config: VaeConfig, channels: int) -> None:
        super().__init__(config.norm_groups, channels, config.norm_eps)

    def forward(self, frames: Tensor) -> Tensor:
        """Normalise [B, C, T, H, W], or single frames [N, C, H, W]."""
        if frames.ndim == 4:
            return super().forward(frames.contiguous())
        single = rearrange(frames, "b c t h w -> (b t) c h w").contiguous()
        return rearrange(super().forward(single), "(b t) c h w -> b c t h w", b=len(frames))


def activated(norm: FrameNorm, frames: Tensor) -> Tensor:
    """Norm, then SiLU; in the memory of the norm's result when no gradient is needed."""
    normed = norm(frames)
    return F.silu(normed, inplace=not normed.requires_grad)


def wide_conv(inner: int, outer: int) -> CausalConv3d:
    """The usual 3x3x3 convolution with a zero pixel around each frame."""
    return CausalConv3d(inner, outer, 3, padding=(0, 1, 1))


class SeedVr2ResidualBlock(nn.Module):
    """Twice norm, SiLU and convolution, plus the input."""

    def __init__(self, config: VaeConfig, inner: int, outer: int) -> None:
        super().__init__()
        self.norm1 = FrameNorm(config, inner)
        self.conv1 = wide_conv(inner, outer)
        self.norm2 = FrameNorm(config, outer)
        self.conv2 = wide_conv(outer, outer)
        if inner != outer:
            self.conv_shortcut = CausalConv3d(inner, outer, 1)

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T, H, W]."""
        hidden = self.conv1(activated(self.norm1, frames), carry)
        hidden = self.conv2(activated(self.norm2, hidden), carry)
        if hasattr(self, "conv_shortcut"):
            frames = self.conv_shortcut(frames)
        return torch.as_tensor(hidden.add_(frames))


class SeedVr2Attention(nn.Module):
    """Self-attention over all positions of a frame, one head as wide as the channels."""

    def __init__(self, config: VaeConfig, channels: int) -> None:
        super().__init__()
        self.group_norm = FrameNorm(config, channels)
        self.to_q = nn.Linear(channels, channels)
        self.to_k = nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.ModuleList([nn.Linear(channels, channels)])

    def forward(self, frames: Tensor) -> Tensor:
        """[N, C, H, W] -> the same shape, the input added back."""
        tokens = rearrange(self.group_norm(frames), "n c h w -> n 1 (h w) c")
        mixed = F.scaled_dot_product_attention(
            self.to_q(tokens), self.to_k(tokens), self.to_v(tokens)
        )
        result = rearrange(self.to_out[0](mixed), "n 1 (h w) c -> n c h w", h=frames.shape[2])
        return torch.as_tensor(frames + result)


class MidBlock(nn.Module):
    """Residual block, attention, residual block at the smallest size."""

    def __init__(self, config: VaeConfig) -> None:
        super().__init__()
        channels = config.block_out_channels[-1]
        self.attentions = nn.ModuleList([SeedVr2Attention(config, channels)])
        self.resnets = nn.ModuleList(
            [SeedVr2ResidualBlock(config, channels, channels) for _ in range(2)]
        )

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, C, T, H, W] -> the same shape."""
        frames = self.resnets[0](frames, carry)
        single = self.attentions[0](rearrange(frames, "b c t h w -> (b t) c h w"))
        frames = rearrange(single, "(b t) c h w -> b c t h w", b=len(frames))
        return torch.as_tensor(self.resnets[1](frames, carry))


class SeedVr2Downsampler(nn.Module):
    """Half the height and width, and on request half the frames (of 1 + 2n the n + 1)."""

    def __init__(self, channels: int, *, time: bool) -> None:
        super().__init__()
        kernel, stride = ((3, 3, 3), (2, 2, 2)) if time else ((1, 3, 3), (1, 2, 2))
        self.conv = CausalConv3d(channels, channels, kernel, stride=stride)

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, C, T, H, W] -> [B, C, T', H // 2, W // 2]; zeros only at the right and the bottom."""
        return torch.as_tensor(self.conv(F.pad(frames, (0, 1, 0, 1)), carry))


class SeedVr2Upsampler(nn.Module):
    """Twice the height and width, and on request twice the frames (of n + 1 the 1 + 2n)."""

    def __init__(self, channels: int, *, time: bool) -> None:
        super().__init__()
        self.frames_each = 2 if time else 1
        self.conv = wide_conv(channels, channels)
        self.upscale_conv = CausalConv3d(channels, 4 * self.frames_each * channels, 1)

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, C, T, H, W] -> [B, C, T', 2*H, 2*W]."""
        pattern = "b (sy sx st c) t h w -> b c (t st) (h sy) (w sx)"
        spread = rearrange(self.upscale_conv(frames), pattern, sy=2, sx=2, st=self.frames_each)
        if self.frames_each > 1 and (carry is None or carry.first):
            # Frame 1 is dropped without moving the others: frame 0 takes its place.
            spread[:, :, 1] = spread[:, :, 0]
            spread = spread[:, :, 1:]
        return torch.as_tensor(self.conv(spread, carry))


class DownBlock(nn.Module):
    """A level of the encoder: residual blocks, then the downsampler except in the last one."""

    def __init__(self, config: VaeConfig, level: int) -> None:
        super().__init__()
        widths = config.block_out_channels
        outer, inner = widths[level], widths[max(level - 1, 0)]
        self.resnets = nn.ModuleList(
            SeedVr2ResidualBlock(config, inner if layer == 0 else outer, outer)
            for layer in range(config.layers_per_block)
        )
        self.downsamplers = nn.ModuleList(
            SeedVr2Downsampler(outer, time=time) for time in config.encoder_time[level : level + 1]
        )

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T', H', W']."""
        for part in (*self.resnets, *self.downsamplers):
            frames = part(frames, carry)
        return frames


class UpBlock(nn.Module):
    """A level of the decoder: residual blocks, then the upsampler except in the last one."""

    def __init__(self, config: VaeConfig, level: int) -> None:
        super().__init__()
        widths = config.block_out_channels[::-1]
        outer, inner = widths[level], widths[max(level - 1, 0)]
        self.resnets = nn.ModuleList(
            SeedVr2ResidualBlock(config, inner if layer == 0 else outer, outer)
            for layer in range(config.layers_per_block + 1)
        )
        self.upsamplers = nn.ModuleList(
            SeedVr2Upsampler(outer, time=time) for time in config.decoder_time[level : level + 1]
        )

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T', H', W']."""
        for part in (*self.resnets, *self.upsamplers):
            frames = part(frames, carry)
        return frames


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


class SeedVr2Vae(nn.Module, SlicedVae):
    """Encoder and decoder under the published names; see `SlicedVae`.

    Frames and latents have the type and device of the weights. Gradients flow through both.

    Memory: a slice of n frames takes the carry and about 5n + 5 frames of full size with twice
    the first width; on a CPU a quarter of that is workspace of the convolutions.
    """

    config: VaeConfig

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
