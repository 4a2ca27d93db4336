"""The SeedVR2 transformer in its plain variant: follows the publication, and is the reference.

Source: SeedVR2 transformer (ByteDance-Seed/SeedVR, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from einops import rearrange
from torch import Tensor, nn

from engine.models.seedvr2.dit.blocks import ATTENTION, DitBlock, DitRmsNorm, Layout, TimeEmbedding
from engine.models.seedvr2.dit.config import DIT_3B, DitConfig, Grid, windows
from engine.ops.attention.rope import (
    counted_positions,
    geometric_frequencies,
    linear_frequencies,
    spread_positions,
    window_angles,
)

if TYPE_CHECKING:
    from engine.ops.transfer.weight_streaming import WeightStream


class PatchIn(nn.Module):
    """Each patch of 1 x 2 x 2 positions becomes a token; channels are fastest inside a patch."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.patch = config.patch
        self.proj = nn.Linear(config.in_channels * _positions(config), config.dim)

    def forward(self, latent: Tensor) -> Tensor:
        """[T, H, W, in_channels] -> [t, h, w, dim]."""
        pt, ph, pw = self.patch
        pattern = "(t pt) (h ph) (w pw) c -> t h w (pt ph pw c)"
        return torch.as_tensor(self.proj(rearrange(latent, pattern, pt=pt, ph=ph, pw=pw)))


class PatchOut(nn.Module):
    """Each token becomes a patch again."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.patch = config.patch
        self.proj = nn.Linear(config.dim, config.out_channels * _positions(config))

    def forward(self, tokens: Tensor) -> Tensor:
        """[t, h, w, dim] -> [T, H, W, out_channels]."""
        pt, ph, pw = self.patch
        pattern = "t h w (pt ph pw c) -> (t pt) (h ph) (w pw) c"
        return torch.as_tensor(rearrange(self.proj(tokens), pattern, pt=pt, ph=ph, pw=pw))


class OutModulation(nn.Module):
    """Scale and shift after the last block.

    The time step's share is the one of the blocks' attention: the model was trained that way.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.out_shift = nn.Parameter(torch.zeros(dim))
        self.out_scale = nn.Parameter(torch.ones(dim))

    def forward(self, tokens: Tensor, emb: Tensor) -> Tensor:
        """[..., dim] -> the same shape."""
        steps = rearrange(emb, "(c step kind) -> step kind c", step=2, kind=3)
        shift, scale, _ = steps[ATTENTION].unbind()
        return tokens * (scale + self.out_scale) + (shift + self.out_shift)


class SeedVr2Dit(nn.Module):
    """Predicts the velocity from noisy latent, condition, text and time step.

    Attributes:
        config: Sizes of the model.
    """

    def __init__(self, config: DitConfig = DIT_3B) -> None:
        super().__init__()
        self.config = config
        self.vid_in = PatchIn(config)
        self.txt_in = nn.Linear(config.text_in_dim, config.dim)
        self.emb_in = TimeEmbedding(config)
        self.blocks = nn.ModuleList(DitBlock(config, layer) for layer in range(config.layers))
        if config.out_norm:
            self.vid_out_norm = DitRmsNorm(config, config.dim)
            self.vid_out_ada = OutModulation(config.dim)
        self.vid_out = PatchOut(config)

    def forward(self, latent: Tensor, text: Tensor, timestep: float) -> Tensor:
        """Predict the velocity: noise minus picture.

        Args:
            latent: [T, H, W, 33] in the type of the weights: noisy latent, condition, mask. H and
                W are even.
            text: [L, text_in_dim] in the same type, L >= 1.
            timestep: 0 (a picture) to 1000 (only noise).

        Returns:
            [T, H, W, 16].

        Memory: about ten times the tokens' `dim` values, and the scores of one window.
        """
        vid, txt, emb = self.vid_in(latent), self.txt_in(text), self.emb_in(timestep)
        grid = (vid.shape[0], vid.shape[1], vid.shape[2])
        layouts = [
            layout_of(self.config, grid, len(text), shifted, vid.device)
            for shifted in (False, True)
        ]
        for layer, block in enumerate(self.blocks):
            vid, txt = block(vid, txt, emb, layouts[layer % 2])
        if self.config.out_norm:
            vid = self.vid_out_ada(self.vid_out_norm(vid), emb)
        return torch.as_tensor(self.vid_out(vid))

    # what other variants do more about

    def finish_loading(self) -> None:
        """Call this after weights were loaded or replaced."""

    def stream_weights(self, stream: WeightStream) -> None:
        """Copy the blocks' weights to the device when they are used."""
        stream.attach(list(self.blocks))

    def check_between(self, check: Callable[[], None]) -> None:
        """Call something before each layer, which may wait or raise; not in this variant."""

    def release(self) -> None:
        """Give the memory of buffers back."""

    def close(self) -> None:
        """Give back everything that is held; the model is of no use afterwards."""


def layout_of(
    config: DitConfig, grid: Grid, text_length: int, shifted: bool, device: torch.device
) -> Layout:
    """Windows and angles of the regular or the shifted layers.

    Args:
        config: Configuration of the model.
        grid: Tokens in time, height and width.
        text_length: Text tokens.
        shifted: Windows of the odd layers.
        device: Device of the angles.
    """
    found = windows(grid, config.window, shifted)
    shapes = {window.shape for window in found}
    angles = {shape: picture_angles(config, shape, text_length).to(device) for shape in shapes}
    text = text_angles(config, text_length)
    return Layout(found, angles, None if text is None else text.to(device))


def picture_angles(config: DitConfig, shape: Grid, text_length: int) -> Tensor:
    """Rotary angles of the tokens of a window: [tokens, P] float32.

    Positions begin again in each window. Where they count tokens, time continues after the text.
    """
    if config.rope == "mm":
        positions = counted_positions(shape, first_time=text_length)
        return window_angles(positions, geometric_frequencies(config.rope_dim))
    return window_angles(spread_positions(shape), linear_frequencies(config.rope_dim))


def text_angles(config: DitConfig, length: int) -> Tensor | None:
    """Rotary angles of text tokens, [length, P] float32; None: no rotation.

    Text token i has position i on all three axes.
    """
    if config.rope == "axial":
        return None
    angles = torch.arange(length)[:, None] * geometric_frequencies(config.rope_dim)
    return angles.repeat(1, 3)


def _positions(config: DitConfig) -> int:
    time, height, width = config.patch
    return time * height * width
