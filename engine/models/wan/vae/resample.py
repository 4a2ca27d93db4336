"""How the Wan VAEs make frames smaller and larger, in space and in time; see `blocks`.

The first frame of a clip is never mixed with others: downsamplers and upsamplers hand it on, and
the convolutions over time begin after it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange, reduce, repeat
from torch import Tensor, nn

from engine.models.wan.vae.config import Stage
from engine.ops.conv.causal_conv import Carry, CausalConv3d, ZeroPastConv3d


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
    """On request twice the frames (of 1 + n the 1 + 2n); then twice the height and width."""

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
