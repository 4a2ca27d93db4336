"""Shifts, scales and gates of all layers for a time step: vectors that are computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from engine.models.seedvr2.dit.blocks import ATTENTION, MLP, STREAMS, DitBlock, DitRmsNorm, Stream
from engine.models.seedvr2.dit.elementwise import Shifts
from engine.models.seedvr2.dit.modulation_fold import fold_block, outside
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.attention.qk_rope import HeadNorm
from engine.ops.norm.cache_blocks import work_dtype


@dataclass(frozen=True, slots=True, eq=False)
class LayerVectors:
    """Small tensors of a layer in the exact type.

    Attributes:
        shifts: Shifts of its two steps, for each stream.
        norms: Norm weights of q and k, for each stream.
    """

    shifts: Mapping[tuple[Stream, int], Shifts]
    norms: Mapping[Stream, HeadNorm]


class Modulations:
    """Modulation of every layer, for one time step after the other.

    Args:
        kept: The vectors stay until another time step comes; else they are made for each forward.

    Memory: 12 vectors of `dim` exact numbers for each layer; 24 where some are in the weights.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._for: object = None
        self._embedding = torch.empty(0)
        self._layers: dict[DitBlock, LayerVectors] = {}
        self._inside: dict[DitBlock, Mapping[tuple[Stream, int], Shifts]] = {}

    def begin(self, dit: SeedVr2Dit, timestep: float, like: Tensor) -> None:
        """Set the time step, and dtype and device of `like`, for the calls that follow."""
        wanted = timestep, like.dtype, like.device
        if self._kept and wanted == self._for:
            return
        self._embedding = dit.emb_in(timestep).to(work_dtype(like.dtype))
        self._for = wanted
        self._layers.clear()

    def of(self, block: DitBlock) -> LayerVectors:
        """Modulation of a layer, whose weights are on the device."""
        if block not in self._layers:
            found = layer_vectors(block, self._embedding)
            self._layers[block] = without(found, self._inside.get(block, {}))
        return self._layers[block]

    def final(self, dit: SeedVr2Dit) -> Shifts:
        """Modulation of the norm after the last block; the scale includes its learned weight."""
        shift, scale, _ = self._embedding.view(-1, 2, 3)[:, ATTENTION].unbind(-1)
        scale = (scale + dit.vid_out_ada.out_scale) * dit.vid_out_norm.weight
        return Shifts(scale, shift + dit.vid_out_ada.out_shift)

    def fold(self, block: DitBlock) -> None:
        """Fold the current modulation of a layer into its weights, unless that was done before."""
        if block not in self._inside:
            self._inside[block] = fold_block(block, layer_vectors(block, self._embedding).shifts)

    def forget(self) -> None:
        """The weights have changed."""
        self._for = None
        self._layers.clear()


def layer_vectors(block: DitBlock, embedding: Tensor) -> LayerVectors:
    """Modulation of a layer for a time step; text that ends there is not modulated.

    Args:
        block: Block of the layer, its weights on the device.
        embedding: [6 * dim] in the exact type.
    """
    shifts: dict[tuple[Stream, int], Shifts] = {}
    for step in (ATTENTION, MLP):
        for stream in STREAMS:
            shifts[stream, step] = _shifts(block, embedding, stream, step)
    return LayerVectors(shifts, {stream: _norms(block, stream, embedding) for stream in STREAMS})


def without(vectors: LayerVectors, inside: Mapping[tuple[Stream, int], Shifts]) -> LayerVectors:
    """The modulation that remains where a part of it is in the weights."""
    if not inside:
        return vectors
    left = {
        key: outside(shifts, inside[key]) if key in inside else shifts
        for key, shifts in vectors.shifts.items()
    }
    return replace(vectors, shifts=left)


def _shifts(block: DitBlock, embedding: Tensor, stream: Stream, step: int) -> Shifts:
    if stream == "txt" and block.text_ends:
        return Shifts()
    shift, scale, gate = (part.contiguous() for part in block.ada.of(stream)(embedding, step))
    return Shifts(scale, shift, gate)


def _norms(block: DitBlock, stream: Stream, like: Tensor) -> HeadNorm:
    norms = block.attn.norm_q.of(stream), block.attn.norm_k.of(stream)
    q, k = (cast(DitRmsNorm, norm).weight.to(like.dtype, copy=True) for norm in norms)
    return HeadNorm(q, k, block.eps)
