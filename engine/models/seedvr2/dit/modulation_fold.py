"""Scales, shifts and gates of one time step, multiplied into the weights once.

`W (x * scale + shift) * gate` is another matmul with another bias. In the fast variant that saves
little: the vectors are applied in passes that are made anyway, only the sum after a gated matmul
becomes a part of it. Weights in half precision are rounded once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from engine.models.seedvr2.dit.blocks import (
    ATTENTION,
    MLP,
    STREAMS,
    DitBlock,
    GeluMlp,
    Stream,
    SwigluMlp,
)
from engine.models.seedvr2.dit.elementwise import Shifts

_LEAST = 2.0**-10  # smaller factors stay outside: in half precision the weights would vanish


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
