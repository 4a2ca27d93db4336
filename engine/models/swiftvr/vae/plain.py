"""The autoencoder of SwiftVR in its plain variant: follows the description, and is the reference.

Clips are [B, C, T, H, W]. All layers are called with the clip and the working copy of the carry;
only memory blocks use it. Frames have values from 0 to 1. Four frames make a latent, from the
first frame of a clip on; a latent makes four frames, of which the first three of a clip are
dropped: the model answers three frames late.

Source: ReAE of SwiftVR (H-oliday/SwiftVR, Apache-2.0), whose layers are those of TAEHV (MIT).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from torch import Tensor, nn

from engine.models.swiftvr.vae.config import REAE, ReaeConfig
from engine.models.video_vae.slicing import SlicedVae
from engine.ops.conv.causal_conv import Carry

PIXELS = 2  # per side, folded into channels before the encoder and unfolded after the decoder
FOLDED = 3 * PIXELS**2
DROPPED = 3  # frames that are decoded before the first one of a clip
LARGEST = 3.0  # of a latent after the soft clamp


class FrameConv2d(nn.Conv2d):
    """A convolution of each frame by itself."""

    def forward(self, clip: Tensor, carry: Carry | None = None) -> Tensor:
        """[B, C, T, H, W] -> [B, C', T, H', W']."""
        return _clip(super().forward(_frames(clip)), len(clip))


def wide_conv(inner: int, outer: int, *, stride: int = 1, bias: bool = True) -> FrameConv2d:
    """The usual 3x3 convolution, with zeros around each frame."""
    return FrameConv2d(inner, outer, 3, stride=stride, padding=1, bias=bias)


class Relu(nn.Module):
    """Values below zero become zero."""

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """Any shape -> the same shape."""
        return F.relu(clip)


class SoftClamp(nn.Module):
    """3 * tanh(x / 3)."""

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """Any shape -> the same shape."""
        return torch.tanh(clip / LARGEST) * LARGEST


class MemoryBlock(nn.Module):
    """Three convolutions over a frame and the block's own input one frame earlier, then a sum.

    Before the first frame of a clip are zeros.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(2 * channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> the same shape.

        Raises:
            ValueError: The carry is of another clip.
        """
        past = torch.cat((self._before(clip, carry), clip[:, :, :-1]), dim=2)
        if not carry.last:
            carry.keep(self, clip[:, :, -1:].clone())
        change = self.conv(_frames(torch.cat((clip, past), dim=1)))
        return F.relu(_clip(change, len(clip)) + clip)

    def _before(self, clip: Tensor, carry: Carry) -> Tensor:
        if carry.first:
            return torch.zeros_like(clip[:, :, :1])
        tail = carry.tail(self)
        if tail is None or tail.shape != clip[:, :, :1].shape:
            raise ValueError("the carry belongs to another clip, or was handed over before")
        return tail


class TimePool(nn.Module):
    """Some frames become one: a 1x1 convolution of their channels, those of earlier ones first."""

    def __init__(self, channels: int, step: int) -> None:
        super().__init__()
        self.step = step
        self.conv = nn.Conv2d(step * channels, channels, 1, bias=False)

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, step * T, H, W] -> [B, C, T, H, W]."""
        beside = rearrange(clip, "b c (t step) h w -> b (step c) t h w", step=self.step)
        return _clip(self.conv(_frames(beside)), len(clip))


class TimeGrow(nn.Module):
    """A frame becomes one, by a 1x1 convolution, or two.

    Two are made of copies of the frame: three taps over the two copies, with zeros before and
    after them. So taps W0, W1, W2 give (W1 + W2) x, then (W0 + W1) x.
    """

    def __init__(self, channels: int, step: int) -> None:
        super().__init__()
        self.step = step
        if step == 1:
            self.proj = nn.Conv2d(channels, channels, 1, bias=False)
        else:
            self.conv3d = nn.Conv3d(channels, channels, (3, 1, 1), padding=(1, 0, 0), bias=False)

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> [B, C, step * T, H, W]."""
        if self.step == 1:
            return _clip(self.proj(_frames(clip)), len(clip))
        copies = repeat(clip, "b c t h w -> (b t) c step h w", step=self.step)
        grown: Tensor = self.conv3d(copies)
        return rearrange(grown, "(b t) c step h w -> b c (t step) h w", b=len(clip))

    def taps(self, weight: Tensor) -> list[Tensor]:
        """The matrix [C, C] that gives each of the frames that a frame becomes.

        Args:
            weight: Weight of its convolution.
        """
        if self.step == 1:
            return [weight.flatten(1)]
        taps = weight.flatten(2).unbind(-1)
        return [taps[1] + taps[2], taps[0] + taps[1]]


class Enlarge(nn.Module):
    """Every pixel four times: twice the height and width."""

    def forward(self, clip: Tensor, carry: Carry) -> Tensor:
        """[B, C, T, H, W] -> [B, C, T, 2 * H, 2 * W]."""
        return _clip(F.interpolate(_frames(clip), scale_factor=2, mode="nearest"), len(clip))


class Reae(nn.Module, SlicedVae):
    """Encoder and decoder under the published names; see `SlicedVae` for what it does.

    Frames and latents have the type and device of the weights. Gradients flow through both.
    A slice may have any length: 4n frames or n latents. Decoded frames nominally are from 0 to 1;
    they are not clipped.
    """

    config: ReaeConfig
    first_frames = ReaeConfig.temporal_factor
    has_variance = False

    def __init__(self, config: ReaeConfig = REAE) -> None:
        super().__init__()
        self.config = config
        self.encoder = nn.ModuleList(_encoder_layers(config))
        self.decoder = nn.ModuleList(_decoder_layers(config))

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae.encode_slice`."""
        carry = carry.begin()
        folded = F.pixel_unshuffle(frames.transpose(1, 2), PIXELS).transpose(1, 2)
        return _through(self.encoder, folded, carry), carry.done()

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode one slice; see `SlicedVae.decode_slice`."""
        carry = carry.begin()
        folded = _through(self.decoder, latent, carry)
        if carry.first:
            folded = folded[:, :, DROPPED:]
        frames = F.pixel_shuffle(folded.transpose(1, 2), PIXELS).transpose(1, 2)
        return frames, carry.done()


def _encoder_layers(config: ReaeConfig) -> Iterable[nn.Module]:
    width = config.encoder_width
    yield from (wide_conv(FOLDED, width), Relu())
    for step in (2, 2, 1):
        yield from (TimePool(width, step), wide_conv(width, width, stride=2, bias=False))
        yield from (MemoryBlock(width) for _ in range(3))
    yield wide_conv(width, config.latent_channels)


def _decoder_layers(config: ReaeConfig) -> Iterable[nn.Module]:
    widths = config.decoder_widths
    yield from (SoftClamp(), wide_conv(config.latent_channels, widths[0]), Relu())
    for (inner, outer), step in zip(pairwise(widths), (1, 2, 2), strict=True):
        yield from (MemoryBlock(inner) for _ in range(3))
        yield from (Enlarge(), TimeGrow(inner, step), wide_conv(inner, outer, bias=False))
    yield from (Relu(), wide_conv(widths[-1], FOLDED))


def _through(layers: Iterable[nn.Module], clip: Tensor, carry: Carry) -> Tensor:
    for layer in layers:
        clip = torch.as_tensor(layer(clip, carry))
    return clip


def _frames(clip: Tensor) -> Tensor:
    """[B, C, T, H, W] -> [B * T, C, H, W]."""
    return rearrange(clip, "b c t h w -> (b t) c h w")


def _clip(frames: Tensor, batch: int) -> Tensor:
    """[B * T, C, H, W] -> [B, C, T, H, W]."""
    return rearrange(frames, "(b t) c h w -> b c t h w", b=batch)
