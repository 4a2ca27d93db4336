"""Frames of a model that redraws each by itself, blended with their neighbours in still areas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from torch import Tensor

from engine.ops.steadiness import exchange, stillness
from engine.video.read.frames import PlanarFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class EnlargedClip:
    """Frames that went through a model."""

    first: int  # number of the first one, counted from the job's first
    frames: tuple[PlanarFrame, ...]  # frames of the source
    rgb: Tensor  # colours of those frames, [T, 3, h, w] float32, nominally 0 to 1
    alpha: Tensor | None  # theirs, [T, 1, h, w], or None
    large: Tensor  # result of the model, [T, 3, H, W] float32

    def part(self, start: int, stop: int) -> EnlargedClip:
        """Some of them; the tensors are views."""
        return EnlargedClip(
            first=self.first + start,
            frames=self.frames[start:stop],
            rgb=self.rgb[start:stop],
            alpha=None if self.alpha is None else self.alpha[start:stop],
            large=self.large[start:stop],
        )

    def copied(self) -> EnlargedClip:
        """Copy with tensors of its own."""
        alpha = None if self.alpha is None else self.alpha.clone()
        return replace(self, rgb=self.rgb.clone(), alpha=alpha, large=self.large.clone())


class Steadying:
    """Blends the frames of a video where it stands still.

    What two neighbours exchange depends on them and their source alone: nothing is carried on, so
    a video that goes on after an interruption needs the frame before it, and no result depends on
    where clips begin. Across a cut nothing stands still.

    Memory: the frame that waits for the next clip, as the model made it, its source, and what is
    still to be taken from it; as much once more while it works.
    """

    def __init__(self) -> None:
        self._waiting: EnlargedClip | None = None
        self._given: Tensor | None = None  # added to the frame before the waiting one

    def add(self, clip: EnlargedClip) -> list[EnlargedClip]:
        """Blend a clip, in place; gives what is final, which is all but its last frame."""
        waiting, last = self._waiting, len(clip.frames) - 1
        self._blend([waiting, clip] if waiting is not None else [clip])
        self._waiting = clip.part(last, last + 1).copied() if last else clip
        ready = [waiting, clip.part(0, last) if last else None]
        return [part for part in ready if part is not None]

    def end(self) -> list[EnlargedClip]:
        """The frame that waits, where there is one: no frame follows it."""
        if self._waiting is None:
            return []
        _take(self._given, self._waiting.large[0])
        return [self._waiting]

    def _blend(self, clips: list[EnlargedClip]) -> None:
        """Exchange between all neighbours.

        What a frame gets is taken from the next one after that was compared with the one behind it:
        all exchanges are of frames as the model made them.
        """
        frames = [frame for clip in clips for frame in zip(clip.rgb, clip.large, strict=True)]
        for (first, before), (second, after) in pairwise(frames):
            share = _share(stillness(first, second), before, after)
            _take(self._given, before)
            if share is not None:
                before.add_(share)
            self._given = share


def _share(still: Tensor, before: Tensor, after: Tensor) -> Tensor | None:
    """Light that is added to a frame and taken from the next one.

    None where nothing is still; found on a CPU only, because a GPU would have to be waited for.
    """
    if still.device.type == "cpu" and not still.any():
        return None
    return exchange(before, after, still)


def _take(given: Tensor | None, frame: Tensor) -> None:
    """Take from a frame what was given to the one before it."""
    if given is not None:
        frame.sub_(given)
