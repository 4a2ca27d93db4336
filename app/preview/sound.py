"""Sound of the playing video: read ahead in a thread, in step with the clock of its frames."""

from __future__ import annotations

import importlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from PySide6.QtCore import QObject, Signal

from engine.core.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)
_AHEAD_S = 1.0  # sound read ahead: 0.4 MB
_DRIFT_S = 0.04  # largest distance of sound and frames before sound is skipped or delayed
_LOOK_S = 0.3  # between two checks for a lost device
_DEVICE = threading.Lock()  # PortAudio opens and closes in one thread at a time


class Part(Protocol):
    """Piece of `engine.api.played_sound`: samples float32 [n, 2] from a time on, s."""

    @property
    def seconds(self) -> float:
        """Time of the first sample, s."""
        ...

    @property
    def samples(self) -> NDArray[np.float32]:
        """The samples themselves."""
        ...


SoundOpener = Callable[[float, int], Iterator[Part]]  # of a start time, s, and a rate in Hz
Position = Callable[[], float | None]  # position in the video, s; None while it is paused


class SoundBuffer:
    """Queue of sound that was read ahead.

    The clock of the frames leads: it waits when reading is slow, and runs without a sound device
    too. The clock of a device differs by parts in a million. When both are `_DRIFT_S` apart, hours
    later or after such a wait, sound jumps; until then no sample is changed.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._parts: deque[tuple[int, NDArray[np.float32]]] = deque()  # first sample, samples
        self._next: int | None = None  # the sample after those that were given last
        self._changed = threading.Condition()
        self._is_closed = False

    def add(self, part: Part) -> bool:
        """Wait for room and append a part; False after `close`."""
        first = int(part.seconds * self._rate + 1e-3)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._is_short)
            self._parts.append((first, part.samples))
            return not self._is_closed

    @property
    def _is_short(self) -> bool:
        return sum(len(samples) for _, samples in self._parts) < _AHEAD_S * self._rate

    def give(self, out: NDArray[np.float32], position: float | None, gain: float) -> None:
        """Fill [n, 2] with the sound from a position on, s; silence where there is none."""
        out[:] = 0
        if position is None:
            self._next = None
            return
        first = round(position * self._rate)
        if self._next is not None and abs(first - self._next) < _DRIFT_S * self._rate:
            first = self._next
        self._next = stop = first + len(out)
        with self._changed:
            while self._parts and self._parts[0][0] + len(self._parts[0][1]) <= first:
                self._parts.popleft()
            for begin, samples in self._parts:
                low, high = max(begin, first), min(begin + len(samples), stop)
                if low < high:
                    out[low - first : high - first] = gain * samples[low - begin : high - begin]
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait for `close`, for a number of seconds at most; True after it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)

    def close(self) -> None:
        """End playback and let waiting threads go on."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


class _Voice:
    """One playback from a start time; all that is slow is in its thread, the first import too."""

    def __init__(
        self, opened: SoundOpener, start_s: float, position: Position, owner: SoundOut
    ) -> None:
        self._opened, self._start_s, self._position, self._owner = opened, start_s, position, owner
        self._stopped = threading.Event()
        self._buffer: SoundBuffer | None = None
        self.thread = threading.Thread(target=self._run, name="sound", daemon=True)

    def stop(self) -> None:
        """Stop; the thread ends."""
        self._stopped.set()
        if self._buffer is not None:
            self._buffer.close()

    def _run(self) -> None:
        try:
            with _DEVICE:
                self._use(importlib.import_module("sounddevice"))
        except EngineError as err:
            _log.warning("sound ends: %s", err.message)
        except Exception as err:  # noqa: BLE001 - no library, no device, a lost one: pictures go on
            _log.info("no sound: %s", err)
            if not self._stopped.is_set():
                with suppress(RuntimeError):  # the window is gone
                    self._owner.no_device.emit()

    def _use(self, device: Any) -> None:
        rate = int(device.query_devices(kind="output")["default_samplerate"])
        self._buffer = buffer = SoundBuffer(rate)
        options = {"samplerate": rate, "channels": 2, "dtype": "float32"}
        with device.OutputStream(
            callback=self._give, finished_callback=buffer.close, **options
        ) as stream:
            self._read(buffer, rate)
            while stream.active and not self._stopped.is_set() and not buffer.wait(_LOOK_S):
                pass
            if not self._stopped.is_set():
                raise OSError("the device was lost")

    def _read(self, buffer: SoundBuffer, rate: int) -> None:
        for part in self._opened(self._start_s, rate):
            if self._stopped.is_set() or not buffer.add(part):
                return

    def _give(self, out: NDArray[np.float32], _count: int, time: Any, _status: object) -> None:
        position, buffer = self._position(), self._buffer
        if position is not None:
            position += max(0.0, time.outputBufferDacTime - time.currentTime)
        if buffer is not None:
            buffer.give(out, position, self._owner.gain)


class SoundOut(QObject):
    """Plays sound on the default output device; silent without one."""

    no_device = Signal()  # emitted in the thread of the sound

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.gain = 1.0
        self._voice: _Voice | None = None

    def play(self, opened: SoundOpener, start_s: float, position: Position) -> None:
        """Play from a time on, s, in step with a position; an earlier playback ends."""
        self.stop()
        self._voice = _Voice(opened, start_s, position, self)
        self._voice.thread.start()

    def stop(self) -> None:
        """Stop playback."""
        if self._voice is not None:
            self._voice.stop()
            self._voice = None
