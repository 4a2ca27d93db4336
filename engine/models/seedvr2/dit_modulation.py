"""Shifts, scales and gates of all layers for a time step: vectors that need computing once."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.models.seedvr2.dit import SeedVr2Dit
from engine.models.seedvr2.dit_blocks import ATTENTION, MLP, STREAMS, Block, Stream
from engine.models.seedvr2.dit_steps import Shifts
from engine.ops.rows import work_dtype

LayerShifts = Mapping[tuple[Stream, int], Shifts]


class Modulations:
    """What every layer is modulated by, for one time step after the other.

    Args:
        kept: The vectors stay until another time step comes; else they are made for each forward.

    Memory: 12 vectors of `dim` exact numbers for each layer, half of that where picture and text
        share their weights.
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._timestep: float | None = None
        self._embedding = torch.empty(0)
        self._layers: dict[Block, LayerShifts] = {}

    def begin(self, dit: SeedVr2Dit, timestep: float) -> None:
        """From now on, for this time step."""
        if self._kept and timestep == self._timestep:
            return
        embedding = dit.emb_in(timestep)
        self._embedding = embedding.to(work_dtype(embedding.dtype))
        self._timestep = timestep
        self._layers.clear()

    def of(self, block: Block) -> LayerShifts:
        """Of a layer, whose weights are on the device."""
        if block not in self._layers:
            self._layers[block] = layer_shifts(block, self._embedding)
        return self._layers[block]

    def behind(self, dit: SeedVr2Dit) -> Shifts:
        """Of the norm behind the last block; its learned weight is a part of the scale."""
        shift, scale, _ = self._embedding.view(-1, 2, 3)[:, ATTENTION].unbind(-1)
        scale = (scale + dit.vid_out_ada.out_scale) * dit.vid_out_norm.weight
        return Shifts(scale, shift + dit.vid_out_ada.out_shift)

    def forget(self) -> None:
        """The weights have changed."""
        self._timestep = None
        self._layers.clear()


def layer_shifts(block: Block, embedding: Tensor) -> LayerShifts:
    """Of a layer for a time step; text that ends there is not modulated.

    Args:
        block: Of the layer.
        embedding: [6 * dim] in the exact type.
    """
    found: dict[tuple[Stream, int], Shifts] = {}
    for stream in STREAMS:
        if stream == "txt" and block.text_ends:
            found |= {(stream, step): Shifts() for step in (ATTENTION, MLP)}
        elif stream == "txt" and "all" in block.ada:
            found |= {(stream, step): found["vid", step] for step in (ATTENTION, MLP)}
        else:
            for step in (ATTENTION, MLP):
                shift, scale, gate = block.ada.of(stream)(embedding, step)
                found[stream, step] = Shifts(
                    scale.contiguous(), shift.contiguous(), gate.contiguous()
                )
    return found
