"""Everything that runs on the device where a model takes whole shots."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import torch

from engine.core.geometry import Box
from engine.models.upscalers import DecodedTile, Restored, RunningShot, ShotModel
from engine.pipeline.context import JobContext
from engine.pipeline.stages.progress import Progress, ShownTiles, show_preview
from engine.pipeline.stages.read import Beginning, ShotSlice
from engine.pipeline.stages.restore import Restore, SourceColours
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream
from engine.video.read.frames import PlanarFrame


class Shots:
    """Restores shots one after the other.

    Memory: on the host the frames of the source between what the encoder has taken and what the
    decoder has given: a clip and a slice.
    """

    def __init__(self, model: ShotModel, context: JobContext, beginning: Beginning) -> None:
        self._model = model
        self._context = context
        self._beginning = beginning
        model.report_to(self._advance)
        self._restore = Restore(context.media.video, context.plan)
        self._colours = SourceColours.of_job(context.media.video, context.plan)
        self._running: RunningShot | None = None
        self._waiting: deque[tuple[int, PlanarFrame]] = deque()
        self._block: list[Restored] = []
        self._progress = Progress(context, beginning.wanted)
        self._tiles = ShownTiles(context)

    def run(self, source: Stream[ShotSlice], target: Stream[DoneClip]) -> None:
        """Work until the source ends."""
        for piece in source:
            self._context.end_piece("wait")
            self._context.check()
            for done in self._one(piece):
                target.put(done)
                self._context.end_piece("wait")
                self._progress.add(len(done.frames))
        self._tiles.finish()
        target.close()

    def _advance(self, stage: str, frames: float) -> None:
        self._context.end_piece(stage)
        self._context.check(stage)
        self._progress.advance(stage, frames)

    def _one(self, piece: ShotSlice) -> Iterator[DoneClip]:
        """Feed a slice; what became final of its shot."""
        if piece.begins or self._running is None:
            wanted = max(piece.shot, self._beginning.wanted)
            self._running = self._model.shot(piece.shot, wanted, self._show)
        self._waiting += enumerate(piece.frames, piece.first)
        with torch.inference_mode():
            rgb, _ = self._colours.rgb(piece.frames)
            parts = self._running.push(rgb, last=piece.ends)
            for part in self._whole(parts):
                self._context.check()
                count = len(part.frames)
                ended = piece.ends and part.first + count == piece.first + len(piece.frames)
                fresh = self._fresh(part)
                if len(fresh.frames):
                    yield self._finished(fresh, piece.shot, ended)
                del part, fresh  # before the model goes on

    def _whole(self, parts: Iterator[Restored]) -> Iterator[Restored]:
        """Parts as they come, or in whole blocks for colours that are corrected in blocks."""
        for part in parts:
            if not self._model.is_pooled:
                yield part
                del part  # before the model goes on
                continue
            self._block.append(part)
            if part.ends_block:
                block, self._block = self._block, []
                yield replace(block[0], frames=torch.cat([one.frames for one in block]))

    def _fresh(self, part: Restored) -> Restored:
        """A part without the frames that are finished already."""
        known = max(0, self._beginning.wanted - part.first)
        return replace(part, first=part.first + known, frames=part.frames[known:])

    def _finished(self, part: Restored, shot: int, ended: bool) -> DoneClip:
        frames = self._sources(part.first, len(part.frames))
        rgb, alpha = self._colours.rgb(frames)
        restored = self._model.finished(part.frames, rgb)
        planes, result = self._restore.run(restored, alpha)
        last = part.first + len(frames) - 1
        show_preview(self._context, frames[-1], last, rgb[-1], result[-1])
        self._context.end_piece("restore")
        return DoneClip(frames=frames, planes=planes, shot=shot, ends_shot=ended)

    def _sources(self, first: int, count: int) -> tuple[PlanarFrame, ...]:
        """Frames of the source from number `first` on; they are not needed again."""
        while self._waiting[0][0] < first:
            self._waiting.popleft()
        return tuple(self._waiting.popleft()[1] for _ in range(count))

    def _show(self, tile: DecodedTile) -> None:
        size, box = self._model.canvas, tile.box
        inside = Box(
            box.x,
            box.y,
            min(box.right, size.width) - box.x,
            min(box.bottom, size.height) - box.y,
        )
        self._context.check("decoded tile")
        self._tiles.show(
            tile.picture[:, : inside.height, : inside.width].add(1).mul_(0.5),
            inside,
            size,
            frame=tile.frame,
            index=tile.index,
            tiles=tile.tiles,
        )


def beginning_of(model: ShotModel, finished: int, shot: int) -> Beginning:
    """Where a job begins that has `finished` frames; `shot` is where the next one's shot began."""
    needed = model.first_needed(shot, finished)
    return Beginning(shot=shot, wanted=finished, needed=needed)
