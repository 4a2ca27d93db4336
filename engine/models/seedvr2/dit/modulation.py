"""Shifts, scales and gates of all layers for a time step: vectors, or a part of the weights.

The vectors are computed once. Multiplied into the weights, `W (x * scale + shift) * gate` is
another matmul with another bias. In the fast variant that saves little: the vectors are applied in
passes that are made anyway, only the sum after a gated matmul becomes a part of it. Weights in half
precision are rounded once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from engine.models.seedvr2.dit.blocks import (
    ATTENTION,
    MLP,
    STREAMS,
    DitBlock,
    DitRmsNorm,
    GeluMlp,
    Stream,
    SwigluMlp,
)
from engine.models.seedvr2.dit.elementwise import Shifts
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.attention.qk_rope import HeadNorm
from engine.ops.norm.cache_blocks import work_dtype

_SHARE = 2.0**-6  # of what a branch gives, as it is rounded to float16

_LEAST = 2.0**-10  # smaller factors stay outside: in half precision the weights would vanish


def branch_share(dtype: torch.dtype) -> float:
    """Factor of what a branch adds to the residual stream until its gate: 1 but for float16.

    Results of branches, too, may be larger than float16 holds (65504): the largest values of such
    models come from the MLP. Scaled by 2^-6 before they are rounded they may reach 4 million; those
    below 2^-8 are rounded to multiples of 2^-18, which the sums of the stream do not notice.
    """
    return _SHARE if dtype == torch.float16 else 1.0


def fold_block(
    block: DitBlock, wanted: Mapping[tuple[Stream, int], Shifts]
) -> Mapping[tuple[Stream, int], Shifts]:
    """Change the weights of a block; those that are no plain floats stay as they are.

    Args:
        block: Its parameters are replaced, one by one.
        wanted: Modulation of the time step, for each stream and step.

    Returns:
        Modulation that is inside the weights now.

    Memory: one matrix in the exact type.
    """
    inside: dict[tuple[Stream, int], Shifts] = {}
    shared = "all" in block.ada
    for stream in STREAMS[:1] if shared or block.text_ends else STREAMS:
        qkv, out = block.attn.proj_qkv.of(stream), block.attn.proj_out.of(stream)
        # Text that ends sees the same weights without modulation: they have to stay.
        into = [] if block.text_ends and shared else [qkv]
        inside[stream, ATTENTION] = _fold(into, out, wanted[stream, ATTENTION])
        mlp = cast(SwigluMlp | GeluMlp, block.mlp.of(stream))
        into = [mlp.proj_in_gate, mlp.proj_in] if isinstance(mlp, SwigluMlp) else [mlp.proj_in]
        inside[stream, MLP] = _fold(into, mlp.proj_out, wanted[stream, MLP])
    if shared and not block.text_ends:
        inside |= {("txt", step): inside["vid", step] for step in (ATTENTION, MLP)}
    return inside


def outside(shifts: Shifts, inside: Shifts) -> Shifts:
    """The modulation that remains when a part is in the weights, for any time step.

    Args:
        shifts: Modulation that is wanted.
        inside: Result of `fold_block`.
    """
    scale, shift, gate = shifts.scale, shifts.shift, shifts.gate
    if inside.shift is not None and shift is not None:
        shift = shift - inside.shift
    if inside.scale is not None and shift is not None and scale is not None:
        scale, shift = scale / inside.scale, shift / inside.scale
    if inside.gate is not None and gate is not None:
        gate = gate / inside.gate
    return Shifts(_unless(scale, 1), _unless(shift, 0), _unless(gate, 1))


def _unless(vector: Tensor | None, value: int) -> Tensor | None:
    """None where it does nothing."""
    return None if vector is None or bool((vector == value).all()) else vector


def _fold(into: Sequence[nn.Module], out: nn.Module, shifts: Shifts) -> Shifts:
    scale, shift, gate = _factor(shifts.scale), shifts.shift, _factor(shifts.gate)
    if not into or not all(map(_is_plain, into)):
        scale = shift = None
    if scale is not None and shift is not None:
        for linear in cast(Sequence[nn.Linear], into):
            _fold_input(linear, scale, shift)
    if gate is None or not _is_plain(out):
        gate = None
    else:
        _fold_gate(cast(nn.Linear, out), gate)
    return Shifts(scale, shift, gate)


def _factor(vector: Tensor | None) -> Tensor | None:
    return None if vector is None else torch.where(vector.abs() < _LEAST, 1.0, vector)


def _is_plain(linear: nn.Module) -> bool:
    return type(linear) is nn.Linear and linear.weight.is_floating_point()


def _fold_input(linear: nn.Linear, scale: Tensor, shift: Tensor) -> None:
    weight = linear.weight.to(scale.dtype)
    bias = weight @ shift
    if linear.bias is not None:
        bias += linear.bias
    linear.bias = _parameter(bias, linear.weight.dtype)
    linear.weight = _parameter(weight * scale, linear.weight.dtype)


def _fold_gate(linear: nn.Linear, gate: Tensor) -> None:
    if linear.bias is not None:
        linear.bias = _parameter(linear.bias.to(gate.dtype) * gate, linear.bias.dtype)
    weight = linear.weight.to(gate.dtype) * gate[:, None]
    linear.weight = _parameter(weight, linear.weight.dtype)


def _parameter(value: Tensor, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(value.to(dtype), requires_grad=False)


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
        self._share = 1.0
        self._embedding = torch.empty(0)
        self._layers: dict[DitBlock, LayerVectors] = {}
        self._inside: dict[DitBlock, Mapping[tuple[Stream, int], Shifts]] = {}

    def begin(self, dit: SeedVr2Dit, timestep: float, like: Tensor) -> None:
        """Set the time step, and dtype and device of `like`, for the calls that follow."""
        wanted = timestep, like.dtype, like.device
        if self._kept and wanted == self._for:
            return
        self._embedding = dit.emb_in(timestep).to(work_dtype(like.dtype))
        self._for, self._share = wanted, branch_share(like.dtype)
        self._layers.clear()

    def of(self, block: DitBlock) -> LayerVectors:
        """Modulation of a layer, whose weights are on the device."""
        if block not in self._layers:
            found = layer_vectors(block, self._embedding)
            found = without(found, self._inside.get(block, {}))
            self._layers[block] = _opened(found, self._share, len(self._embedding) // 6)
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


def _opened(vectors: LayerVectors, share: float, dim: int) -> LayerVectors:
    """Gates [dim] that bring back what branches are scaled by, see `branch_share`."""
    if share == 1:
        return vectors
    ones = vectors.norms["vid"].q.new_ones(dim)
    shifts = {
        key: replace(one, gate=(ones if one.gate is None else one.gate) / share)
        for key, one in vectors.shifts.items()
    }
    return replace(vectors, shifts=shifts)


def _shifts(block: DitBlock, embedding: Tensor, stream: Stream, step: int) -> Shifts:
    if stream == "txt" and block.text_ends:
        return Shifts()
    shift, scale, gate = (part.contiguous() for part in block.ada.of(stream)(embedding, step))
    return Shifts(scale, shift, gate)


def _norms(block: DitBlock, stream: Stream, like: Tensor) -> HeadNorm:
    norms = block.attn.norm_q.of(stream), block.attn.norm_k.of(stream)
    q, k = (cast(DitRmsNorm, norm).weight.to(like.dtype, copy=True) for norm in norms)
    return HeadNorm(q, k, block.eps)
