"""Everything that runs on the device, in one thread: to RGB, model, back to code values."""

from __future__ import annotations

import torch

from engine.models.upscalers import FrameUpscaler
from engine.pipeline.context import Context
from engine.pipeline.stages.progress import Progress, show_preview
from engine.pipeline.stages.read import Clip
from engine.pipeline.stages.restore import Planes, Restore
from engine.pipeline.stages.source import SourceColours
from engine.pipeline.stages.upscale import Upscale
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream


class Device:
    """The device's work on clips, one after the other."""

    def __init__(self, model: FrameUpscaler | None, context: Context) -> None:
        self._context = context
        self._upscale = Upscale(model, context)
        self._restore = Restore(context.media.video, context.plan)
        self._colours = SourceColours(context.media.video, context.plan.work.device)

    def run(self, source: Stream[Clip], target: Stream[DoneClip], done: int) -> None:
        """Work until the source ends; `done` frames were finished by earlier runs."""
        progress = Progress(self._context, done)
        for clip in source:
            target.put(DoneClip(frames=clip.frames, planes=self._one(clip)))
            progress.add(len(clip.frames))
        target.close()

    def _one(self, clip: Clip) -> list[Planes]:
        with torch.inference_mode():
            rgb, alpha = self._colours.rgb(clip.frames)
            large = self._upscale.run(rgb, clip.first)
            planes, result = self._restore.run(large, alpha)
            last = clip.first + len(clip.frames) - 1
            show_preview(self._context, clip.frames[-1], last, rgb[-1], result[-1])
        return planes
