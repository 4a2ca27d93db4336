"""Blocks of the Wan VAEs, each as published.

Frames are [B, C, T, H, W]; `carry` is the working copy of this slice. Parts without a carry
take it too, so that all of a stage's parts are called alike.

Source: Wan 2.1 and Wan 2.2 VAEs (Wan-AI, Apache-2.0).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from engine.ops.conv.causal_conv import Carry, ZeroPastConv3d

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
