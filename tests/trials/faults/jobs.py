"""Small jobs of the command line, each in a forked process: 0.4 s instead of 2."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av

from engine.cli.main import main
from tests.helpers.clips import make_clip
from tests.trials.faults.group import HANG_S
from tests.trials.faults.outcomes import CRASH, HANG, INTERNAL, OK, REFUSED, Outcome, last_lines

WORDS = ("--model", "none", "--set", "segment_seconds=0.5")
_NOT_PROVED = "FAILED checks: "
_NOTHING_LEFT = "No unfinished jobs"


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished run.

    Attributes:
        status: Exit status; below 0 the signal that ended it; None for a hang.
        text: Of both its outputs.
        seconds: That it took.
        log: The program's own.
    """

    status: int | None
    text: str
    seconds: float
    log: str = ""

    @property
    def outcome(self) -> Outcome:
        """How it ended, by itself."""
        if self.status is None:
            return Outcome(HANG, "", last_lines(self.text))
        if self.status < 0:
            return Outcome(CRASH, signal.Signals(-self.status).name, last_lines(self.text))
        if self.status == 0:
            return Outcome(OK)
        code = re.search(r"^error\[([a-z-]+)\]: (.*)", self.text, re.MULTILINE)
        if code is None and _NOT_PROVED in self.text:
            return Outcome(REFUSED, "not-proved", self.text.partition(_NOT_PROVED)[2][:200])
        if code is None or code[1] == "internal-error":
            return Outcome(INTERNAL, "", _place_in(self.log) or last_lines(self.text))
        return Outcome(REFUSED, code[1], code[2])

    @property
    def nothing_left(self) -> bool:
        """True when there was nothing to resume."""
        return self.status == 0 and _NOTHING_LEFT in self.text


class Place:
    """Folder of one job: its source, its result, and the program's own folders.

    Attributes:
        data: Folder of the program's jobs and logs; a cache is kept for all cases.
    """

    def __init__(self, folder: Path, film: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.source = folder / f"film{film.suffix}"
        self.result = folder / "out" / f"result{film.suffix}"
        self.data = folder / "data"
        self.result.parent.mkdir(parents=True)
        shutil.copy2(film, self.source)
        self._before = (film.read_bytes(), self.source.stat().st_mtime_ns)

    @property
    def is_changed(self) -> bool:
        """True when the source is not what it was."""
        try:
            found = (self.source.read_bytes(), self.source.stat().st_mtime_ns)
        except OSError:
            return True
        return found != self._before

    def upscale(self, **how: object) -> Ended:
        """Begin the job."""
        return self._run(("upscale", str(self.source), "-o", str(self.result), *WORDS), **how)

    def resume(self, **how: object) -> Ended:
        """Go on with it."""
        return self._run(("resume", "--all"), **how)

    def _run(
        self,
        words: tuple[str, ...],
        *,
        before: Callable[[], None] = lambda: None,
        after: Callable[[], None] = lambda: None,
        kill: tuple[int, float] | None = None,
    ) -> Ended:
        """Run a command; `before` and `after` in its process, `kill` a signal and when, s."""
        log = self.folder / "log"
        begin = time.monotonic()
        process = os.fork()
        if process == 0:
            os._exit(self._command(words, log, before, after))
        if kill is not None:
            time.sleep(kill[1])
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, kill[0])
        status = _waited(process)
        seconds = time.monotonic() - begin
        return Ended(status, _text(log), seconds, _text(self.data / "logs" / "upreel.log"))

    def _command(
        self,
        words: tuple[str, ...],
        log: Path,
        before: Callable[[], None],
        after: Callable[[], None],
    ) -> int:
        try:
            os.environ["UPREEL_DATA"] = str(self.data)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(to, 1), os.dup2(to, 2)
            before()
            status = main(words)
            after()
        except KeyboardInterrupt as err:
            frames = traceback.extract_tb(err.__traceback__)
            if not any("/engine/" in frame.filename for frame in frames):
                return 130  # the program had not begun
            traceback.print_exc()
            return 99
        except BaseException:  # of a forked process nothing may go up
            traceback.print_exc()
            return 99
        return status


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.is_file() else ""


def _place_in(log: str) -> str:
    """The last exception of a log and where in the engine it came up."""
    places = re.findall(r'File ".*/(engine/.*)", line (\d+)', log)
    errors = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception)\b.*)", log, re.MULTILINE)
    return f"{errors[-1][:120]} at {places[-1][0]}:{places[-1][1]}" if places and errors else ""


def _waited(process: int) -> int | None:
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def load_modules(place: Place) -> Ended:
    """Run a job and import here what it imported: a fork of this process begins at once."""
    names = place.folder / "modules"
    ended = place.upscale(after=lambda: names.write_text("\n".join(sys.modules)))
    for name in names.read_text().split() if names.is_file() else ():
        if name.startswith("engine."):
            importlib.import_module(name)
    return ended


def packets_of(path: Path) -> tuple[tuple[object, ...], ...]:
    """Every packet of a film: stream, times, flags and a checksum of its content."""
    with av.open(f"file:{path}") as film:
        return tuple(
            (p.stream.index, p.pts, p.dts, p.duration, p.is_keyframe, zlib.crc32(bytes(p)))
            for p in film.demux()
            if p.size
        )


def make_film(folder: Path) -> Path:
    """A film of 50 frames with sound: four segments."""
    return make_clip(folder / "film.mp4", frames=50, size=(64, 48), audio_tracks=1, gop=10)
