"""Decodes source and result side by side and compares every frame as a small grey picture."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from engine.core.control import Control
from engine.core.errors import InputError
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.verify.frame_order import (
    REACH,
    Edit,
    Order,
    Window,
    edits,
    with_frozen,
)
from engine.verify.freeze import Steps
from engine.verify.thumbnails import (
    Grey,
    GreyMaker,
    grid_of,
    is_black_instead,
    likeness,
    share_far_off,
)
from engine.video.read.decode import FrameReader
from engine.video.read.frames import PlanarFrame

_UNLIKE = 0.6  # SSIM below which a frame shows something else
_FAR_OFF = 0.003  # part of a frame that may be far off, for the sharpest edges


@dataclass(slots=True, kw_only=True)
class Frames:
    """What the pictures of both files tell; frames count from 0."""

    source_base: Fraction
    result_base: Fraction
    source_pts: array[int] = field(default_factory=lambda: array("q"))
    result_pts: array[int] = field(default_factory=lambda: array("q"))
    shown: list[int] = field(default_factory=list)  # source frame of each result frame
    edits: list[Edit] = field(default_factory=list)
    alike: array[float] = field(default_factory=lambda: array("f"))  # SSIM of each result frame
    black: list[int] = field(default_factory=list)  # result frames black where the source is not
    unlike: list[int] = field(default_factory=list)  # result frames that show something else
    source_problems: list[str] = field(default_factory=list)
    result_problems: list[str] = field(default_factory=list)

    def source_seconds(self, frame: int) -> Fraction:
        """When a frame of the source is shown, s after the first one."""
        return (self.source_pts[frame] - self.source_pts[0]) * self.source_base

    def result_seconds(self, frame: int) -> Fraction:
        """When a frame of the result is shown, s after the first one."""
        return (self.result_pts[frame] - self.result_pts[0]) * self.result_base

    @property
    def source_length(self) -> Fraction:
        """From the first frame of the source that was taken to the end of the last one, s."""
        if len(self.source_pts) < 2:
            return Fraction(0)
        last = self.source_pts[-1] - self.source_pts[-2]
        return self.source_seconds(len(self.source_pts) - 1) + last * self.source_base

    @property
    def is_lost(self) -> bool:
        """True when more frames are missing or too many at one place than can be followed."""
        return bool(self.unlike) and abs(len(self.source_pts) - len(self.result_pts)) > REACH

    @property
    def source_origin(self) -> Fraction:
        """Time of the source's first frame, s."""
        return self.source_pts[0] * self.source_base if self.source_pts else Fraction(0)

    @property
    def result_origin(self) -> Fraction:
        """Time of the result's first frame, s."""
        return self.result_pts[0] * self.result_base if self.result_pts else Fraction(0)


def compare_frames(
    source: MediaInfo,
    result: MediaInfo,
    plan: Plan | None,
    progress: Callable[[int, int], None],
    control: Control,
) -> Frames:
    """Decode both files to their ends.

    A damaged result gives what can be decoded, and its problems; so does a damaged source.

    Raises:
        Cancelled: `control` says so.
    """
    frames = Frames(source_base=source.video.time_base, result_base=result.video.time_base)
    start, stop = (plan.start, plan.stop) if plan else (None, None)
    total = source.video.frame_count if plan is None else plan.frames
    with ExitStack() as stack:
        old = stack.enter_context(FrameReader(source, start=start, stop=stop, threads=1))
        new = stack.enter_context(FrameReader(result))
        try:
            _compare(frames, source, result, old, new, lambda n: _tell(n, total, progress, control))
        except InputError as err:
            frames.result_problems.append(err.message)
        frames.source_problems += old.problems
        frames.result_problems += new.problems
    return frames


def _tell(done: int, total: int, progress: Callable[[int, int], None], control: Control) -> None:
    control.check()
    progress(done, max(done, total))


def _compare(
    frames: Frames,
    source: MediaInfo,
    result: MediaInfo,
    old: FrameReader,
    new: FrameReader,
    tell: Callable[[int], None],
) -> None:
    grid = grid_of(source.video)
    before = GreyMaker(source.video, grid, result.video)
    after = GreyMaker(result.video, grid, source.video)
    window = Window(_greys(old, before, frames.source_pts), grid.pixels)
    order, steps = Order(), Steps()
    for number, grey in enumerate(_greys(new, after, frames.result_pts)):
        around, known = window.advance()
        state = order.add(grey, around, known)
        if not known[state]:
            state = REACH
        steps.add(around[state], around[max(0, state - 1)], grey)
        if known[state]:
            _judge(frames, number, _nearest(around, known, state, grey), grey)
        tell(number + 1)
    window.drain()
    frames.shown = order.shown(window.count)
    found = edits(frames.shown, window.count, window.changes, order.noise)
    wrong = set(frames.black) | set(frames.unlike)  # told of elsewhere
    frozen = [n for n in steps.frozen() if wrong.isdisjoint((n - 1, n, n + 1))]
    frames.edits = with_frozen(found, frozen, frames.shown)


def _greys(frames: Iterable[PlanarFrame], make: GreyMaker, pts: array[int]) -> Iterator[Grey]:
    for frame in frames:
        pts.append(frame.pts)
        yield make(frame.planes)


def _nearest(around: NDArray[np.float32], known: NDArray[np.bool_], state: int, grey: Grey) -> Grey:
    """The source's frame that is meant, or a neighbour: order is judged later, with hindsight."""
    rows = [row for row in (state, state - 1, state + 1) if 0 <= row < len(known) and known[row]]
    best = min(rows, key=lambda row: float(np.square(around[row] - grey.ravel()).sum()))
    nearest: Grey = around[best].reshape(grey.shape)
    return nearest


def _judge(frames: Frames, number: int, source: Grey, result: Grey) -> None:
    """Take down how alike a frame of the result and its frame of the source are."""
    alike = likeness(source, result)
    frames.alike.append(alike)
    if is_black_instead(source, result):
        frames.black.append(number)
    elif alike < _UNLIKE or share_far_off(source, result) > _FAR_OFF:
        frames.unlike.append(number)
