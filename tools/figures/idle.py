"""Costs of an idle window, and of a change of look, a change of language and a drop.

`python -m tools.figures.idle` opens the window in this process, without a screen, leaves it alone,
lets it upscale the sample clip, leaves it alone again, changes theme and language, drops fifty
videos, and writes figures as JSON.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tools.figures.child import Children, FigureFailed, report
from tools.figures.gaps import Gaps, ticking_timer
from tools.figures.window import begin_job, end_with_error

if TYPE_CHECKING:
    from app.application import Program

_REST_MS = 60_000  # after the start, before it counts as idle
_REST_AFTER_JOB_MS = 10_000
_WATCHED_MS = 20_000
_THEMES = ("light", "dark") * 4
_LANGUAGES = ("zh_CN", "en") * 4
_DROPPED = 50
_MIB = 2**20


def measure(children: Children) -> dict[str, float]:
    """Figures of one process.

    Raises:
        FigureFailed: The job did not end well.
    """
    children.run("-c", "import app.application, engine.pipeline.run")  # compiles them
    found = children.with_new_data().figures("-m", "tools.figures.idle")
    if not found.pop("finished"):
        raise FigureFailed("The window's job did not end well.")
    return {f"idle.{name}": value for name, value in found.items()}


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
    program.window.choices.more.unfold()
    found["theme"] = _change_ms(program.use_theme, _THEMES)
    found["language"] = _change_ms(program.use_language, _LANGUAGES)
    found["drop"] = _drop_ms(program)
    program.close()
    return found


def _change_ms(use: Callable[[str], None], names: tuple[str, ...]) -> float:
    """CPU time of this thread for one change, painting included, with every choice shown."""
    from PySide6.QtWidgets import QApplication

    found = []
    for name in names:
        QApplication.processEvents()
        begin = time.thread_time()
        use(name)
        QApplication.processEvents()
        found.append(1000 * (time.thread_time() - begin))
    return statistics.median(found)


def _drop_ms(program: Program) -> float:
    """Largest gap of the event loop from the drop of a folder until all its videos are planned."""
    from PySide6.QtCore import QEventLoop

    from engine.core import paths
    from engine.protocol import events

    folder = Path(tempfile.mkdtemp(dir=os.environ["XDG_VIDEOS_DIR"]))
    for number in range(_DROPPED):
        shutil.copy(paths.resource("samples", "upreel_sample.mp4"), folder / f"{number:02}.mp4")
    loop, gaps, timer = QEventLoop(), Gaps(), ticking_timer()
    planned = set[str]()

    def take(event: events.PlanChosen) -> None:
        planned.add(event.job_id)
        if len(planned) == _DROPPED:
            loop.quit()

    program.bridge.subscribe(events.PlanChosen, take)
    timer.timeout.connect(gaps.tick)
    gaps.begin()
    timer.start()
    program.controller.add_paths([folder])
    loop.exec()
    gaps.tick()
    return gaps.own


if __name__ == "__main__":
    report(_child())
