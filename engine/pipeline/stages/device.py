"""Everything that runs on the device, in one thread: to RGB, model, back to code values."""

from __future__ import annotations

import time
from collections import deque

import numpy as np
import torch
from torch import Tensor

from engine.events import PreviewReady, StageProgress
from engine.models.contracts import FrameUpscaler
from engine.pipeline.context import Context, Throttle
from engine.pipeline.stages.read import Clip
from engine.pipeline.stages.restore import Planes, Restore
from engine.pipeline.stages.upscale import Upscale
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream
from engine.pipeline.view import seen
from engine.video.colour import spec_of_source, to_rgb
from engine.video.frames import PlanarFrame

_PREVIEW_PX = 1280  # longest side of the pictures that are sent while running
_SPEED_WINDOW = 24  # clips that the speed is averaged over


class Device:
    """The device's work on clips, one after the other."""

    def __init__(self, model: FrameUpscaler | None, context: Context) -> None:
        self._context = context
        self._upscale = Upscale(model, context)
        self._restore = Restore(context.media.video, context.plan)
        self._spec = spec_of_source(context.media.video)

    def run(self, source: Stream[Clip], target: Stream[DoneClip], done: int) -> None:
        """Work until the source ends; `done` frames were finished by earlier runs."""
        progress = _Progress(self._context, done)
        for clip in source:
            target.put(DoneClip(frames=clip.frames, planes=self._one(clip)))
            progress.add(len(clip.frames))
        target.close()

    def _one(self, clip: Clip) -> list[Planes]:
        context = self._context
        with torch.inference_mode():
            frames = to_rgb(_stacked(clip.frames), self._spec, context.plan.model.device)
            rgb, alpha = frames[:, :3], frames[:, 3:] if frames.shape[1] == 4 else None
            large = self._upscale.run(rgb, clip.first)
            planes, result = self._restore.run(large, alpha)
            if context.pictures and context.preview_due():
                self._preview(clip, rgb[-1], result[-1])
        return planes

    def _preview(self, clip: Clip, source: Tensor, result: Tensor) -> None:
        context, video = self._context, self._context.media.video
        picture = context.plan.picture
        frame = clip.frames[-1]
        context.events.emit(
            PreviewReady(
                job_id=context.job_id,
                frame=clip.first + len(clip.frames) - 1,
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


class _Progress:
    """Says how far the device is, about ten times a second."""

    def __init__(self, context: Context, done: int) -> None:
        self._context = context
        self._done = done
        self._due = Throttle(0.1)
        self._latest: deque[tuple[float, int]] = deque(maxlen=_SPEED_WINDOW)
        self._since = time.monotonic()

    def add(self, frames: int) -> None:
        """Count a clip."""
        now = time.monotonic()
        self._latest.append((now - self._since, frames))
        self._since = now
        self._done += frames
        total = self._context.plan.frames
        if not self._due() and self._done < total:
            return
        seconds = sum(s for s, _ in self._latest)
        speed = sum(n for _, n in self._latest) / seconds if seconds else 0.0
        left = max(0, total - self._done)
        self._context.events.emit(
            StageProgress(
                job_id=self._context.job_id,
                stage="upscale",
                done=self._done,
                total=max(total, self._done),
                frames_per_second=speed,
                seconds_left=left / speed if speed else 0.0,
            )
        )


def _stacked(frames: tuple[PlanarFrame, ...]) -> list[Tensor]:
    """Planes of several frames as tensors [T, h, w]; 16-bit values become int32."""
    planes = []
    for index in range(len(frames[0].planes)):
        parts = [_tensor(frame.planes[index]) for frame in frames]
        planes.append(parts[0][None] if len(parts) == 1 else torch.stack(parts))
    return planes


def _tensor(plane: np.ndarray) -> Tensor:
    if plane.dtype == np.uint16:
        return torch.from_numpy(plane.astype(np.int32))
    return torch.from_numpy(plane)
