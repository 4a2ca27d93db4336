"""Finds frames that are missing, doubled or out of order, from small grey pictures alone.

Frame n of the result is compared with the frames of the source around n. A path through these
comparisons that costs least (Viterbi) tells which source frame each result frame shows: staying
in step is free, leaving it costs, so a still passage or noise never makes it leave, and the count
of both files only matters at the end.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.verify.thumbnails import Grey

REACH = 24  # frames the result may be ahead of or behind the source
_STATES = 2 * REACH + 1
_WORST = 25.0  # cost of showing something else altogether
_STEP = 8.0  # cost of leaving the order
_FURTHER = 0.5  # for each frame more that is missing at the same place
_BACK = 50.0  # at most, for going back by more than one frame
_BEYOND = _WORST + 0.5  # cost of a frame after the source's end
_FLOOR = 0.15 / 255  # of full scale: differences below this are never told apart
_RECENT = 240  # frames that tell how well the result matches at best


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Where the result leaves the order of the source.

    "missing": source frames `frame` to `frame + count - 1` are not shown. "doubled": result frame
    `shown_at` shows source frame `frame` again, `count` times. "moved": the result goes back to
    source frame `frame` at `shown_at`. "extra": `count` frames at the end that the source does not
    have. `clear` is False in a still passage, where any neighbour could be meant.
    """

    kind: Literal["missing", "doubled", "moved", "extra"]
    frame: int  # of the source
    shown_at: int  # of the result
    count: int = 1
    clear: bool = True


class Window:
    """The small pictures of the source around the place of the result; the rest is forgotten."""

    def __init__(self, pictures: Iterator[Grey], cells: int) -> None:
        self._pictures = pictures
        self._around = np.zeros((_STATES, cells), dtype=np.float32)
        self._known = np.zeros(_STATES, dtype=bool)
        self.count = 0
        self.changes = array("f")  # of each source frame against the one before, rms
        for _ in range(REACH):
            self._shift()

    def advance(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Go one frame on: pictures [2 * REACH + 1, cells] and which of them exist."""
        self._shift()
        return self._around, self._known

    def drain(self) -> None:
        """Count what is left of the source."""
        while self._shift():
            pass

    def _shift(self) -> bool:
        picture = next(self._pictures, None)
        self._around[:-1] = self._around[1:]
        self._known[:-1] = self._known[1:]
        self._known[-1] = picture is not None
        if picture is None:
            return False
        self._around[-1] = picture.ravel()
        before = self._around[-2] if self.count else self._around[-1]
        self.changes.append(_rms(self._around[-1] - before))
        self.count += 1
        return True


@dataclass(slots=True)
class Order:
    """Follows the result frame by frame; memory: 50 bytes a frame."""

    _costs: NDArray[np.float64] = field(default_factory=lambda: _jumps()[REACH].copy())
    _came_from: bytearray = field(default_factory=bytearray)  # a row of states for each frame
    _best: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))
    noise: float = _FLOOR

    def add(self, result: Grey, around: NDArray[np.float32], known: NDArray[np.bool_]) -> int:
        """Compare one frame; returns the state (row of `around`) that fits best so far."""
        distances = np.sqrt(np.square(around - result.ravel()).mean(axis=1, dtype=np.float64))
        distances[~known] = np.inf
        self._learn_noise(float(distances.min()))
        costs = np.minimum(np.square(distances / self.noise), _WORST)
        costs[~known] = _BEYOND
        if self._came_from:
            through = self._costs[:, None] + _jumps()
            origin = through.argmin(axis=0)
            self._came_from += origin.astype(np.uint8).tobytes()
            self._costs = through[origin, np.arange(_STATES)]
        else:
            self._came_from += bytes(_STATES)
        self._costs = self._costs + costs
        self._costs -= self._costs.min()
        return int(self._costs.argmin())

    def _learn_noise(self, best: float) -> None:
        """What a right match differs by: the lower quarter of recent best matches, widened."""
        if np.isfinite(best):
            self._best.append(best)
            if len(self._came_from) // _STATES % 8 == 0 or len(self._best) < 16:
                self.noise = max(_FLOOR, 1.5 * float(np.percentile(self._best, 25)))

    def shown(self, source_count: int) -> list[int]:
        """The source frame that each result frame shows, once all frames were added."""
        count = len(self._came_from) // _STATES
        if not count:
            return []
        left = source_count - count - (np.arange(_STATES) - REACH)
        ends = _jump(left)
        state = int((self._costs + ends).argmin())
        states = [0] * count
        for number in range(count - 1, -1, -1):
            states[number] = state
            state = self._came_from[number * _STATES + state]
        return [number + state - REACH for number, state in enumerate(states)]


def edits(
    shown: list[int], source_count: int, changes: Sequence[float], noise: float
) -> list[Edit]:
    """What `Order.shown` means in words a person can check."""
    found: list[Edit] = []
    real = [frame for frame in shown if frame < source_count]
    for at, (before, now) in enumerate(pairwise([-1, *real, source_count])):
        step = now - before
        if step > 1:
            found.append(Edit(kind="missing", frame=before + 1, shown_at=at, count=step - 1))
        elif step == 0:
            found.append(Edit(kind="doubled", frame=now, shown_at=at))
        elif step < 0:
            found.append(Edit(kind="moved", frame=now, shown_at=at))
    if len(real) < len(shown):
        surplus = len(shown) - len(real)
        found.append(Edit(kind="extra", frame=source_count, shown_at=len(real), count=surplus))
    return [_judged(edit, changes, noise) for edit in _joined(found)]


def with_frozen(found: list[Edit], frozen: list[int], shown: list[int]) -> list[Edit]:
    """Add result frames that show the frame before them again in their own place."""
    known = {edit.shown_at + near for edit in found for near in (-1, 0, 1)}
    for number in frozen:
        if number not in known and number:
            before, lost = shown[number - 1], shown[number]
            found.append(Edit(kind="doubled", frame=before, shown_at=number))
            found.append(Edit(kind="missing", frame=lost, shown_at=number + 1))
    return sorted(found, key=lambda edit: edit.shown_at)


def _joined(found: list[Edit]) -> list[Edit]:
    """Neighbouring repetitions of one frame are one edit."""
    joined: list[Edit] = []
    for edit in found:
        last = joined[-1] if joined else None
        if last and edit.kind == last.kind == "doubled" and edit.frame == last.frame:
            joined[-1] = Edit(
                kind="doubled", frame=last.frame, shown_at=last.shown_at, count=last.count + 1
            )
        else:
            joined.append(edit)
    return joined


def _judged(edit: Edit, changes: Sequence[float], noise: float) -> Edit:
    """Say whether the place is certain: the source changes there by more than noise."""
    near = changes[max(1, edit.frame) : edit.frame + edit.count + 1]
    clear = bool(near) and max(near) > noise
    return Edit(
        kind=edit.kind, frame=edit.frame, shown_at=edit.shown_at, count=edit.count, clear=clear
    )


def _rms(values: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.square(values).mean(dtype=np.float64)))


def _jump(frames: NDArray[np.intp]) -> NDArray[np.float64]:
    """Cost of so many frames missing at one place; below 0: of going back by so many."""
    missing = _STEP + _FURTHER * (frames - 1)
    back = np.where(frames == -1, _STEP, np.minimum(1 - _STEP * frames, _BACK))
    return np.where(frames > 0, missing, np.where(frames < 0, back, 0.0))


_JUMPS: list[NDArray[np.float64]] = []


def _jumps() -> NDArray[np.float64]:
    """Cost of going from each state to each, [from, to]."""
    if not _JUMPS:
        states = np.arange(_STATES)
        _JUMPS.append(_jump(states[None, :] - states[:, None]))
    return _JUMPS[0]
