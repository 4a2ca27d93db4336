"""The device thread: frames to RGB, through models of frames, and back to code values."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
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
from engine.protocol.media import VideoInfo
from engine.protocol.plan import PassName
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid
from engine.video.read.frames import PlanarFrame
from engine.video.shots import PictureReducer, are_unlike

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

    def run(self, frames: Tensor, first: int, *near: Tensor) -> Tensor:
        """Redraw one clip.

        Args:
            frames: [T, 3, h, w] float32, RGB.
            first: Number of its first frame.
            near: Neighbours of its frames, see `FrameUpscaler.upscale`.

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
                return self._tiled(self._model, first, frames, *near)
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

    def _tiled(self, model: FrameUpscaler, first: int, *seen: Tensor) -> Tensor:
        clip = self._plan.clip_frames
        parts = [
            self._one_clip(model, first + i, *(one[i : i + clip] for one in seen))
            for i in range(0, len(seen[0]), clip)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _one_clip(self, model: FrameUpscaler, first: int, *seen: Tensor) -> Tensor:
        plan, frames = self._plan, seen[0]
        frame = Size(frames.shape[-1], frames.shape[-2])
        boxes = tile_grid(frame, plan.tile, plan.overlap)
        blender = Blender(frame.scaled(model.scale), margin=model.halo * model.scale)
        for index, box in enumerate(boxes):
            self._context.check(self.kind)
            tile = model.upscale(*(one[..., box.y : box.bottom, box.x : box.right] for one in seen))
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

    def run(self, frames: Tensor, first: int, *near: Tensor) -> Tensor:
        """Clean frames [T, 3, h, w]; unchanged where there is no such pass.

        Raises:
            torch.OutOfMemoryError, Cancelled: As `FramePass.run`.
        """
        if self._model is None:
            return frames
        cleaned = super().run(frames, first)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadClip:
    """A clip on its way to the model."""

    first: int  # number of its first frame
    frames: tuple[PlanarFrame, ...]
    rgb: Tensor  # [T, 3, h, w]
    alpha: Tensor | None
    cleaned: Tensor  # `rgb` after the first pass


class Neighbours:
    """Finds the frames before and after each frame, as a model sees them.

    A clip waits for the next one. What a frame sees depends on it and the two beside it alone, so
    no result depends on where clips or spans begin; across a cut, which is judged by two frames, a
    frame sees itself.

    Memory: the clip that waits, one frame of the clip before it, and two clips of neighbours.
    """

    def __init__(self, video: VideoInfo) -> None:
        self._reducer = PictureReducer(video)
        self._waiting: _ReadClip | None = None
        self._before: tuple[PlanarFrame, Tensor] | None = None  # the last frame before it

    def add(self, clip: _ReadClip) -> Iterator[tuple[_ReadClip, Tensor, Tensor]]:
        """The clip before this one, with the frames before and after each of its frames."""
        ready, self._waiting = self._waiting, clip
        if ready is not None:
            yield self._seen(ready, (clip.frames[0], clip.cleaned[0]))

    def end(self) -> Iterator[tuple[_ReadClip, Tensor, Tensor]]:
        """The last clip."""
        if self._waiting is not None:
            yield self._seen(self._waiting, None)

    def _seen(
        self, clip: _ReadClip, after: tuple[PlanarFrame, Tensor] | None
    ) -> tuple[_ReadClip, Tensor, Tensor]:
        before = self._before or (clip.frames[0], clip.cleaned[0])
        after = after or (clip.frames[-1], clip.cleaned[-1])
        small = map(self._reducer.small, (before[0], *clip.frames, after[0]))
        cuts = [are_unlike(*pair) for pair in pairwise(small)]
        row = (before[1], *clip.cleaned, after[1])
        earlier = [row[i] if cut else row[i - 1] for i, cut in enumerate(cuts[:-1], start=1)]
        later = [row[i] if cut else row[i + 1] for i, cut in enumerate(cuts[1:], start=1)]
        self._before = (clip.frames[-1], clip.cleaned[-1].clone())
        return clip, torch.stack(earlier), torch.stack(later)


class Device:
    """The device's work on clips, one after the other."""

    def __init__(
        self, model: FrameUpscaler | None, context: JobContext, first_pass: FirstPass
    ) -> None:
        self._context = context
        self._first_pass = first_pass
        self._upscale = Upscale(model, context)
        work = context.plan.work
        self._restore = Restore(context.media.video, context.plan)
        self._colours = SourceColours.of_job(context.media.video, context.plan)
        self._neighbours = Neighbours(context.media.video) if work.sees_neighbours else None
        self._steadying = Steadying() if work.steadiness != "off" else None

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
        rgb, alpha = self._colours.rgb(clip.frames)
        cleaned = self._first_pass.run(rgb, clip.first)
        found = _ReadClip(
            first=clip.first, frames=clip.frames, rgb=rgb, alpha=alpha, cleaned=cleaned
        )
        del rgb, alpha, cleaned
        if self._neighbours is None:
            yield from self._done(self._enlarged(found), span)
        else:
            for seen in self._neighbours.add(found):
                enlarged = self._enlarged(*seen)
                del seen  # the neighbours need no memory any more
                yield from self._done(enlarged, span)

    def _last(self, span: Span) -> Iterator[DoneClip]:
        """Frames that waited for a further clip."""
        if self._neighbours is not None:
            for seen in self._neighbours.end():
                yield from self._done(self._enlarged(*seen), span)
        if self._steadying is not None:
            yield from (
                self._finished(part) for part in self._steadying.end() if part.first in span
            )

    def _enlarged(self, clip: _ReadClip, *near: Tensor) -> EnlargedClip:
        large = self._upscale.run(clip.cleaned, clip.first, *near)
        self._context.end_piece("upscale")
        return EnlargedClip(
            first=clip.first, frames=clip.frames, rgb=clip.rgb, alpha=clip.alpha, large=large
        )

    def _done(self, clip: EnlargedClip, span: Span) -> Iterator[DoneClip]:
        for part in self._steadied(clip):
            if part.first in span:
                yield self._finished(part)

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
