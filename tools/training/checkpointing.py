"""Gradient checkpointing: activations are computed a second time, in the place of being kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.ops.conv.causal_conv import Carry

Step = Callable[[Tensor, Carry], Tensor]


def checkpoint_parts(parts: Iterable[nn.Module]) -> None:
    """Make parts of a decoder keep only their input until their gradients are computed.

    Names of weights and results stay what they are, gradients too: a part computes the same again.
    From then on it takes whole clips, no slices: each call gets a carry of its own.

    Memory: the inputs of all parts and the activations of one, in the place of all activations.
    """
    for part in parts:
        part.forward = partial(_recomputed, part.forward)


def _recomputed(forward: Step, frames: Tensor, carry: Carry) -> Tensor:
    if not (carry.first and carry.last):
        raise ValueError("a part that is computed twice takes whole clips")
    begun = carry.begin()  # the caller's is of the next slice by the time of the second computation
    found: Tensor = checkpoint(forward, frames, begun, use_reentrant=False)
    return found
