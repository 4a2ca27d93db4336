"""Plays one or two videos in step: read ahead in threads, shown by a clock, late frames dropped."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QImage

from app.preview.scene import to_image
from engine.core.errors import EngineError
from engine.core.geometry import Size
from engine.protocol.events import Picture

_log = logging.getLogger(__name__)
_AHEAD = 4  # pictures that wait for their time, of each video: 2 MB each for a canvas of 960x540
_RUNS_AHEAD_S = 0.25  # that the clock runs ahead of reading at most; then it waits
_TICK_MS = 8


class Frame(Protocol):
    """Frames as `engine.api.played_frames` gives them."""

    @property
    def seconds(self) -> float:
        """Time in the video, s."""
        ...

    def picture(self, box: Size) -> Picture:
        """The frame reduced to a box in px."""
        ...


Opener = Callable[[float], Iterator[Frame]]  # frames from a time on, s


class PlayClock:
    """Position in a video that plays at a speed; 0 stands still.

    Args:
        now: Seconds of a clock that never goes back.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._begun = (0.0, now(), 0.0)  # one value, as other threads read it: s, when, speed

    @property
    def speed(self) -> float:
        """Seconds of the video in a second."""
        return self._begun[2]

    @property
    def position(self) -> float:
        """Seconds of the video."""
        base, since, speed = self._begun
        return base + (self._now() - since) * speed

    def set(self, position: float, speed: float) -> None:
        """Go on from a position."""
        self._begun = (position, self._now(), speed)


@dataclass(slots=True)
class Counts:
    """Frames of all videos that were due since playing began."""

    shown: int = 0
    dropped: int = 0


class Lane:
    """One video, read ahead of the clock in a thread of its own.

    A frame whose time is over is decoded, as later ones refer to it, but becomes no picture.

    Memory: `_AHEAD` pictures of the box, and what the reader holds.
    """

    def __init__(self, frames: Iterator[Frame], box: Size, position: Callable[[], float]) -> None:
        self._frames, self._box, self._position = frames, box, position
        self._waiting: deque[tuple[float, QImage]] = deque()
        self._changed = threading.Condition()
        self._is_stopped = False
        self.read_to = float("-inf")  # s, time of the last frame that was read
        self.has_ended = False
        self.skipped = 0
        self.failed: EngineError | None = None
        self.thread = threading.Thread(target=self._run, name="playback", daemon=True)

    def _run(self) -> None:
        try:
            self._read()
        except EngineError as err:
            _log.warning("playback ends: %s", err.message)
            self.failed = err
        finally:
            with self._changed:
                self.has_ended = True

    def _read(self) -> None:
        frames, last = self._frames, None
        for frame in frames:
            length = frame.seconds - last if last is not None else 0.0
            is_late = last is not None and frame.seconds + length < self._position()
            last = frame.seconds
            image = None if is_late else to_image(frame.picture(self._box))
            with self._changed:
                self.skipped += is_late
                if image is not None:
                    self._waiting.append((frame.seconds, image))
                self.read_to = frame.seconds
                self._changed.wait_for(lambda: self._is_stopped or len(self._waiting) < _AHEAD)
                if self._is_stopped:
                    return

    @property
    def newest(self) -> float | None:
        """Time of the last picture that waits; None for none."""
        with self._changed:
            return self._waiting[-1][0] if self._waiting else None

    @property
    def is_over(self) -> bool:
        """Whether nothing comes any more."""
        with self._changed:
            return self.has_ended and not self._waiting

    def take(self, position: float) -> tuple[list[float], QImage | None]:
        """Times of all pictures that are due, and the last of them."""
        times, image = [], None
        with self._changed:
            while self._waiting and self._waiting[0][0] <= position + 1e-6:
                seconds, image = self._waiting.popleft()
                times.append(seconds)
            self._changed.notify()
        return times, image

    def stop(self) -> None:
        """Let the thread end after its frame."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()


@dataclass(slots=True)
class _Playing:
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    images: dict[str, QImage] = field(default_factory=dict)
    begun: bool = False


class Player(QObject):
    """Shows frames of all videos at the same time of the video, never one ahead of the other.

    The window's thread only takes pictures that are ready; it never decodes or scales.
    """

    shown = Signal(float, object)  # s, images by name of their video
    ended = Signal()
    failed = Signal(object)  # EngineError: one of the videos cannot be read
    playing_changed = Signal(bool)

    def __init__(
        self, parent: QObject | None = None, *, now: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__(parent)
        self._clock, self._playing = PlayClock(now), _Playing()
        self.counts = Counts()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self.tick)

    @property
    def is_playing(self) -> bool:
        """Whether time passes, or is about to."""
        return bool(self._playing.lanes)

    @property
    def position(self) -> float:
        """Seconds of the video."""
        return self._clock.position

    @property
    def heard(self) -> float | None:
        """Position of what is to be heard, s; None while the clock stands. From any thread."""
        clock = self._clock
        return clock.position if clock.speed > 0 else None

    def play(self, films: Mapping[str, Opener], start_s: float, speed: float, box: Size) -> None:
        """Play videos from a time on; the clock starts with their first pictures.

        Args:
            films: Function that opens each, by name.
            start_s: Time to begin with, s.
            speed: Seconds of the video in a second.
            box: Most pixels of a picture.
        """
        self._stop_lanes()
        self._clock.set(start_s, 0.0)
        self.counts, self._speed = Counts(), speed
        lanes = {
            name: Lane(opened(start_s), box, lambda: self._clock.position)
            for name, opened in films.items()
        }
        self._playing = _Playing(lanes=lanes)
        for lane in lanes.values():
            lane.thread.start()
        self._timer.start()
        self.playing_changed.emit(True)

    def stop(self) -> None:
        """Stand still at the frame that is shown."""
        if self.is_playing:
            self._timer.stop()
            self._stop_lanes()
            self._clock.set(self._clock.position, 0.0)
            self.playing_changed.emit(False)

    def _stop_lanes(self) -> None:
        for lane in self._playing.lanes.values():
            lane.stop()
        self._playing = _Playing()

    def tick(self) -> None:
        """Show what is due."""
        lanes = list(self._playing.lanes.values())
        if all(lane.is_over for lane in lanes):
            errors = [lane.failed for lane in lanes if lane.failed is not None]
            self.stop()
            if errors:
                self.failed.emit(errors[0])
            self.ended.emit()
            return
        if not self._playing.begun:
            if not all(lane.newest is not None or lane.is_over for lane in lanes):
                return
            self._playing.begun = True
            self._clock.set(self._clock.position, self._speed)
        reached = [lane.read_to for lane in lanes if not lane.has_ended]
        position = self._clock.position
        if reached and position > min(reached) + _RUNS_AHEAD_S:
            position = min(reached) + _RUNS_AHEAD_S
            self._clock.set(position, 0.0)  # nothing is heard meanwhile
        elif not self._clock.speed:
            self._clock.set(position, self._speed)
        self._show(self._common(lanes, position))

    @staticmethod
    def _common(lanes: list[Lane], position: float) -> float:
        """The latest time up to `position` of which every video has its picture."""
        for lane in lanes:
            newest = lane.newest
            if newest is not None and not lane.has_ended:
                position = min(position, newest)
            elif newest is None and not lane.has_ended:
                position = min(position, lane.read_to)
        return position

    def _show(self, position: float) -> None:
        shown = None
        for name, lane in self._playing.lanes.items():
            times, image = lane.take(position)
            if image is not None:
                self._playing.images[name] = image
                self.counts.shown += 1
                self.counts.dropped += len(times) - 1
                shown = times[-1] if shown is None else max(shown, times[-1])
            elif lane.is_over:
                self._playing.images.pop(name, None)
            self.counts.dropped += lane.skipped
            lane.skipped = 0
        if shown is not None:
            self.shown.emit(shown, dict(self._playing.images))
