"""The plain VAE as the two halves of split decode: the slow and readable reference."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.models.seedvr2.vae.blocks import FrameNorm
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.norm_statistics import Statistics
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops.conv.causal_conv import Carry
from engine.ops.norm.group_norm import scale_and_shift
from tests.helpers import seedvr2

TINY = VaeConfig(
    latent_channels=3, block_out_channels=(4, 4, 4, 4), layers_per_block=0, norm_groups=2
)


class AskingNorm(FrameNorm):
    """A norm that goes by statistics from outside while there are any."""

    name = ""
    statistics: Statistics | None = None

    def forward(self, frames: Tensor) -> Tensor:
        if self.statistics is None:
            return super().forward(frames)
        x = frames[0].transpose(0, 1)
        statistics = self.statistics.for_norm(self.name, x, self.num_groups)
        scale, shift = scale_and_shift(statistics, self.weight, self.bias, self.eps)
        result = x * scale[:, :, None, None] + shift[:, :, None, None]
        return result.transpose(0, 1)[None]


class PlainSplit:
    """`decode_low` and `decode_high` made of the plain variant's blocks."""

    def __init__(self, vae: SeedVr2Vae) -> None:
        self.vae = vae
        self.config = vae.config
        self.calls = 0
        self.norms = []
        for name, module in vae.decoder.named_modules():
            if isinstance(module, FrameNorm):
                module.__class__ = AskingNorm
                module.name = name
                self.norms.append(module)

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        carry, decoder = carry.begin(), self.vae.decoder
        frames = decoder.mid_block(decoder.conv_in(latent, carry), carry)
        for part in (decoder.up_blocks[0], *decoder.up_blocks[1].resnets):
            frames = part(frames, carry)
        return frames[0].transpose(0, 1), carry.done()

    def decode_high(
        self, features: Tensor, carry: Carry, statistics: Statistics | None
    ) -> tuple[Tensor, Carry]:
        self.calls += 1
        for norm in self.norms:
            norm.statistics = statistics
        carry, decoder = carry.begin(), self.vae.decoder
        frames = features.transpose(0, 1)[None]
        for part in (*decoder.up_blocks[1].upsamplers, *decoder.up_blocks[2:]):
            frames = part(frames, carry)
        frames = torch.nn.functional.silu(decoder.conv_norm_out(frames))
        frames = decoder.conv_out(frames, carry)
        for norm in self.norms:
            norm.statistics = None
        return frames[0].transpose(0, 1), carry.done()


def tiny_vae(config: VaeConfig = TINY, seed: int = 0) -> SeedVr2Vae:
    """Random weights in float64, no norm at its default of 1 and 0."""
    return seedvr2.tiny_vae(config, seed=seed)
