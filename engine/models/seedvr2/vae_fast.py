"""The VAE of SeedVR2, fast form: equal to the plain one but for rounding, see docs/vae-folds.md."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.models.fast.form import FastForm
from engine.models.seedvr2.config import VaeConfig
from engine.models.seedvr2.fast_build import Builder, decoder, encoder
from engine.models.seedvr2.fast_parts import TileFlow
from engine.models.seedvr2.fast_statistics import Statistics
from engine.models.seedvr2.form import VaeForm
from engine.models.slicing import clamped_moments
from engine.ops.conv3d import Carry
from engine.ops.precision import exact_arithmetic, no_gradients
from engine.optimisations import VaeSwitches


class FastVae(FastForm[TileFlow], VaeForm):
    """Encoder and decoder with exact folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Args:
        config: Of the VAE.
        weights: Published name -> tensor; read one at a time.
        device: Where to work.
        dtype: Of activations and convolutions; norms are computed in float32 (float64).
        switches: Which optimisations to use.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W] (attention: [T, C, H, W]), of the first clip of a batch.

    Memory: `engine.models.seedvr2.cost` says how many bytes.
    """

    config: VaeConfig
    flow_type = TileFlow

    def __init__(
        self,
        config: VaeConfig,
        weights: Mapping[str, Tensor],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        switches: VaeSwitches | None = None,
    ) -> None:
        super().__init__(torch.device(device), dtype, switches or VaeSwitches())
        self.config, options = config, self.conv_options()
        with no_gradients(), exact_arithmetic():
            build = Builder(config, weights, self.device, options, self.switches)
            self._low, self._high = decoder(build, config)
            self.parts = {"encode": encoder(build, config), "decode": [*self._low, *self._high]}

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode one slice; see `SlicedVae`."""
        found, carry = self.run_clips("encode", frames, carry)
        return clamped_moments(found), carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode one slice; see `SlicedVae`."""
        return self.run_clips("decode", latent, carry)

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Of this part.

        Returns:
            Features [T, C, 2*h, 2*w] in channels last, T = 2*t, one less in the first slice; the
            next carry.
        """
        if len(latent) != 1:
            raise ValueError("split decoding takes one clip at a time")
        return self.run_flow(self._low, self.flow_of(latent[0].movedim(0, 1), carry.begin()))

    def decode_high(
        self, features: Tensor, carry: Carry, statistics: Statistics | None = None
    ) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` gave; not changed.
            carry: Of this part and this tile.
            statistics: Whose norms are used; None for the tile's own.

        Returns:
            Frames [T', 3, 4*y, 4*x], not clipped, T' = 2*T, one less in the first slice; the next
            carry.
        """
        flow = self.flow_of(features, carry.begin())
        flow.statistics = statistics
        return self.run_flow(self._high, flow)

    def show(self, name: str, frames: Tensor) -> None:
        """Give the observer a copy of what a part gave, of attention as the frames it works on."""
        if ".attentions." not in name:
            super().show(name, frames)
        elif self.trace is not None:
            self.trace(name, frames.clone(memory_format=torch.contiguous_format))
