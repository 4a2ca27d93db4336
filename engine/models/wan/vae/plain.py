"""The Wan VAEs in their plain variant: reads like the description, and is what others must equal.

Frames are [B, C, T, H, W]; `carry` is the working copy of this slice. Parts without a carry take it
too, so that all parts of a stage are called alike. The first frame of a clip is never mixed with
others: downsamplers and upsamplers hand it on, and the convolutions over time begin after it.

Source: Wan 2.1 and Wan 2.2 VAEs (Wan-AI, Apache-2.0), the layout of the 2x decoder (spacepxl,
Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from torch import Tensor, nn

from engine.models.video_vae.slicing import SlicedVae, clamp_logvar
from engine.models.wan.vae.config import WAN21, Stage, WanConfig
from engine.ops.conv.causal_conv import Carry, CausalConv3d, ZeroPastConv3d

_LEAST_LENGTH = 1e-12


class WanRmsNorm(nn.Module):
    """RMS norm of every position over its channels: x / max(||x||, 1e-12) * sqrt(C) * gamma.

    The length is taken in float32 at least: half precision cannot represent 1e-12.

    Args:
        channels: C.
        axes: Axes of a frame or clip after the channels, which gamma has in the published files.
    """

    def __init__(self, channels: int, axes: int = 3) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, *(1,) * axes))

    def forward(self, frames: Tensor) -> Tensor:
        """[B, C, ...] -> the same shape; positions of zeros stay zero."""
        wide = torch.promote_types(frames.dtype, torch.float32)
        length = torch.linalg.vector_norm(frames, dim=1, keepdim=True, dtype=wide)
        scale = len(self.gamma) ** 0.5 / length.clamp(min=_LEAST_LENGTH)
        return torch.as_tensor((frames * scale * self.gamma).to(frames.dtype))


def wide_conv(inner: int, outer: int) -> ZeroPastConv3d:
    """The usual 3x3x3 convolution: zeros around each frame and before the clip."""
    return ZeroPastConv3d(inner, outer, 3, padding=(0, 1, 1))


def activated(norm: nn.Module, frames: Tensor) -> Tensor:
    """Norm, then SiLU; in the memory of the norm's result when no gradient is needed."""
    normed = norm(frames)
    return F.silu(normed, inplace=not normed.requires_grad)


class WanResidualBlock(nn.Module):
    """Twice norm, SiLU and convolution, plus the input."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.residual = nn.ModuleDict(
            {
                "0": WanRmsNorm(inner),
                "2": wide_conv(inner, outer),
                "3": WanRmsNorm(outer),
                "6": wide_conv(outer, outer),
            }
        )
        if inner != outer:
            self.shortcut = ZeroPastConv3d(inner, outer, 1)

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T, H, W]."""
        norm1, conv1, norm2, conv2 = self.residual.values()
        hidden = conv1(activated(norm1, frames), carry)
        hidden = conv2(activated(norm2, hidden), carry)
        if hasattr(self, "shortcut"):
            frames = self.shortcut(frames)
        return torch.as_tensor(hidden.add_(frames))


class WanAttention(nn.Module):
    """Self-attention over all positions of a frame, one head as wide as the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = WanRmsNorm(channels, axes=2)
        self.to_qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.proj = nn.Conv2d(channels, channels, 1)

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> the same shape, the input added back; no frame sees another."""
        frames = rearrange(clip, "b c t h w -> (b t) c h w")
        tokens = rearrange(self.to_qkv(self.norm(frames)), "n c h w -> n 1 (h w) c").contiguous()
        mixed = F.scaled_dot_product_attention(*tokens.chunk(3, dim=-1))
        # Not in one pattern: strides of a batch of one decide how the convolution rounds.
        result: Tensor = self.proj(rearrange(mixed, "n 1 hw c -> n c hw").reshape(frames.shape))
        return rearrange(frames + result, "(b t) c h w -> b c t h w", b=len(clip))


def middle(channels: int) -> nn.ModuleList:
    """Residual block, attention, residual block at the smallest size."""
    blocks = (WanResidualBlock(channels, channels) for _ in range(2))
    return nn.ModuleList([next(blocks), WanAttention(channels), next(blocks)])


class Head(nn.ModuleDict):
    """Norm, SiLU and the last convolution."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__({"0": WanRmsNorm(inner), "2": wide_conv(inner, outer)})

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T, H, W]."""
        norm, conv = self.values()
        return torch.as_tensor(conv(activated(norm, frames), carry))


class WanDownsampler(nn.Module):
    """Half the height and width; on request, then half the frames (of 1 + 2n the 1 + n)."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        channels = stage.result
        self.resample = nn.ModuleDict({"1": nn.Conv2d(channels, channels, 3, stride=2)})
        if stage.time:
            self.time_conv = OverTime(channels, channels, (3, 1, 1), stride=(2, 1, 1))

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> [B, C, T', H // 2, W // 2]; zeros only at the right and the bottom."""
        frames = rearrange(clip, "b c t h w -> (b t) c h w")
        smaller: Tensor = self.resample["1"](F.pad(frames, (0, 1, 0, 1)))
        halved = rearrange(smaller, "(b t) c h w -> b c t h w", b=len(clip))
        return self.time_conv(halved, carry) if hasattr(self, "time_conv") else halved


class OverTime(CausalConv3d):
    """Every third of overlapping frames: frame k of the result sees frames 2k - 2 to 2k.

    Frame 0 of a clip is handed on as it is; nothing stands before it.
    """

    past = "none"

    def forward(self, frames: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, C, T, H, W] -> [B, C, T', H, W], of 1 + 2n frames 1 + n, later of 2n frames n."""
        if carry is None or not carry.first:
            return super().forward(frames, carry)
        if not carry.last:
            carry.keep(self, frames[:, :, -1:].clone())
        if frames.shape[2] == 1:
            return frames
        return torch.cat((frames[:, :, :1], nn.Conv3d.forward(self, frames)), dim=2)


class WanUpsampler(nn.Module):
    """Doubles height and width, before that on request the time: 1 + n frames become 1 + 2n."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        inner, outer = stage.outer, stage.result
        self.resample = nn.ModuleDict({"1": nn.Conv2d(inner, outer, 3, padding=1)})
        if stage.time:
            self.time_conv = ZeroPastConv3d(inner, 2 * inner, (3, 1, 1))

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, outer, T', 2*H, 2*W]."""
        if hasattr(self, "time_conv"):
            clip = self._over_time(clip, carry)
        frames = rearrange(clip, "b c t h w -> (b t) c h w")
        larger: Tensor = self.resample["1"](F.interpolate(frames, scale_factor=2, mode="nearest"))
        return rearrange(larger, "(b t) c h w -> b c t h w", b=len(clip))

    def _over_time(self, clip: Tensor, carry: Carry) -> Tensor:
        """Frame 0 of a clip is handed on, and invisible to those after it."""
        if not carry.first:
            return self._doubled(clip, carry)
        first, rest = clip[:, :, :1], clip[:, :, 1:]
        if rest.shape[2]:
            return torch.cat((first, self._doubled(rest, carry)), dim=2)
        if not carry.last:
            carry.keep(self.time_conv, self.time_conv.before_the_clip(clip))
        return first

    def _doubled(self, clip: Tensor, carry: Carry) -> Tensor:
        """Each frame becomes two: the first half of the channels, then the second."""
        both: Tensor = self.time_conv(clip, carry)
        return rearrange(both, "b (half c) t h w -> b c (t half) h w", half=2)


class AveragedShortcut(nn.Module):
    """Around a stage of the Wan 2.2 encoder: means of neighbouring pixels, frames or channels."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, result, T', H', W']; a black frame stands before the clip."""
        space, time = 1 + self.stage.space, 1 + self.stage.time
        if frames.shape[2] % time:
            frames = F.pad(frames, (0, 0, 0, 0, 1, 0))
        pattern = "b c (t st) (h sy) (w sx) -> b (c st sy sx) t h w"
        deep = rearrange(frames, pattern, st=time, sy=space, sx=space)
        return reduce(deep, "b (c group) t h w -> b c t h w", "mean", c=self.stage.result)


class RepeatedShortcut(nn.Module):
    """Around a stage of the Wan 2.2 decoder: channels repeated over pixels, frames or channels."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, frames: Tensor, carry: Carry) -> Tensor:
        """[B, inner, T, H, W] -> [B, result, T', H', W']; a clip starts with its last repeat."""
        space, time = 1 + self.stage.space, 1 + self.stage.time
        copies = self.stage.result * time * space**2 // frames.shape[1]
        deep = repeat(frames, "b c t h w -> b (c copies) t h w", copies=copies)
        pattern = "b (c st sy sx) t h w -> b c (t st) (h sy) (w sx)"
        spread = rearrange(deep, pattern, st=time, sy=space, sx=space)
        return spread[:, :, time - 1 :] if carry.first else spread


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


class WanVae(nn.Module, SlicedVae):
    """Encoder and decoder under the published names; see `SlicedVae` for what it does.

    Frames and latents have the type and device of the weights. Gradients flow through both.
    A slice may have any length: the first one 1 + 4n frames or 1 + n latents, later ones 4n or n.

    Latents are raw, not normalised by the published statistics. Decoded frames are finished:
    assembled from their patches, and `config.upscale` times as large.
    """

    config: WanConfig

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
    """Frames [B, 3, T, H, W] of the result of the decoder's head, [B, C, T, h, w].

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
