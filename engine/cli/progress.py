"""Progress on a stream: in a terminal written over, elsewhere a line now and then."""

from __future__ import annotations

import os
import time
from typing import IO, Any, Protocol

from engine.cli.console import Console
from engine.core.plain_text import one_line
from engine.core.units import duration_text
from engine.protocol.events import (
    ACTIVITIES,
    StageProgress,
    StagesTimed,
    TaskProgress,
    WorkerProgress,
)
from engine.protocol.tasks import TaskKind

_LINE_EVERY_S = 10.0
_WAITS_FOR = {"read": "frames of the source", "write": "the encoder"}
_PHASES = {
    "download": "downloading",
    "verify": "verifying",
    "import": "verifying",
    "convert": "converting",
    "unpack": "unpacking",
    "compile": "preparing",
    "try": "testing",
    "remove": "removing",
    "use": "selecting",
    "check": "checking for",
    "install": "verifying",
}
_OBJECTS = {TaskKind.RUNTIME: "the NVIDIA runtime {}", TaskKind.UPDATE: "the update"}


def _is_terminal(stream: IO[str]) -> bool:
    """True for a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


# --- jobs


class ProgressDisplay(Protocol):
    """Takes the progress of one job after the other."""

    def show(self, event: StageProgress) -> None:
        """Draw how far a stage is."""
        ...

    def show_worker(self, event: WorkerProgress) -> None:
        """Draw with the next `show` where a worker process is."""
        ...

    def show_times(self, event: StagesTimed) -> None:
        """Draw with the next `show` what the GPU waits for."""
        ...

    def clear(self) -> None:
        """Make room for other text; the next `show` draws again."""
        ...


def progress_on(console: Console) -> ProgressDisplay:
    """A bar in a terminal that shows no log, else lines."""
    has_bar = _is_terminal(console.err) and not console.is_verbose
    return _Bar(console.err) if has_bar else _Lines(console.err)


class _Words:
    """Words about the progress of a job, its worker processes and what its GPU waits for."""

    def __init__(self) -> None:
        self._seen: dict[int, WorkerProgress] = {}
        self._waits_for, self._waiting = "", 0.0

    def show_worker(self, event: WorkerProgress) -> None:
        self._seen[event.worker] = event

    def show_times(self, event: StagesTimed) -> None:
        self._waits_for, self._waiting = event.waits_for, event.waiting

    def clear(self) -> None:
        self._seen.clear()
        self._waits_for, self._waiting = "", 0.0

    def words(self, event: StageProgress) -> list[str]:
        """Progress of a stage, its speed, and each worker: "process 2 at frame 480, 1.5 fps"."""
        words = event.words
        for number, one in sorted(self._seen.items() if event.stage == "upscale" else ()):
            name = one_line(one.name) or f"process {number}"  # a GPU or a computer has a name
            words.append(f"{name} at frame {one.frame}, {one.frames_per_second:.1f} fps")
        if self._waits_for and event.stage == "upscale":
            waits_for = _WAITS_FOR[self._waits_for]
            words.append(f"the GPU waits for {waits_for} ({self._waiting:.0%} of the time)")
        return words


class _Lines(_Words):
    """A line when a stage is over and every ten seconds between."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._due = time.monotonic() + _LINE_EVERY_S
        self._over = ""

    def show(self, event: StageProgress) -> None:
        is_over = 0 < event.total <= event.done
        if event.stage not in ACTIVITIES or (is_over and self._over == event.stage):
            return
        if is_over or time.monotonic() >= self._due:
            self._over = event.stage if is_over else ""
            self._due = time.monotonic() + _LINE_EVERY_S
            self._stream.write(f"{ACTIVITIES[event.stage]}: {', '.join(self.words(event))}\n")
            self._stream.flush()

    def clear(self) -> None:
        super().clear()
        self._over = ""


class _Bar(_Words):
    """One bar of the rich library for the stage that runs; removed when it is over."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self._stream = stream
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""

    def show(self, event: StageProgress) -> None:
        if event.stage not in ACTIVITIES:
            return
        if self._bar is None:
            self._start()
        if event.stage != self._stage:
            self._stage = event.stage
            self._bar.reset(self._task, description=ACTIVITIES[event.stage], detail="")
        self._bar.update(
            self._task,
            completed=event.done,
            total=event.total or None,
            detail="  ".join(self.words(event)),
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


# --- tasks


def progress_text(event: TaskProgress) -> str:
    """Progress of a task, in MB: "downloading x: 120 of 6780 MB (1 %), 23.4 MB/s, 4 min left"."""
    verb = _PHASES[event.phase]
    if (event.kind, event.phase) == (TaskKind.MODEL_FILE, "import"):
        verb = "copying"
    start = f"{verb} {_OBJECTS.get(event.kind, '{}').format(event.subject)}: "
    if not event.done and not event.total:
        return start + "waiting"
    digits = 0 if max(event.total, event.done) >= 10 else 1
    amount = f"{event.done:.{digits}f}"
    if event.total:
        share = f"{event.done / event.total:.0%}"
        amount += f" of {event.total:.{digits}f} MB ({share})"
    else:
        amount += " MB"
    parts = [amount]
    if event.per_second:
        parts.append(f"{event.per_second:.1f} MB/s")
    if event.seconds_left >= 1:
        parts.append(f"{duration_text(event.seconds_left)} left")
    return start + ", ".join(parts)


class TaskLine:
    """Progress of tasks: a line written over in a terminal, else one every ten seconds."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._is_terminal = _is_terminal(stream)
        self._width = 0
        self._due = time.monotonic() + _LINE_EVERY_S

    def show(self, event: TaskProgress) -> None:
        """Show how far a task is."""
        if self._is_terminal:
            self._write_over(one_line(progress_text(event)))
        elif time.monotonic() >= self._due:
            self._due = time.monotonic() + _LINE_EVERY_S
            self._stream.write(one_line(progress_text(event)) + "\n")
            self._stream.flush()

    def clear(self) -> None:
        """Make room for other text; whole lines stay."""
        if self._width:
            self._write_over("")
            self._stream.write("\r")

    def _write_over(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
