"""What only the fast form of SeedVR2's VAE is made of: its norm, which a tile may be told."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from engine.models.seedvr2.vae.norm_statistics import Statistics
from engine.models.video_vae.context import Flow, Part
from engine.ops.norm.group_norm import group_norm_silu, normalise, scale_and_shift


@dataclass(slots=True, kw_only=True)
class TileFlow(Flow):
    """A flow through a frame or a tile of it, whose norms may go by the statistics of others."""

    statistics: Statistics | None = None


TilePart = Part[TileFlow]


class GroupNorm:
    """GroupNorm of each frame by itself, with SiLU behind it or not.

    Args:
        name: Module path: what its statistics are filed under.
        affine: Weight and bias [C], float32 or float64 whatever the precision of the frames.
        groups: Divides C.
        eps: Added to the variance.
    """

    def __init__(self, name: str, affine: tuple[Tensor, Tensor], groups: int, eps: float) -> None:
        self.name = name
        self._affine = affine
        self._groups, self._eps = groups, eps

    def write(self, frames: Tensor, out: Tensor, flow: TileFlow, *, silu: bool = True) -> None:
        """Write the normalised frames into `out`, a view of some buffer."""
        kernels = flow.switches.kernels
        if flow.statistics is not None:
            moments = flow.statistics.moments(self.name, frames, self._groups, kernels=kernels)
            scale, shift = scale_and_shift(moments, *self._affine, self._eps)
            normalise(frames, scale, shift, out, silu=silu, kernels=kernels)
        elif flow.switches.fused_norm:
            sizes = (self._groups, self._eps)
            group_norm_silu(frames, *self._affine, *sizes, out, silu=silu, kernels=kernels)
        else:
            out.copy_(self._in_steps(frames, silu=silu))

    def _in_steps(self, frames: Tensor, *, silu: bool) -> Tensor:
        """As the plain form does it, on contiguous frames for the same reason (see `FrameNorm`)."""
        weight, bias = (part.to(frames.dtype) for part in self._affine)
        normed = F.group_norm(frames.contiguous(), self._groups, weight, bias, self._eps)
        return F.silu(normed) if silu else normed
