"""Is the window soon there, and ever stuck? A 10 ms timer next to a real job measures the gaps.

`python -m tools.figures.window BEGIN` opens the window in this process, without a screen, lets it
upscale the sample clip and writes figures as JSON; BEGIN is when it was started, in seconds.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tools.figures.calibration import INTERPRETER_S, interpreter_seconds
from tools.figures.child import Children, FigureFailed, report

if TYPE_CHECKING:
    from app.application import Program

_TURNS = 6
_TICK_MS = 10
_SPARE_MS = 500  # after the end of the job
_MS = 1000.0


def measure(children: Children) -> dict[str, float]:
    """Times on the reference machine; what the program itself causes is in all turns.

    Processor time is a median. What passes on the clock also holds what other programs did: the
    least of all turns counts, of the largest gap the second least.

    Raises:
        FigureFailed: A job did not end well.
    """
    turns = [_turn(children) for _ in range(1 + _TURNS)][1:]
    sorted_ = {name: sorted(turn[name] for turn in turns) for name in turns[0]}
    calibrations = sorted_["calibration"]
    usual = INTERPRETER_S / statistics.median(calibrations)
    best = INTERPRETER_S / calibrations[0]
    return {
        "window.first_paint": best * sorted_["first_paint"][0],
        "window.first_paint_cpu": usual * statistics.median(sorted_["first_paint_cpu"]),
        "window.loading_gap": best * sorted_["loading_gap"][0],
        "window.largest_gap": best * sorted_["largest_gap"][1],
    }


def _turn(children: Children) -> dict[str, float]:
    found = children.figures("-m", "tools.figures.window", str(time.time()))
    if not found.pop("finished"):
        raise FigureFailed("The window's job did not end well.")
    return found


@dataclass
class _Gaps:
    """Largest time between two ticks, in ms, with and without waiting for a free processor.

    Other programs let this thread wait; holding the interpreter's lock is our doing.
    """

    whole: float = 0.0
    own: float = 0.0

    def begin(self) -> None:
        """From here on."""
        self._last, self._waited = time.perf_counter(), _waited_s()

    def tick(self) -> None:
        """One tick of the timer."""
        now, waited = time.perf_counter(), _waited_s()
        gap = now - self._last
        self.whole = max(self.whole, _MS * gap)
        self.own = max(self.own, _MS * (gap - (waited - self._waited)))
        self._last, self._waited = now, waited


def _waited_s() -> float:
    """Seconds that this thread has waited for a processor so far; 0 where it is unknown."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text("ascii")
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9


def _child(begin: float) -> dict[str, float]:
    gc.disable()  # as main.py
    sys.excepthook = end_with_error
    from PySide6.QtCore import Qt, QTimer

    from app.application import Program, begin_work, make_application
    from app.start_options import no_options
    from engine.protocol import events

    app = make_application(["upreel"])
    program = Program(app)
    found: dict[str, float] = {"finished": 0.0}
    loading, running = _Gaps(), _Gaps()
    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(_TICK_MS)

    def painted() -> None:
        found["first_paint"] = time.time() - begin
        found["first_paint_cpu"] = time.process_time()
        loading.begin()
        timer.timeout.connect(loading.tick)
        timer.start()
        begin_work(program, no_options())

    def ready() -> None:
        timer.timeout.disconnect(loading.tick)
        running.begin()
        timer.timeout.connect(running.tick)
        begin_job(program)

    def ended(is_finished: bool) -> None:
        found["finished"] = float(is_finished)
        QTimer.singleShot(_SPARE_MS, app.quit)

    program.window.painted.connect(painted)
    program.bridge.subscribe(events.EngineReady, lambda _: ready())
    program.bridge.subscribe(events.JobFinished, lambda _: ended(True))
    program.bridge.subscribe(events.JobFailed, lambda _: ended(False))
    program.bridge.subscribe(events.JobRejected, lambda _: ended(False))
    program.window.show()
    app.exec()
    program.close()
    found["loading_gap"] = loading.whole
    found["largest_gap"] = running.own
    return found | {"calibration": interpreter_seconds()}


def end_with_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """For `sys.excepthook`: an exception in a slot would leave the event loop running for ever."""
    sys.__excepthook__(kind, error, trace)
    os._exit(1)


def begin_job(program: Program) -> None:
    """Add the sample clip, and start it."""
    from engine.core import paths

    program.controller.add_file(
        paths.resource("samples", "upreel_sample.mp4"),
        output=Path(tempfile.mkdtemp(dir=os.environ["XDG_VIDEOS_DIR"])),
        starts_at_once=True,
    )


if __name__ == "__main__":
    report(_child(float(sys.argv[1])))
