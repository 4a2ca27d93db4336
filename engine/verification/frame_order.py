"""Missing, doubled and misplaced frames, found from thumbnails alone.

Frame n of the result is compared with the frames of the source around n. The cheapest path through
these comparisons (Viterbi) gives the source frame that each result frame shows: staying in step is
free, every other step has a cost, so a still passage or noise never moves the path, and the number
of frames of both files only matters at the end.

Leaving the order for one frame costs more than one wrong frame: such a frame is found by what it
shows better than the frame of its place (`FrameAlignment.replaced`).

All that misses a frame shown again in place of the next one in a slow passage, where neighbours
differ less than the result from the source. But changes by enlarging and coding are nearly
constant from frame to frame: `FrameDifferences` compares the differences of consecutive frames in
both files.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.verification.thumbnails import Thumbnail

REACH = 24  # frames the result may be earlier or later than in the source
_STATES = 2 * REACH + 1
_OTHER_COST = 25.0  # of showing something else altogether
_LEAVING_COST = 8.0  # of leaving the order
_FURTHER_COST = 0.5  # of each frame more that is missing at the same place
_BACK_COST = 50.0  # at most, of going back by more than one frame
_BEYOND_COST = _OTHER_COST + 0.5  # of a frame after the source's end
_MIN_NOISE = 0.15 / 255  # of full scale: smaller differences mean nothing
_RECENT = 240  # frames from which the noise is estimated
_ANOTHER = 9.0  # times as far from a frame as from the nearest, squared: it shows the nearest
_USUAL = 0.4  # cost of a right frame: the noise is 1.5 times its lower quartile
_NO_ROW = 255

# Frozen frames.
_NEIGHBOURS = 12  # frames on either side from which the usual error is estimated
_MIN_NEIGHBOURS = 6
_CLEAR = 3.0  # times the usual error
_STILL = 0.35  # of the source's step that a frozen frame may move
_VISIBLE = 6 / 255  # of full scale: change of a cell that lossy coding does not leave out


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Finds where the result leaves the order of the source.

    "missing": source frames `frame` to `frame + count - 1` are not shown. "doubled": result frame
    `shown_at` shows source frame `frame` again, `count` times. "moved": the result goes back to
    source frame `frame` at `shown_at`. "replaced": result frame `shown_at` shows source frame
    `frame`, those around it are in their places. "extra": `count` frames at the end that the source
    does not have. `clear` is False in a still passage, where any neighbour could be meant.
    """

    kind: Literal["missing", "doubled", "moved", "replaced", "extra"]
    frame: int  # number in the source
    shown_at: int  # number in the result
    count: int = 1
    clear: bool = True


class SourceWindow:
    """Thumbnails of the source around the position of the result; the others are forgotten."""

    def __init__(self, thumbnails: Iterator[Thumbnail], cells: int) -> None:
        self._thumbnails = thumbnails
        self._window = np.zeros((_STATES, cells), dtype=np.float32)
        self._known = np.zeros(_STATES, dtype=bool)
        self.count = 0
        self.changes = array("f")  # rms of each source frame's difference from the one before
        for _ in range(REACH):
            self._shift()

    def advance(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Go one frame on: thumbnails [2 * REACH + 1, cells] and which of them exist."""
        self._shift()
        return self._window, self._known

    def drain(self) -> None:
        """Count the rest of the source."""
        while self._shift():
            pass

    def _shift(self) -> bool:
        thumbnail = next(self._thumbnails, None)
        self._window[:-1] = self._window[1:]
        self._known[:-1] = self._known[1:]
        self._known[-1] = thumbnail is not None
        if thumbnail is None:
            return False
        self._window[-1] = thumbnail.ravel()
        before = self._window[-2] if self.count else self._window[-1]
        self.changes.append(_rms(self._window[-1] - before))
        self.count += 1
        return True


@dataclass(slots=True)
class FrameAlignment:
    """Follows the result frame by frame; memory: 57 bytes a frame."""

    _costs: NDArray[np.float64] = field(default_factory=lambda: _start_costs())
    _came_from: bytearray = field(default_factory=bytearray)  # a row of states for each frame
    _nearest: bytearray = field(default_factory=bytearray)  # row of `window`, or _NO_ROW
    _far: bytearray = field(default_factory=bytearray)  # a bit of each row that is not shown
    _best: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    noise: float = _MIN_NOISE

    def add(self, result: Thumbnail, window: NDArray[np.float32], known: NDArray[np.bool_]) -> int:
        """Compare one frame; returns the state (row of `window`) that fits best so far."""
        distances = np.sqrt(np.square(window - result.ravel()).mean(axis=1, dtype=np.float64))
        distances[~known] = np.inf
        self._estimate_noise(float(distances.min()))
        costs = np.minimum(np.square(distances / self.noise), _OTHER_COST)
        costs[~known] = _BEYOND_COST
        least = max(_USUAL, float(costs.min()))
        self._nearest.append(int(costs.argmin()) if _ANOTHER * least < _OTHER_COST else _NO_ROW)
        self._far += np.packbits(costs > _ANOTHER * least).tobytes()
        if self._came_from:
            through = self._costs[:, None] + _step_costs()
            origin = through.argmin(axis=0)
            self._came_from += origin.astype(np.uint8).tobytes()
            self._costs = through[origin, np.arange(_STATES)]
        else:
            self._came_from += bytes(_STATES)
        self._costs = self._costs + costs
        self._costs -= self._costs.min()
        return int(self._costs.argmin())

    def _estimate_noise(self, best: float) -> None:
        """Difference of a right match: the lower quartile of recent best matches, widened."""
        if np.isfinite(best):
            self._best.append(best)
            if len(self._came_from) // _STATES % 8 == 0 or len(self._best) < 16:
                # np.percentile takes twenty times as long for so few
                count = len(self._best)
                quartile = float(np.interp((count - 1) / 4, range(count), sorted(self._best)))
                self.noise = max(_MIN_NOISE, 1.5 * quartile)

    def shown(self, source_count: int) -> list[int]:
        """The source frame that each result frame shows, after all frames were added."""
        count = len(self._came_from) // _STATES
        if not count:
            return []
        missing_at_end = source_count - count - (np.arange(_STATES) - REACH)
        state = int((self._costs + _step_cost(missing_at_end)).argmin())
        states = [0] * count
        for number in range(count - 1, -1, -1):
            states[number] = state
            state = self._came_from[number * _STATES + state]
        return [number + state - REACH for number, state in enumerate(states)]

    def replaced(self, shown: list[int]) -> list[Edit]:
        """Frames that show another source frame than that of their place.

        Where the next one is off as far, as after a slow fade that coding has moved, the order that
        was found stands.
        """
        if not shown:
            return []
        numbers = np.arange(len(shown))
        nearest = np.frombuffer(self._nearest, np.uint8).astype(np.intp)
        far = np.unpackbits(np.frombuffer(self._far, np.uint8).reshape(len(shown), -1), axis=1)
        rows = np.asarray(shown, np.intp) - numbers + REACH
        inside = (rows >= 0) & (rows < _STATES)
        is_far = far[numbers, np.clip(rows, 0, _STATES - 1)] == 1
        off = np.where(inside & is_far & (nearest != _NO_ROW), nearest - rows, 0)
        alone = off != 0
        for step in (-1, 1):
            alone &= off != np.roll(off, step)
        return [
            Edit(kind="replaced", frame=int(number + nearest[number] - REACH), shown_at=int(number))
            for number in np.flatnonzero(alone)
        ]


def edits_of(
    shown: list[int], source_count: int, changes: Sequence[float], noise: float
) -> list[Edit]:
    """The edits that lead from the source's order to `FrameAlignment.shown`."""
    found: list[Edit] = []
    real = [frame for frame in shown if frame < source_count]
    for at, (before, now) in enumerate(pairwise([-1, *real, source_count])):
        step = now - before
        last = found[-1] if found else None
        if step > 1:
            found.append(Edit(kind="missing", frame=before + 1, shown_at=at, count=step - 1))
        elif step == 0 and last is not None and (last.kind, last.frame) == ("doubled", now):
            found[-1] = replace(last, count=last.count + 1)
        elif step == 0:
            found.append(Edit(kind="doubled", frame=now, shown_at=at))
        elif step < 0:
            found.append(Edit(kind="moved", frame=now, shown_at=at))
    if len(real) < len(shown):
        surplus = len(shown) - len(real)
        found.append(Edit(kind="extra", frame=source_count, shown_at=len(real), count=surplus))
    return [replace(edit, clear=_is_clear(edit, changes, noise)) for edit in found]


def are_certain(found: list[Edit]) -> bool:
    """Whether edits are more than another way through passages without visible changes.

    Lossy coding moves a slow fade a little: the result then fits other frames better all along.
    """
    balance = {"missing": -1, "doubled": 1, "extra": 1, "moved": 0, "replaced": 0}
    surplus = sum(balance[edit.kind] * edit.count for edit in found)
    return surplus != 0 or any(edit.clear for edit in found)


def _is_clear(edit: Edit, changes: Sequence[float], noise: float) -> bool:
    """Whether the place is certain: the source changes there by more than noise."""
    near = changes[max(1, edit.frame) : edit.frame + edit.count + 1]
    return bool(near) and max(near) > noise


def with_replaced(found: list[Edit], replaced: list[Edit]) -> list[Edit]:
    """Adds frames that show another one, where no edit explains it."""
    known = {edit.shown_at + near for edit in found for near in (-1, 0, 1)}
    own = [edit for edit in replaced if edit.shown_at not in known]
    return sorted([*found, *own], key=lambda edit: edit.shown_at)


def with_frozen(found: list[Edit], frozen: list[int], shown: list[int]) -> list[Edit]:
    """Adds result frames that show the frame before them again in their own place."""
    known = {edit.shown_at + near for edit in found for near in (-1, 0, 1)}
    for number in frozen:
        if number not in known and number:
            before, lost = shown[number - 1], shown[number]
            found.append(Edit(kind="doubled", frame=before, shown_at=number))
            found.append(Edit(kind="missing", frame=lost, shown_at=number + 1))
    return sorted(found, key=lambda edit: edit.shown_at)


def _step_cost(frames: NDArray[np.intp]) -> NDArray[np.float64]:
    """Cost of n frames missing at one place; below 0: of going back by -n frames."""
    missing = _LEAVING_COST + _FURTHER_COST * (frames - 1)
    back = np.where(frames == -1, _LEAVING_COST, np.minimum(1 - _LEAVING_COST * frames, _BACK_COST))
    return np.where(frames > 0, missing, np.where(frames < 0, back, 0.0))


def _start_costs() -> NDArray[np.float64]:
    costs: NDArray[np.float64] = _step_costs()[REACH].copy()
    return costs


@cache
def _step_costs() -> NDArray[np.float64]:
    """Cost of going from each state to each, [from, to]."""
    states = np.arange(_STATES)
    return _step_cost(states[None, :] - states[:, None])


@dataclass(slots=True)
class FrameDifferences:
    """Differences between consecutive frames, on both sides; 16 bytes a frame."""

    source: array[float] = field(default_factory=lambda: array("f"))  # rms of full scale
    result: array[float] = field(default_factory=lambda: array("f"))
    error: array[float] = field(default_factory=lambda: array("f"))  # RMS difference of both
    # Largest difference of a cell of the source.
    largest: array[float] = field(default_factory=lambda: array("f"))
    _last: Thumbnail | None = None

    def add(
        self, source: NDArray[np.float32], before: NDArray[np.float32], result: Thumbnail
    ) -> None:
        """Add the next frame: the source's thumbnail, the one before it, and the result's."""
        step = result - (self._last if self._last is not None else result)
        expected = (source - before).reshape(result.shape) if self._last is not None else step
        self.source.append(_rms(expected))
        self.result.append(_rms(step))
        self.error.append(_rms(step - expected))
        self.largest.append(float(np.abs(expected).max()))
        self._last = result

    def frozen(self) -> list[int]:
        """Frames that repeat the one before though the source moves on; the next one catches up."""
        error = np.frombuffer(self.error, np.float32)
        steps = np.frombuffer(self.result, np.float32), np.frombuffer(self.source, np.float32)
        still = np.flatnonzero(steps[0] < _STILL * steps[1])
        return [int(number) for number in still if self._is_frozen(int(number), error)]

    def _is_frozen(self, number: int, error: NDArray[np.float32]) -> bool:
        near = [*range(max(1, number - _NEIGHBOURS), number)]
        near += range(number + 2, min(number + 2 + _NEIGHBOURS, error.size))
        if len(near) < _MIN_NEIGHBOURS or number + 1 >= error.size:
            return False
        limit = _CLEAR * float(np.median(error[near]))
        # lossy coding leaves a small step in a still passage out, and makes up for it later
        is_still = float(np.median([self.source[n] for n in near])) <= limit
        if self.source[number] <= limit or (is_still and self.largest[number] <= _VISIBLE):
            return False
        return bool(error[number] > limit and error[number + 1] > limit)


def _rms(values: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(values).mean(dtype=np.float64)))
