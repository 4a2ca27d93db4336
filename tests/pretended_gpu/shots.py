"""Whole shots of very small models, on a device, from frames of the source to pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from engine.models import registry
from engine.models.video_vae.slicing import slices
from engine.ops.precision import arithmetic_of
from engine.protocol.plan import WorkPlan
from engine.settings.optimisations import RunSwitches

_SEED = 3


def pictures(
    plan: WorkPlan, frames: int, before_slice: Callable[[], None] = lambda: None
) -> Tensor:
    """Pictures of a shot [T, 3, H, W] float32 on the processor; the source is half as large.

    Args:
        plan: Of the model.
        frames: Of the shot.
        before_slice: Called before each slice.
    """
    width, height = plan.canvas.width // 2, plan.canvas.height // 2
    random = torch.Generator().manual_seed(_SEED)
    source = torch.rand(frames, 3, height, width, generator=random)
    with arithmetic_of(RunSwitches()):
        model: Any = registry.family_of(plan).load_shots(plan)
        found = []
        running = model.shot(0, 0, lambda _: None)
        with torch.inference_mode():
            for start, end in slices(frames, model.slice_frames):
                before_slice()
                given = source[start:end].to(plan.device)
                for part in running.push(given, last=end == frames):
                    shown = source[part.first : part.first + len(part.frames)].to(plan.device)
                    found.append(model.finished(part.frames, shown).float().cpu())
        model.close()
    return torch.cat(found)
