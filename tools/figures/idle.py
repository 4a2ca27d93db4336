"""What the window takes of processor and main memory while nothing is done, and a change of theme.

`python -m tools.figures.idle` opens the window in this process, without a screen, leaves it alone,
lets it upscale the sample clip, leaves it alone again, and writes figures as JSON.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from typing import TYPE_CHECKING

import psutil

from tools.figures.calibration import INTERPRETER_S, interpreter_seconds
from tools.figures.child import Children, FigureFailed, report
from tools.figures.window import begin_job, end_with_error

if TYPE_CHECKING:
    from app.application import Program

_REST_MS = 60_000  # after the start, before it counts as idle
_REST_AFTER_JOB_MS = 10_000
_WATCHED_MS = 20_000
_THEMES = ("light", "dark") * 4
_MIB = 2**20


def measure(children: Children) -> dict[str, float]:
    """Of one process; seconds are those of the reference machine.

    Raises:
        FigureFailed: The job did not end well.
    """
    children.run("-c", "import app.application, engine.pipeline.run")  # compiles them
    found = children.figures("-m", "tools.figures.idle")
    if not found.pop("finished"):
        raise FigureFailed("The window's job did not end well.")
    speed = INTERPRETER_S / found.pop("calibration")
    ram = found.pop("ram")
    return {"idle.ram": ram} | {f"idle.{name}": speed * value for name, value in found.items()}


def _child() -> dict[str, float]:
    gc.disable()  # as main.py
    sys.excepthook = end_with_error
    from PySide6.QtCore import QEventLoop, QTimer

    from app.application import Program, begin_work, make_application
    from app.start_options import no_options
    from engine.protocol import events

    app = make_application(["upreel"])
    program = Program(app)
    loop = QEventLoop()
    found: dict[str, float] = {}

    def pause(milliseconds: int) -> None:
        QTimer.singleShot(milliseconds, loop.quit)
        loop.exec()

    def share(milliseconds: int) -> float:
        """Percentage of a core that all threads take while nothing is done."""
        begin, cpu = time.perf_counter(), time.process_time()
        pause(milliseconds)
        return 100 * (time.process_time() - cpu) / (time.perf_counter() - begin)

    def ended(is_finished: bool) -> None:
        found["finished"] = float(is_finished)
        loop.quit()

    program.window.painted.connect(lambda: begin_work(program, no_options()))
    program.bridge.subscribe(events.EngineReady, lambda _: loop.quit())
    program.bridge.subscribe(events.JobFinished, lambda _: ended(True))
    program.bridge.subscribe(events.JobFailed, lambda _: ended(False))
    program.bridge.subscribe(events.JobRejected, lambda _: ended(False))
    program.window.show()
    loop.exec()
    pause(_REST_MS)
    found["cpu"] = share(_WATCHED_MS)
    found["ram"] = psutil.Process().memory_info().rss / _MIB
    begin_job(program)
    loop.exec()
    pause(_REST_AFTER_JOB_MS)
    found["cpu_after_job"] = share(_WATCHED_MS)
    found["theme"] = _theme_ms(program)
    program.close()
    return found | {"calibration": interpreter_seconds()}


def _theme_ms(program: Program) -> float:
    """CPU time of this thread for a change of theme, painting included, with every choice shown."""
    from PySide6.QtWidgets import QApplication

    program.window.choices.more.unfold()
    found = []
    for theme in _THEMES:
        QApplication.processEvents()
        begin = time.thread_time()
        program.use_theme(theme)
        QApplication.processEvents()
        found.append(1000 * (time.thread_time() - begin))
    return statistics.median(found)


if __name__ == "__main__":
    report(_child())
