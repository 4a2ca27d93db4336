"""A screen of its own: Xvfb, a window manager, the accessibility bus, mouse and keyboard."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 120.0  # of a loaded machine; a journey that works never waits so long
JOB_S = 900.0  # for what a job makes: on a CPU it leaves the cores to all other programs
_POLL_S = 0.1
_SYSTEM_PYTHON = "/usr/bin/python3"  # Debian's, with Debian's python3-gi
_ACCESSIBILITY_BUS = Path("/usr/libexec/at-spi-bus-launcher")
_PROGRAMS = ("Xvfb", "openbox", "xdotool", "dbus-daemon", "ffmpeg", "ffprobe")


def missing() -> str:
    """What is not installed here; "" where journeys can run."""
    if sys.platform != "linux":
        return "journeys need Linux"
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if not _ACCESSIBILITY_BUS.exists():
        absent.append("at-spi2-core")
    words = (_SYSTEM_PYTHON, "-c", "import gi")
    if not Path(words[0]).exists() or subprocess.run(words, capture_output=True).returncode:
        absent.append("python3-gi")
    return f"not installed: {', '.join(absent)}" if absent else ""


def until(
    what: str,
    look: Callable[[], T | None],
    patience_s: float = PATIENCE_S,
    *,
    shown: object = "",
    poll_s: float = _POLL_S,
) -> T:
    """The first answer of `look` that is neither None nor False.

    Args:
        what: Is waited for, for the message.
        look: Called again and again.
        patience_s: How long.
        shown: What can be seen meanwhile, for the message; may be a function.
        poll_s: Between two looks; less for what is soon over.

    Raises:
        AssertionError: There was none in time; the message says what was waited for.
    """
    deadline = time.monotonic() + patience_s
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            state = shown() if callable(shown) else shown
            raise AssertionError(f"not within {patience_s:.0f} s: {what}\n{state}")
        time.sleep(poll_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One node of the accessibility tree; `box` is left, top, width, height in pixels."""

    role: str
    name: str
    description: str
    text: str
    box: tuple[int, int, int, int]
    states: frozenset[str]
    depth: int

    @property
    def middle(self) -> tuple[int, int]:
        """Where a user would click."""
        left, top, width, height = self.box
        return left + width // 2, top + height // 2


class Screen:
    """A running display; use as a context.

    Args:
        folder: For its logs and the home folder of programs on it.
        width: Of the screen, px.
        height: Of the screen, px.
    """

    def __init__(self, folder: Path, width: int = 1920, height: int = 1080) -> None:
        self.size = (width, height)
        self.folder = folder
        self.environment: dict[str, str] = {}
        self._ends = ExitStack()
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Screen:
        self.folder.mkdir(parents=True, exist_ok=True)
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700, exist_ok=True)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("UPREEL_")},
            **{"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "LANG": "C.UTF-8"},
            **{"QT_QPA_PLATFORM": "xcb", "QT_LINUX_ACCESSIBILITY_ALWAYS_ON": "1"},
        }
        try:
            self._begin()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _begin(self) -> None:
        width, height = self.size
        number = self._spoken(
            *("Xvfb", "-displayfd", "1", "-noreset", "-screen", "0", f"{width}x{height}x24")
        )
        self.environment["DISPLAY"] = f":{number}"
        bus = self._spoken("dbus-daemon", "--session", "--nofork", "--print-address=1")
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus
        self.start(str(_ACCESSIBILITY_BUS), "--launch-immediately")
        self.start("openbox", "--config-file", "/etc/xdg/openbox/rc.xml")
        self._reader = self.start(
            _SYSTEM_PYTHON,
            str(Path(__file__).with_name("accessibility_reader.py")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._listen, daemon=True).start()
        until("a window manager", lambda: self._desktop == "0")
        self._try_keys()

    def _try_keys(self) -> None:
        """Press keys of the window manager until it hears them.

        The first key of a new keyboard changes the key map. While the window manager reads that it
        hears none of its keys, and an Alt+F4 goes to the window instead.
        """
        for key, desktop in (("super+F2", "1"), ("super+F1", "0")):

            def is_there(key: str = key, desktop: str = desktop) -> bool:
                self.key(key)
                return self._desktop == desktop

            until(f"{key} is heard", is_there)

    @property
    def _desktop(self) -> str:
        """Number of the one that is shown; "" without a window manager."""
        return self._xdotool("get_desktop", is_checked=False).stdout.strip()

    def start(self, *words: str, **streams: object) -> subprocess.Popen[str]:
        """A process on this screen, ended with it; its errors go to a file in `folder`."""
        log = self._ends.enter_context((self.folder / f"{Path(words[0]).name}.log").open("a"))
        options = {"stdout": log, **streams}
        process = subprocess.Popen(
            words, env=self.environment, stderr=log, text=True, start_new_session=True, **options
        )
        self._ends.callback(_end, process)
        return process

    def _spoken(self, *words: str) -> str:
        """The first line that a service prints: where it can be reached."""
        process = self.start(*words, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, f"{words[0]} did not start: see {self.folder}"
        return line

    # What is shown

    def controls(self, process: int) -> list[Control]:
        """Everything that a process shows; empty while it shows nothing or does not answer."""
        assert self._reader.stdin is not None
        self._reader.stdin.write(f"{process}\n")
        self._reader.stdin.flush()
        try:
            nodes = json.loads(self._answers.get(timeout=PATIENCE_S))
        except queue.Empty:
            raise AssertionError("the accessibility bus does not answer") from None
        return [
            Control(**node | {"box": tuple(node["box"]), "states": frozenset(node["states"])})
            for node in nodes
        ]

    def _listen(self) -> None:
        for line in self._reader.stdout or ():
            self._answers.put(line)

    def picture(self, file: Path) -> Path:
        """Write what the screen shows as PNG."""
        size = f"{self.size[0]}x{self.size[1]}"
        words = ("-f", "x11grab", "-video_size", size, "-i", self.environment["DISPLAY"])
        subprocess.run(
            ("ffmpeg", "-v", "error", "-y", *words, "-frames:v", "1", file),
            check=True,
            env=self.environment,
        )
        return file

    # Mouse and keyboard

    def click(self, at: tuple[int, int], *, times: int = 1) -> None:
        """Click a point of the screen.

        Raises:
            AssertionError: It lies outside, where no user can click.
        """
        self._insist_inside(at)
        self._xdotool("mousemove", *at, "click", "--repeat", times, "--delay", 60, 1)

    def scroll(self, at: tuple[int, int], *, steps: int) -> None:
        """Turn the wheel of the mouse over a point, down; up where `steps` is negative."""
        self._insist_inside(at)
        wheel = ("--repeat", abs(steps), "--delay", 20, 5 if steps > 0 else 4)
        self._xdotool("mousemove", *at, "click", *wheel)

    def key(self, *keys: str) -> None:
        """Press keys or combinations ("ctrl+Return") one after the other."""
        self._xdotool("key", "--delay", 30, *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self._xdotool("type", "--delay", 20, text)

    def drop(
        self, files: Sequence[Path], at: tuple[int, int], *, action: str = "CopyAction"
    ) -> str:
        """Drag files from another program and drop them at a point.

        Args:
            files: Also folders.
            at: Where to release the mouse.
            action: What the other program proposes: CopyAction, or MoveAction as with Shift.

        Returns:
            The action that the target chose.
        """
        self._insist_inside(at)
        corner = (2, self.size[1] - 40)
        words = (
            sys.executable,
            "-m",
            "tests.trials.journeys.drag_source",
            *map(str, corner),
            action,
        )
        source = self.start(*words, *map(str, files), stdout=subprocess.PIPE)
        assert source.stdout is not None
        assert source.stdout.readline().strip() == "ready"
        self._xdotool("mousemove", corner[0] + 12, corner[1] + 12, "mousedown", 1)
        for step in range(1, 6):
            x, y = (round(a + (b - a) * step / 5) for a, b in zip(corner, at, strict=True))
            self._xdotool("mousemove", x, y)
        nudges = iter(range(1, 1000))

        def is_accepted() -> bool:
            self._xdotool("mousemove", at[0] + next(nudges) % 3, at[1])
            return lines[-1:] == ["accepted\n"]

        lines: list[str] = []
        listener = threading.Thread(target=_collect, args=(source.stdout, lines), daemon=True)
        listener.start()
        try:
            until("the window takes the files", is_accepted, 20)
        finally:
            self._xdotool("mouseup", 1)
        listener.join(PATIENCE_S)
        assert not listener.is_alive(), f"the drop did not end: {lines}"
        return lines[-1].strip()

    def _insist_inside(self, at: tuple[int, int]) -> None:
        is_inside = all(0 <= place < side for place, side in zip(at, self.size, strict=True))
        assert is_inside, f"{at} is outside the screen"

    def _xdotool(self, *words: object, is_checked: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ("xdotool", *map(str, words)),
            env=self.environment,
            check=is_checked,
            capture_output=True,
            text=True,
        )


def _collect(stream: Iterable[str], lines: list[str]) -> None:
    for line in stream:  # each at once, not all at the end
        lines.append(line)


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)  # also what it has started
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
