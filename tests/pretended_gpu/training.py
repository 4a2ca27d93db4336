"""Memory of a step of fine-tuning a Wan decoder at its published size, without values.

`python -m tests.pretended_gpu.training` prints the table of docs/fine-tuning.md. The allocator is
that of the pretended GPU. Its tensors are torch's own without values, which say they are on the
processor: torch computes gradients of tensors on a GPU with that GPU's driver alone.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.plain import WanVae
from tests.helpers.dispatch import DispatchMode
from tests.pretended_gpu.allocator import MAX_SPLIT, Allocator
from tests.pretended_gpu.operators import INVENTED, name_of
from tools.training.trainer import Schedule, Trainer
from tools.training.wan import WanDecoding

CONFIGS = {"Wan 2.1": WAN21, "Wan 2.1, 2x": WAN2X, "Wan 2.2": WAN22}
CLIPS = ((5, 256), (17, 256), (5, 512))  # frames, side in px
_ROOM = 1024 * 2**30
_STEPS = 2  # the first one makes what the optimiser keeps


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMemory:
    """Bytes of the second step.

    Attributes:
        kept: Before it: weights, their average, the optimiser's state.
        peak: Of all tensors at once.
        reserved: Of the segments that hold them.
    """

    kept: int
    peak: int
    reserved: int


class Allocating(DispatchMode):
    """Takes what tensors made inside need from an allocator, until they are gone."""

    def __init__(self, allocator: Allocator) -> None:
        super().__init__()
        self._allocator = allocator
        self._known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Any operator of the thread."""
        if name_of(func) in INVENTED:
            return INVENTED[name_of(func)]
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, Tensor) and one.untyped_storage() not in self._known:
                storage = one.untyped_storage()
                self._known[storage] = True
                block = self._allocator.take(storage.nbytes())
                weakref.finalize(storage, self._allocator.give, block)
        return result


def step_memory(
    config: WanConfig,
    frames: int,
    side: int,
    *,
    has_checkpoints: bool,
    precision: str = "bfloat16",
) -> StepMemory:
    """Memory of a training step on one clip.

    Args:
        config: Configuration of the VAE.
        frames: Number of frames of the clip.
        side: Side of its frames, px.
        has_checkpoints: Activations are computed twice in the place of being kept.
        precision: Type of activations; weights are in float32.
    """
    clips = np.zeros((1, frames, side, side, 3), np.uint8)
    allocator = Allocator(_ROOM, MAX_SPLIT)
    with FakeTensorMode(allow_non_fake_inputs=True), Allocating(allocator):
        vae = WanVae(config)
        task = WanDecoding(vae, clips, batch=1, edges=0.1, has_checkpoints=has_checkpoints)
        schedule = Schedule(steps=100, rate=1e-5)
        # torch swaps no parameters that have no values, not even for the same device
        with patch.object(vae, "to", return_value=vae):
            trainer = Trainer(task, schedule, device=torch.device("cpu"), precision=precision)
        kept = 0
        for _ in range(_STEPS):
            allocator.forget_peak()
            kept = allocator.requested
            trainer.advance()
        found = StepMemory(
            kept=kept, peak=allocator.most_requested, reserved=allocator.most_reserved
        )
    return found


def rows() -> list[tuple[str, ...]]:
    """The table: GiB of tensors at once, without and with checkpointing."""
    found = []
    for name, config in CONFIGS.items():
        for frames, side in CLIPS:
            without, with_it = (
                step_memory(config, frames, side, has_checkpoints=one) for one in (False, True)
            )
            sizes = [without.kept, without.peak, with_it.peak, with_it.reserved]
            saved = f"{1 - with_it.peak / without.peak:.0%}"
            cells = [f"{size / 2**30:.2f}" for size in sizes]
            found.append((name, f"{frames} x {side} x {side} px", *cells, saved))
    return found


def main() -> None:
    """Print the table."""
    print("| decoder | clip | kept | peak without | peak with | reserved with | peak saved |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for row in rows():
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
