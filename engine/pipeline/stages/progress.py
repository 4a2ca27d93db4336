"""Events of progress, previews and finished tiles."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from torch import Tensor

from engine.core.file_access import advised
from engine.core.geometry import Box, Size
from engine.pipeline.context import JobContext, Throttle
from engine.pipeline.display import (
    ComingPicture,
    put_back,
    seen,
    turn,
    turn_box,
)
from engine.protocol.events import (
    PreviewReady,
    StageProgress,
    TileDone,
)
from engine.video.film_preparation import tile_of_whole
from engine.video.read.frames import PlanarFrame

_PREVIEW_PX = 1280  # longest side of the pictures that are sent while running
_TILE_PICTURE_PX = 480  # longest side of a tile's small picture
_MOST_COMING = 2  # pictures of tiles that are waited for at a time
_SAMPLE_S, _SPEED_SAMPLES = 1.0, 30  # that the speed is averaged over
_MODEL_STAGES = ("clean", "encode", "transformer", "decode")


class Progress:
    """Emits the progress of the device, about ten times a second.

    Where a model finishes many frames at once, what went through its stages counts too: a frame
    is done by as much as the plan's time of a stage is of the time of all stages.

    Args:
        context: The running job.
        done: Frames that earlier runs have finished.
        stage: Name of the stage.
        total: Frames in all; None for those of the plan.
    """

    def __init__(
        self, context: JobContext, done: int, *, stage: str = "upscale", total: int | None = None
    ) -> None:
        self._context, self._now = context, context.control.work_seconds
        self._finished, self._passed = done, float(done)
        self._stage, self._total = stage, total
        self._due = Throttle(0.1)
        self._latest = deque([(self._now(), done)], maxlen=_SPEED_SAMPLES)

    def add(self, frames: int) -> None:
        """Count finished frames."""
        self._finished += frames
        self._emit()

    def advance(self, stage: str, frames: float) -> None:
        """Count frames that went through a stage of the plan."""
        seconds = {one.stage: one.seconds for one in self._context.plan.stages}
        of_model = sum(seconds.get(name, 0.0) for name in _MODEL_STAGES)
        if of_model:
            self._passed += frames * seconds.get(stage, 0.0) / of_model
            self._emit()

    def _emit(self) -> None:
        plan_frames = self._context.plan.frames
        total = plan_frames if self._total is None else self._total
        # frames that warm up count too, so that the last ones are done with the finished ones only
        passed = min(int(self._passed), max(self._finished, total - 1))
        done = max(self._finished, passed)
        if not self._due() and self._finished < total:
            return
        now = self._now()
        begin, before = self._latest[0]
        speed = (done - before) / (now - begin) if now > begin else 0.0
        if now - self._latest[-1][0] >= _SAMPLE_S:
            self._latest.append((now, done))
        left = max(0, total - done)
        self._context.events.emit(
            StageProgress(
                job_id=self._context.job_id,
                stage=self._stage,
                done=done,
                total=max(total, done),
                frames_per_second=speed,
                seconds_left=left / speed if speed > 0 else 0.0,
            )
        )


def show_preview(
    context: JobContext, frame: PlanarFrame, number: int, source: Tensor, result: Tensor
) -> None:
    """Emit source and result of a frame where pictures are shown and the next preview is due.

    Args:
        context: The running job.
        frame: Frame of the source, for its time.
        number: Number of the frame, counted from the job's first.
        source: [3, h, w] float32, 0 to 1, as stored.
        result: [3 or 4, H, W], the same.
    """
    if context.pictures and context.preview_due():
        advised(lambda: _emit_preview(context, frame, number, source, result), None)


def _emit_preview(
    context: JobContext, frame: PlanarFrame, number: int, source: Tensor, result: Tensor
) -> None:
    video, picture = context.media.video, context.plan.picture
    if context.plan.enlarged is not None:
        source = put_back(source, context.plan.enlarged, video.size)
    context.events.emit(
        PreviewReady(
            job_id=context.job_id,
            frame=number,
            seconds=float(frame.pts * video.time_base - context.media.start),
            source=seen(
                source,
                rotation=video.rotation,
                mirrored=video.is_mirrored,
                aspect=video.sample_aspect,
                longest_side=_PREVIEW_PX,
            ),
            result=seen(
                result,
                rotation=picture.rotation,
                mirrored=picture.is_mirrored,
                aspect=picture.sample_aspect,
                longest_side=_PREVIEW_PX,
            ),
        )
    )


class ShownTiles:
    """Emits that tiles are done, with small pictures of them where pictures are shown.

    A picture comes from the GPU while it goes on with the next tile, and is emitted with that one.
    """

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._coming: deque[tuple[TileDone, ComingPicture]] = deque()

    def show(
        self, tile: Tensor, box: Box, canvas: Size, *, frame: int, index: int, tiles: int
    ) -> None:
        """Take a tile that is done.

        Args:
            tile: [3, h, w] float32, 0 to 1, as stored: its last frame.
            box: Place on the canvas.
            canvas: Size of the whole picture that is made of tiles.
            frame: Number of that frame, counted from the job's first.
            index: Index of the tile.
            tiles: In a frame.
        """
        context, video = self._context, self._context.media.video
        turned = video.rotation in (90, 270)
        part = context.plan.enlarged
        if part is not None:
            box, canvas = tile_of_whole(box, canvas, part, video.size)
        done = TileDone(
            job_id=context.job_id,
            frame=frame,
            tile=index,
            tiles=tiles,
            box=turn_box(box, canvas, video.rotation, video.is_mirrored),
            canvas=canvas.transposed() if turned else canvas,
        )
        self._emit(most_waiting=_MOST_COMING)
        if context.pictures and (tiles > 1 or context.picture_due()):
            upright = turn(tile, video.rotation, video.is_mirrored)
            self._coming.append((done, ComingPicture(upright, _TILE_PICTURE_PX)))
            self._emit(most_waiting=_MOST_COMING)
        else:
            context.events.emit(done)

    def finish(self) -> None:
        """Emit those whose pictures have not come yet."""
        self._emit(most_waiting=0)

    def _emit(self, *, most_waiting: int) -> None:
        while self._coming:
            done, coming = self._coming[0]
            if not coming.is_here and len(self._coming) <= most_waiting:
                return
            self._coming.popleft()
            picture = advised(coming.picture, None)
            self._context.events.emit(replace(done, picture=picture))
