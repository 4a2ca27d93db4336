"""Shows how far a download is: one line that is written over in a terminal, else now and then."""

from __future__ import annotations

import os
import time
from typing import IO, Protocol, TypeAlias

from engine.core.units import duration_text
from engine.protocol.events import RuntimeProgress, WeightsProgress
from engine.protocol.update_messages import UpdateProgress

_WORDS = {"download": "downloading", "verify": "checking", "import": "copying", "remove": ""}
_RUNTIME_WORDS = {
    "download": "downloading",
    "import": "checking",
    "unpack": "unpacking",
    "try": "trying",
    "remove": "removing",
    "use": "choosing",
}
_UPDATE_WORDS = {"check": "asking for", "download": "downloading", "install": "checking"}
_LINE_EVERY_S = 10.0

_Progress: TypeAlias = WeightsProgress | RuntimeProgress | UpdateProgress


class WeightsLine(Protocol):
    """Takes the progress of one file after the other."""

    def show(self, event: _Progress) -> None:
        """Tell how far it is."""
        ...

    def clear(self) -> None:
        """Make room for other text."""
        ...


def line_on(stream: IO[str]) -> WeightsLine:
    """A line that is written over where `stream` is a terminal, else lines."""
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return _Over(stream) if is_terminal else _Lines(stream)


def progress_words(event: _Progress) -> str:
    """How far a file is, in MB: "downloading x: 120 of 6780 MB (1 %), 23.4 MB/s, 4 min left"."""
    if isinstance(event, WeightsProgress):
        start = f"{_WORDS[event.phase]} {event.file}: "
    elif isinstance(event, UpdateProgress):
        start = f"{_UPDATE_WORDS[event.phase]} the update: "
    else:
        start = f"{_RUNTIME_WORDS[event.phase]} the NVIDIA runtime {event.runtime}: "
    if not event.done_mb and not event.total_mb:
        return start + "waiting"
    words = [_amount(event)]
    if event.mb_per_second:
        words.append(f"{event.mb_per_second:.1f} MB/s")
    if event.seconds_left >= 1:
        words.append(f"{duration_text(event.seconds_left)} left")
    return start + ", ".join(words)


def _amount(event: _Progress) -> str:
    digits = 0 if max(event.total_mb, event.done_mb) >= 10 else 1
    done = f"{event.done_mb:.{digits}f}"
    if not event.total_mb:
        return f"{done} MB"
    return f"{done} of {event.total_mb:.{digits}f} MB ({event.done_mb / event.total_mb:.0%})"


class _Over:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._width = 0

    def show(self, event: _Progress) -> None:
        self._write(progress_words(event))

    def clear(self) -> None:
        if self._width:
            self._write("")
            self._stream.write("\r")

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._due = time.monotonic() + _LINE_EVERY_S

    def show(self, event: _Progress) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_EVERY_S
            self._stream.write(progress_words(event) + "\n")
            self._stream.flush()

    def clear(self) -> None:
        """Lines stay."""
