"""The VAE of SeedVR2, fast variant: equals the plain one but for rounding; docs/vae-folds.md."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast_build import SeedVr2VaeBuilder, decoder, encoder
from engine.models.seedvr2.vae.interface import SeedVr2VaeVariant
from engine.models.video_vae.runner import FastSlicedVae, Parts
from engine.ops.conv.causal_conv import Carry


class FastVae(FastSlicedVae[VaeConfig], SeedVr2VaeVariant):
    """Encoder and decoder with exact folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Arguments: see `FastSlicedVae`.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W] (attention: [T, C, H, W]), of the first clip of a batch.

    Memory: measured, see `engine.models.video_vae.measured_memory`.
    """

    def build_parts(self, weights: Mapping[str, Tensor]) -> Parts:
        """The parts of encoder and decoder; the decoder's are in two lists."""
        build = SeedVr2VaeBuilder(
            self.config, weights, self.device, self.conv_options(), self.switches
        )
        self._low, self._high = decoder(build, self.config)
        return {"encode": encoder(build, self.config), "decode": [*self._low, *self._high]}

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Carry of this part.

        Returns:
            Features [T, C, 2*h, 2*w] in channels last, T = 2*t, one less in the first slice; the
            next carry.
        """
        if len(latent) != 1:
            raise ValueError("split decoding takes one clip at a time")
        return self.run_parts(self._low, self.context_of(latent[0].movedim(0, 1), carry.begin()))

    def decode_high(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` returned; not changed.
            carry: Carry of this part and this tile.

        Returns:
            Frames [T', 3, 4*y, 4*x], not clipped, T' = 2*T, one less in the first slice; the next
            carry.
        """
        return self.run_parts(self._high, self.context_of(features, carry.begin()))

    def show(self, name: str, frames: Tensor) -> None:
        """Pass a copy of a part's result to the observer, of attention as frames."""
        if ".attentions." not in name:
            super().show(name, frames)
        elif self.trace is not None:
            self.trace(name, frames.clone(memory_format=torch.contiguous_format))
