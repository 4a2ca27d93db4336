"""Work on the device for models that take whole shots; `upscale` has that of all others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import torch
from torch import Tensor

from engine.core.geometry import Box
from engine.models.upscalers import DecodedTile, Restored, RunningShot, ShotModel
from engine.pipeline.context import JobContext
from engine.pipeline.segments import Span
from engine.pipeline.stages.progress import Progress, ShownTiles, show_preview
from engine.pipeline.stages.read import Beginning, ShotSlice
from engine.pipeline.stages.restore import Restore, SourceColours
from engine.pipeline.stages.upscale import FirstPass
from engine.pipeline.stages.write import DoneClip
from engine.pipeline.stream import Stream
from engine.video.read.frames import PlanarFrame


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A frame of the source that waits for its result; [3, h, w] as a first pass cleaned it."""

    number: int
    frame: PlanarFrame
    cleaned: Tensor | None = None


class Shots:
    """Restores shots one after the other.

    Memory: on the host the frames of the source between what the encoder has taken and what the
    decoder has given: a clip and a slice; with a first pass also as it has cleaned them.
    """

    def __init__(
        self, model: ShotModel, context: JobContext, span: Span, first_pass: FirstPass
    ) -> None:
        self._model = model
        self._context = context
        self._first_pass = first_pass
        self._span, self._made = span, span.done  # `_made`: first frame that is not finished
        model.report_to(self._advance)
        self._restore = Restore(context.media.video, context.plan)
        self._colours = SourceColours.of_job(context.media.video, context.plan)
        self._running: RunningShot | None = None
        self._waiting: deque[_Waiting] = deque()
        self._block: list[Restored] = []
        self._progress = Progress(context, span.done)
        self._tiles = ShownTiles(context)

    def run(self, source: Stream[ShotSlice], target: Stream[DoneClip]) -> None:
        """Work until the span or the source ends."""
        for piece in source:
            self._context.end_piece("wait-read")
            self._context.check()
            for done in self._feed(piece):
                target.put(done)
                self._context.end_piece("wait-write")
                self._progress.add(len(done.frames))
            if self._made not in self._span:
                source.enough()
                break
        self._tiles.finish()
        target.close()

    def _advance(self, stage: str, frames: float) -> None:
        self._context.end_piece(stage)
        self._context.check(stage)
        self._progress.advance(stage, frames)

    def _feed(self, piece: ShotSlice) -> Iterator[DoneClip]:
        """Give the model a slice; yields the frames of its shot that became final."""
        if piece.begins or self._running is None:
            wanted = max(piece.shot, self._span.done)
            self._running = self._model.shot(piece.shot, wanted, self._show, self._span.stop)
        with torch.inference_mode():
            parts = self._running.push(self._taken(piece), last=piece.ends)
            for part in self._whole(parts):
                self._context.check()
                end = part.first + len(part.frames)
                ended = piece.ends and end == piece.first + len(piece.frames)
                own = self._own(part)
                if own:
                    yield self._finished(part, own, piece.shot, ended=ended)
                del part  # before the model goes on
                self._made = max(self._made, end)
                if self._made not in self._span:
                    return

    def _taken(self, piece: ShotSlice) -> Tensor:
        """Frames of a slice [T, 3, h, w] as the model takes them; they wait for their result."""
        rgb, _ = self._colours.rgb(piece.frames)
        if not self._first_pass.is_there:
            self._waiting += map(_Waiting, count(piece.first), piece.frames)
            return rgb
        cleaned = self._first_pass.run(rgb, piece.first)
        self._progress.advance("clean", len(piece.frames))
        self._waiting += map(_Waiting, count(piece.first), piece.frames, cleaned.cpu())
        return cleaned

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

    def _own(self, part: Restored) -> range:
        """Indices of the frames of a part that belong to the span."""
        known, stop = max(0, self._span.done - part.first), self._span.stop
        end = len(part.frames)
        return range(known, end if stop is None else min(end, stop - part.first))

    def _finished(self, part: Restored, own: range, shot: int, *, ended: bool) -> DoneClip:
        """Finished frames of a part; colours that are corrected in blocks need the whole block."""
        taken = range(len(part.frames)) if self._model.is_pooled else own
        waited = self._sources(part.first + taken.start, len(taken))
        rgb, alpha = self._colours.rgb([one.frame for one in waited])
        cleaned = [one.cleaned for one in waited if one.cleaned is not None]
        source = torch.stack(cleaned).to(rgb.device) if cleaned else rgb
        restored = self._model.finished(part.frames[taken.start : taken.stop], source)
        cut = slice(own.start - taken.start, own.stop - taken.start)
        planes, result = self._restore.run(restored[cut], None if alpha is None else alpha[cut])
        frames = tuple(one.frame for one in waited[cut])
        last = part.first + own.stop - 1
        show_preview(self._context, frames[-1], last, rgb[cut][-1], result[-1])
        self._context.end_piece("restore")
        ended = ended and own.stop == len(part.frames)
        return DoneClip(frames=frames, planes=planes, shot=shot, ends_shot=ended)

    def _sources(self, first: int, frames: int) -> tuple[_Waiting, ...]:
        """Frames of the source from number `first` on; they are not needed again."""
        while self._waiting[0].number < first:
            self._waiting.popleft()
        return tuple(self._waiting.popleft() for _ in range(frames))

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


def beginning_of(model: ShotModel, span: Span) -> Beginning:
    """Frame to read the source from, so that a span and all after it are exact."""
    needed = model.first_needed(span.shot, span.done)
    return Beginning(shot=span.shot, wanted=span.done, needed=needed)
