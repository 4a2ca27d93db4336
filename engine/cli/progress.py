"""Shows how far a job is: a bar in a terminal, now and then a line elsewhere."""

from __future__ import annotations

import os
import time
from typing import IO, Any, Protocol

from engine.core.plain_text import one_line
from engine.core.units import duration_text
from engine.protocol.events import StageProgress, WorkerProgress

_WORDS = {
    "weights": "checking the model",
    "decode": "decoding",
    "encode": "encoding",
    "upscale": "upscaling",
    "mux": "joining",
    "verify": "verifying",
}
_OF_FRAMES = ("decode", "encode", "upscale")
_LINE_EVERY_S = 10.0


class ProgressDisplay(Protocol):
    """Takes the progress of one job after the other."""

    def show(self, event: StageProgress) -> None:
        """Draw how far a stage is."""
        ...

    def show_worker(self, event: WorkerProgress) -> None:
        """Draw with the next `show` where a worker process is."""
        ...

    def clear(self) -> None:
        """Make room for other text; the next `show` draws again."""
        ...


def progress_on(stream: IO[str]) -> ProgressDisplay:
    """A bar where `stream` is a terminal that can move its cursor, else lines."""
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return _Bar(stream) if is_terminal else _Lines(stream)


class _Workers:
    """Progress of the worker processes of a job."""

    def __init__(self) -> None:
        self._seen: dict[int, WorkerProgress] = {}

    def show_worker(self, event: WorkerProgress) -> None:
        self._seen[event.worker] = event

    def clear(self) -> None:
        self._seen.clear()

    @property
    def words(self) -> list[str]:
        """One for each: "process 2 at frame 480, 1.5 fps"; a GPU or a computer has its name."""
        return [
            f"{one_line(one.name) or f'process {number}'} at frame {one.frame}, "
            f"{one.frames_per_second:.1f} fps"
            for number, one in sorted(self._seen.items())
        ]


class _Lines(_Workers):
    """A line when a stage is over and every ten seconds between."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._due = time.monotonic() + _LINE_EVERY_S
        self._over = ""

    def show(self, event: StageProgress) -> None:
        is_over = 0 < event.total <= event.done
        if event.stage not in _WORDS or (is_over and self._over == event.stage):
            return
        if is_over or time.monotonic() >= self._due:
            self._over = event.stage if is_over else ""
            self._due = time.monotonic() + _LINE_EVERY_S
            words = [f"{_WORDS[event.stage]}: {_percent(event)}", *_speed(event)]
            words += self.words if event.stage == "upscale" else ()
            self._stream.write(", ".join(words) + "\n")
            self._stream.flush()

    def clear(self) -> None:
        super().clear()
        self._over = ""


class _Bar(_Workers):
    """One bar of the rich library for the stage that runs; removed when it is over."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""

    def show(self, event: StageProgress) -> None:
        if event.stage not in _WORDS:
            return
        if self._bar is None:
            self._start()
        if event.stage != self._stage:
            self._stage = event.stage
            self._bar.reset(self._task, description=_WORDS[event.stage], detail="")
        self._bar.update(
            self._task,
            completed=event.done,
            total=event.total or None,
            detail="  ".join(
                [
                    _percent(event),
                    *_speed(event),
                    *(self.words if event.stage == "upscale" else ()),
                ]
            ),
        )

    def clear(self) -> None:
        super().clear()
        if self._bar is not None:
            self._bar.stop()
            self._bar, self._stage = None, ""

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=Console(file=self._stream),
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("", total=None, detail="")
        self._bar.start()


def _percent(event: StageProgress) -> str:
    share = f"{min(100, 100 * event.done // event.total)} %" if event.total else ""
    if event.stage not in _OF_FRAMES:
        return share or str(event.done)
    count = f"{event.done}/{event.total}" if event.total else str(event.done)
    return f"{count} frames" + (f", {share}" if share else "")


def _speed(event: StageProgress) -> list[str]:
    words = []
    if event.frames_per_second:
        words.append(f"{event.frames_per_second:.1f} fps")
    if event.seconds_left >= 1:
        words.append(f"{duration_text(event.seconds_left)} left")
    return words
