"""Cuts of a film, found while it is read: rather one too many than one too few.

A cut that is missed lets the old shot show through in the new one; a false cut costs next to
nothing. So there is no shortest shot, and flashes count as cuts. Fades and dissolves do not.
"""

from __future__ import annotations

from collections import deque

from engine.protocol.media import VideoInfo
from engine.video.read.frames import PlanarFrame
from engine.video.shots.distance import (
    Reducer,
    Small,
    distance,
    distance_at_rest,
)

SENSITIVITY = 60
_SEEN = 12  # distances between neighbours that a new one is compared with
HISTORY = _SEEN + 1
"""Frames before a frame on which the answer for it depends; nothing behind it matters."""

# At the usual sensitivity; units of `distance`.
_UNLIKE = 0.07  # pictures so far apart are never one shot, however much moves
_SUDDEN = 0.02  # nearer ones are one shot, however quiet it is
_LEAST_SEEN = 3  # distances before which nothing is called usual
_TIMES = 3.0  # as far as ever in the last frames: a jump
_HALVED_BY = 20.0  # of sensitivity more halves the limits


class ShotDetector:
    """Tells for each frame of a film whether a shot starts with it.

    It compares each frame with the one before: a cut is what no motion explains, or a jump in
    what was quiet. How quiet it was says the second largest of the last twelve distances, so that
    neither the cut before nor animation that shows each drawing two or three times misleads.

    A resumed job answers as an uninterrupted one once it has seen HISTORY frames; so show it
    those before the first frame that matters.

    Memory: one small picture and twelve numbers.
    """

    def __init__(self, video: VideoInfo, *, sensitivity: int | None = SENSITIVITY) -> None:
        """Looks at nothing yet.

        Args:
            video: The film; its size, depth and kind of planes are used.
            sensitivity: 0 (only the clearest cuts) to 100; None finds none at all.
        """
        if sensitivity is not None and not 0 <= sensitivity <= 100:
            raise ValueError(f"a sensitivity of {sensitivity} is not within 0 and 100")
        self._reducer = None if sensitivity is None else Reducer(video)
        self._factor = 2 ** ((SENSITIVITY - (sensitivity or 0)) / _HALVED_BY)
        self._last: Small | None = None
        self._seen: deque[float] = deque(maxlen=_SEEN)
        self._is_first = True

    def starts_shot(self, frame: PlanarFrame) -> bool:
        """Whether a shot starts with the next frame of the film; the first one always does."""
        is_first, self._is_first = self._is_first, False
        if self._reducer is None:
            return is_first
        last, self._last = self._last, self._reducer.small(frame)
        return last is None or self._is_cut(last, self._last)

    def _is_cut(self, a: Small, b: Small) -> bool:
        far = distance(a, b)
        usual = sorted(self._seen)[-2] if len(self._seen) >= _LEAST_SEEN else far
        self._seen.append(far)
        if far <= _SUDDEN * self._factor:
            return False
        return far > _TIMES * usual or distance_at_rest(a, b) > _UNLIKE * self._factor
