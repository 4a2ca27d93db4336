"""The device thread: frames to RGB, through models of frames, and back to code values."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain
from typing import ClassVar

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.hardware.out_of_memory import forget_frames, free_memory
from engine.models.frame_family import FramePlan
from engine.models.upscalers import FrameUpscaler
from engine.pipeline.context import JobContext
from engine.pipeline.recovery import change_plan, reason_of
from engine.pipeline.segments import Span
from engine.pipeline.stages.progress import Progress, ShownTiles, show_preview
from engine.pipeline.stages.read import Clip
from engine.pipeline.stages.restore import Restore, SourceColours
from engine.pipeline.stages.steady import EnlargedClip, Steadying
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream
from engine.planner.downgrade import next_plan
from engine.protocol.plan import PassName
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid

logger = logging.getLogger(__name__)


class FramePass:
    """Runs a model over whole frames; `model` None passes them on."""

    name: ClassVar[PassName]  # name of the pass in the plan, which may become smaller
    kind: ClassVar[str]  # kind of its tiles, see `JobContext.check`

    def __init__(
        self, model: FrameUpscaler | None, context: JobContext, shown: ShownTiles | None = None
    ) -> None:
        self._model = model
        self._context = context
        self._shown = shown

    def run(self, frames: Tensor, first: int) -> Tensor:
        """Redraw one clip.

        Args:
            frames: [T, 3, h, w] float32, RGB.
            first: Number of its first frame.

        Returns:
            [T, 3, scale*h, scale*w] float32 on the same device.

        Raises:
            torch.OutOfMemoryError: Not even the smallest tile fits.
            Cancelled: The user stopped the job.
        """
        if self._model is None:
            self._context.check()
            return frames
        while True:
            try:
                return self._tiled(self._model, frames, first)
            except Exception as err:
                if not self._shrink(err):
                    raise
                forget_frames(err)
            free_memory()
            if self._context.guard is not None:
                self._context.guard.begin()

    @property
    def _plan(self) -> FramePlan:
        """Current plan."""
        work = getattr(self._context.plan, self.name)
        assert isinstance(work, FramePlan)  # of a model that takes frames
        return work

    def _shrink(self, error: Exception) -> bool:
        """Go on with smaller pieces; False where that is no help, or not possible."""
        failure = reason_of(error)
        if failure is None or failure.why not in ("out-of-memory", "spilled"):
            return False
        smaller = next_plan(
            self._context.plan,
            failure.why,
            of_main_memory=failure.of_main_memory,
            failed=self.name,
        )
        if smaller is None:
            return False
        if smaller.work.takes_shots and smaller.work != self._context.plan.work:
            return False  # its model has to be loaded again
        logger.warning("%s: %s", failure.why, error)
        change_plan(self._context, smaller, failure)
        return True

    def _tiled(self, model: FrameUpscaler, frames: Tensor, first: int) -> Tensor:
        clip = self._plan.clip_frames
        parts = [
            self._one_clip(model, frames[i : i + clip], first + i)
            for i in range(0, len(frames), clip)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _one_clip(self, model: FrameUpscaler, frames: Tensor, first: int) -> Tensor:
        plan = self._plan
        frame = Size(frames.shape[-1], frames.shape[-2])
        boxes = tile_grid(frame, plan.tile, plan.overlap)
        blender = Blender(frame.scaled(model.scale), margin=model.halo * model.scale)
        for index, box in enumerate(boxes):
            self._context.check(self.kind)
            tile = model.upscale(frames[..., box.y : box.bottom, box.x : box.right])
            large = box.scaled(model.scale)
            blender.add(tile, large, plan.overlap * model.scale)
            if self._shown is not None:
                self._shown.show(
                    tile[-1],
                    large,
                    frame.scaled(model.scale),
                    frame=first + len(frames) - 1,
                    index=index,
                    tiles=len(boxes),
                )
        return blender.result()


class FirstPass(FramePass):
    """Cleans frames of the source before the model of the job sees them."""

    name, kind = "first_pass", "clean"

    @property
    def is_there(self) -> bool:
        """Whether it changes anything."""
        return self._model is not None

    def run(self, frames: Tensor, first: int) -> Tensor:
        """Clean frames [T, 3, h, w], 0 to 1; unchanged where there is no such pass.

        Raises:
            torch.OutOfMemoryError, Cancelled: As `FramePass.run`.
        """
        if self._model is None:
            return frames
        cleaned = super().run(frames, first).clamp_(0, 1)  # as in a file between two jobs
        self._context.end_piece("clean")
        return cleaned


class Upscale(FramePass):
    """Enlarges frames, and shows the tiles."""

    name, kind = "work", "tile"

    def __init__(self, model: FrameUpscaler | None, context: JobContext) -> None:
        self._tiles = ShownTiles(context)
        super().__init__(model, context, self._tiles)

    def finish(self) -> None:
        """Show what is not shown yet."""
        self._tiles.finish()


class Device:
    """The device's work on clips, one after the other."""

    def __init__(
        self, model: FrameUpscaler | None, context: JobContext, first_pass: FirstPass
    ) -> None:
        self._context = context
        self._first_pass = first_pass
        self._upscale = Upscale(model, context)
        self._restore = Restore(context.media.video, context.plan)
        self._colours = SourceColours.of_job(context.media.video, context.plan)
        is_steadied = context.plan.work.steadiness != "off"
        self._steadying = Steadying() if is_steadied else None

    def run(self, source: Stream[Clip], target: Stream[DoneClip], span: Span) -> None:
        """Work until the source ends.

        Args:
            source: May have frames around the span, for the sake of those in it.
            target: Gets the frames of the span.
            span: Span that is made.
        """
        progress = Progress(self._context, span.done)
        with torch.inference_mode():
            clips = chain.from_iterable(self._one(clip, span) for clip in source)
            for finished in chain(clips, self._last(span)):
                target.put(finished)
                self._context.end_piece("wait-write")
                progress.add(len(finished.frames))
        self._upscale.finish()
        target.close()

    def _one(self, clip: Clip, span: Span) -> Iterator[DoneClip]:
        """Finished frames of a span once a clip is known."""
        self._context.end_piece("wait-read")
        for part in self._steadied(self._enlarged(clip)):
            if part.first in span:
                yield self._finished(part)

    def _last(self, span: Span) -> Iterator[DoneClip]:
        """Frames that waited for a further clip."""
        if self._steadying is not None:
            yield from (
                self._finished(part) for part in self._steadying.end() if part.first in span
            )

    def _enlarged(self, clip: Clip) -> EnlargedClip:
        rgb, alpha = self._colours.rgb(clip.frames)
        cleaned = self._first_pass.run(rgb, clip.first)
        large = self._upscale.run(cleaned, clip.first)
        self._context.end_piece("upscale")
        return EnlargedClip(first=clip.first, frames=clip.frames, rgb=rgb, alpha=alpha, large=large)

    def _steadied(self, clip: EnlargedClip) -> list[EnlargedClip]:
        if self._steadying is None:
            return [clip]
        ready = self._steadying.add(clip)
        self._context.end_piece("steady")
        return ready

    def _finished(self, clip: EnlargedClip) -> DoneClip:
        planes, result = self._restore.run(clip.large, clip.alpha)
        self._context.end_piece("restore")
        last = clip.first + len(clip.frames) - 1
        show_preview(self._context, clip.frames[-1], last, clip.rgb[-1], result[-1])
        return DoneClip(frames=clip.frames, planes=planes)
