"""The Wan VAEs, fast variant: equals the plain one but for rounding; docs/vae-folds.md."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from engine.models.video_vae.runner import FastSlicedVae, Parts
from engine.models.video_vae.slicing import clamp_logvar
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.fast_build import WanVaeBuilder
from engine.models.wan.vae.fast_coders import decoder, encoder
from engine.models.wan.vae.interface import WanVaeVariant
from engine.ops.conv.causal_conv import Carry


class FastWanVae(FastSlicedVae[WanConfig], WanVaeVariant):
    """Encoder and decoder with folds, ring buffers and channels-last frames.

    Inference only. Clips of a batch are worked on one after the other. Not for several threads
    at once: all layers share one workspace.

    Both also run in two halves, for one clip at a time: the low one has the attention and
    sees whole frames; the high one is local and may be given tiles, see
    `engine.models.wan.vae.split`.

    Arguments: see `FastSlicedVae`.

    Attributes:
        trace: Called with the module path and a copy of the result of each block,
            [1, C, T, H, W], of the first clip of a batch.

    Memory: measured, see `engine.models.video_vae.measured_memory`.
    """

    def build_parts(self, weights: Mapping[str, Tensor]) -> Parts:
        """The parts of encoder and decoder, each in its halves."""
        build = WanVaeBuilder(weights, self.device, self.conv_options(), self.switches)
        self._encoder = encoder(build, self.config)
        self._decoder = decoder(build, self.config)
        return {
            "encode": [*self._encoder.high, *self._encoder.low],
            "decode": [*self._decoder.low, *self._decoder.high],
        }

    def encode_high(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the encoder at high resolution, which may be given a tile.

        Args:
            frames: [T, 3, H, W] in [-1, 1], a slice or a box of it; not changed.
            carry: Carry of this half and this tile.

        Returns:
            Features [T', C, y, x] in channels last, see `split.encode_cut`; the next carry.
        """
        return self.run_frames(self._encoder.high, frames, carry)

    def encode_low(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the encoder at low resolution, which sees the whole frame.

        Args:
            features: [T, C, y, x] of whole frames; not changed.
            carry: Carry of this half.

        Returns:
            Mean and log-variance [1, 2*L, t, h, w], the latter clamped; the next carry.
        """
        found, carry = self.run_frames(self._encoder.low, features, carry)
        return clamp_logvar(found.movedim(0, 1).unsqueeze(0)), carry

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at low resolution, which sees the whole frame.

        Args:
            latent: [1, L, t, h, w], a slice.
            carry: Carry of this half.

        Returns:
            Features [T, C, y, x] in channels last, see `split.decode_cut`; the next carry.

        Raises:
            ValueError: Several clips; an error in the caller.
        """
        if len(latent) != 1:
            raise ValueError("the halves take one clip at a time")
        return self.run_frames(self._decoder.low, latent[0].movedim(1, 0), carry)

    def decode_high(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The part of the decoder at high resolution, which may be given a tile.

        Args:
            features: [T, C, y, x], a box of what `decode_low` gave; not changed.
            carry: Carry of this half and this tile.

        Returns:
            Finished pictures [T', 3, H, W] of the box, not clipped; the next carry.
        """
        return self.run_frames(self._decoder.high, features, carry)
