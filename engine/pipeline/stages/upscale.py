"""Second stage: the model, tile by tile, with a smaller plan when memory runs out."""

from __future__ import annotations

import logging
from dataclasses import replace

import torch
from torch import Tensor

from engine.errors import OutOfMemory
from engine.events import PlanDowngraded
from engine.geometry import Size
from engine.memory.oom import is_out_of_memory
from engine.memory.planner import smaller_model
from engine.models.contracts import FrameUpscaler
from engine.pipeline.context import Context
from engine.pipeline.stages.progress import show_tile
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid

logger = logging.getLogger(__name__)


class Upscale:
    """Runs the model of a plan over whole frames; `model` None passes them on."""

    def __init__(self, model: FrameUpscaler | None, context: Context) -> None:
        self._model = model
        self._context = context

    def run(self, frames: Tensor, first: int) -> Tensor:
        """Enlarge one clip.

        Args:
            frames: [T, 3, h, w] float32, RGB.
            first: Number of its first frame.

        Returns:
            [T, 3, scale*h, scale*w] float32 on the same device.

        Raises:
            OutOfMemory: Not even the smallest tile fits.
            Cancelled: The user stopped the job.
        """
        if self._model is None:
            self._context.control.check()
            return frames
        while True:
            try:
                return self._tiled(self._model, frames, first)
            except (torch.OutOfMemoryError, RuntimeError) as err:
                if not is_out_of_memory(err):
                    raise
                logger.warning("out of memory: %s", err)
            self._shrink()

    def _shrink(self) -> None:
        context = self._context
        smaller = smaller_model(context.plan.model)
        if smaller is None:
            raise OutOfMemory(
                "There is not enough memory even for the smallest tiles.",
                hint="Close other programs, then resume the job: finished parts are kept.",
            )
        context.plan = replace(context.plan, model=smaller)
        context.events.emit(
            PlanDowngraded(job_id=context.job_id, plan=context.plan, why="out-of-memory")
        )

    def _tiled(self, model: FrameUpscaler, frames: Tensor, first: int) -> Tensor:
        plan = self._context.plan.model
        clip = plan.clip_frames
        parts = [
            self._one_clip(model, frames[i : i + clip], first + i)
            for i in range(0, len(frames), clip)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _one_clip(self, model: FrameUpscaler, frames: Tensor, first: int) -> Tensor:
        plan = self._context.plan.model
        frame = Size(frames.shape[-1], frames.shape[-2])
        boxes = tile_grid(frame, plan.tile, plan.overlap)
        blender = Blender(frame.scaled(model.scale), margin=model.halo * model.scale)
        for index, box in enumerate(boxes):
            self._context.control.check()
            tile = model.upscale(frames[..., box.y : box.bottom, box.x : box.right])
            large = box.scaled(model.scale)
            blender.add(tile, large, plan.overlap * model.scale)
            show_tile(
                self._context,
                tile[-1],
                large,
                frame.scaled(model.scale),
                frame=first + len(frames) - 1,
                index=index,
                tiles=len(boxes),
            )
        return blender.result()
