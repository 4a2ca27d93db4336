"""Is the window soon there, and ever stuck? A 10 ms timer next to a real job measures the gaps.

`python -m tools.figures.window BEGIN VIDEO` opens the window in this process, without a screen,
drops a video to see its first look, lets the sample clip be upscaled and writes figures as JSON;
BEGIN is when it was started, in seconds.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tools.figures.child import Children, FigureFailed, report
from tools.figures.gaps import Gaps, ticking_timer

if TYPE_CHECKING:
    from app.application import Program

_SPARE_MS = 500  # after the end of the job
_CLIP = """
import sys; from pathlib import Path
from engine.bench.jobs import make_clip
from engine.core.geometry import Size
make_clip(Path(sys.argv[1]), Size(1280, 720), 25)
"""


def measure(children: Children) -> dict[str, float]:
    """Times of one start and one job.

    Raises:
        FigureFailed: The job did not end well.
    """
    video = children.folder / "look.mp4"
    if not video.is_file():
        children.run("-c", _CLIP, str(video))
    found = children.with_new_data().figures(
        "-m", "tools.figures.window", str(time.time()), str(video)
    )
    if not found.pop("finished"):
        raise FigureFailed("The window's job did not end well.")
    return {f"window.{name}": value for name, value in found.items()}


def _child(begin: float, video: Path) -> dict[str, float]:
    gc.disable()  # as main.py
    sys.excepthook = end_with_error
    from PySide6.QtCore import QTimer

    from app.application import Program, begin_work, make_application
    from app.start_options import no_options
    from engine.protocol import commands, events

    app = make_application(["upreel"])
    program = Program(app)
    found: dict[str, float] = {"finished": 0.0}
    dropped: list[float] = []
    loading, running = Gaps(), Gaps()
    timer = ticking_timer()

    def painted() -> None:
        found["first_paint"] = time.time() - begin
        found["first_paint_cpu"] = time.process_time()
        loading.begin()
        timer.timeout.connect(loading.tick)
        timer.start()
        begin_work(program, no_options())

    def ready() -> None:
        timer.timeout.disconnect(loading.tick)
        if not hasattr(commands, "MakeLook"):  # an earlier commit
            begin_measured_job()
            return
        dropped.extend((time.perf_counter(), time.process_time()))
        program.controller.add_paths([video])

    def looked(event: events.PreviewReady) -> None:
        if event.result is None or not dropped or "first_look" in found:
            return
        found["first_look"] = time.perf_counter() - dropped[0]
        found["first_look_cpu"] = time.process_time() - dropped[1]
        begin_measured_job()

    def begin_measured_job() -> None:
        running.begin()
        timer.timeout.connect(running.tick)
        begin_job(program)

    def ended(is_finished: bool) -> None:
        found["finished"] = float(is_finished)
        QTimer.singleShot(_SPARE_MS, app.quit)

    program.window.painted.connect(painted)
    program.bridge.subscribe(events.EngineReady, lambda _: ready())
    program.bridge.subscribe(events.PreviewReady, looked)
    program.bridge.subscribe(events.JobFinished, lambda _: ended(True))
    program.bridge.subscribe(events.JobFailed, lambda _: ended(False))
    program.bridge.subscribe(events.JobRejected, lambda _: ended(False))
    program.window.show()
    app.exec()
    program.close()
    found["loading_gap"] = loading.whole
    found["largest_gap"] = running.own
    return found


def end_with_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Hook for `sys.excepthook`: after an exception in a slot the event loop would run for ever."""
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
    report(_child(float(sys.argv[1]), Path(sys.argv[2])))
