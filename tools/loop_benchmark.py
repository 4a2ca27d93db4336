"""Is the window ever stuck? A 10 ms timer beside a real job measures the gaps of the event loop.

    python -m tools.loop_benchmark [--runs 3]

Prints, for each run in a process of its own: time from the start of the process to the first paint,
the pause in which torch is loaded, and the largest gap of the event loop after that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TICK_MS = 10
LIMITS = {"first_paint_s": 1.0, "loading_gap_ms": 600.0, "largest_gap_ms": 100.0}


def main() -> int:
    """Run and print; 1 when a limit was passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--child", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        return _child(options.child)
    failed = False
    for run in range(options.runs):
        figures = _run_child()
        wrong = [name for name, limit in LIMITS.items() if figures[name] > limit]
        failed = failed or bool(wrong) or not figures["finished"]
        _say(f"run {run + 1}: {json.dumps(figures)}{'  LIMIT ' + str(wrong) if wrong else ''}")
    return 1 if failed else 0


def _run_child() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        places = {
            "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen"),
            "UPREEL_DATA": folder,
            "XDG_VIDEOS_DIR": folder,
        }
        begin = time.time()
        command = [sys.executable, "-m", "tools.loop_benchmark", "--child", str(begin)]
        done = subprocess.run(
            command, env={**os.environ, **places}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _child(begin: float) -> int:
    from PySide6.QtCore import Qt, QTimer

    from app.application import Program, begin_work, make_application, no_options
    from engine.protocol import events

    app = make_application(["upreel"])
    program = Program(app)
    figures: dict[str, float] = {"finished": 0.0}
    gaps: list[tuple[float, float]] = []  # (when it ended, length in ms)
    last = [time.perf_counter()]

    def tick() -> None:
        now = time.perf_counter()
        gaps.append((now, 1000 * (now - last[0])))
        last[0] = now

    def painted() -> None:
        figures["first_paint_s"] = round(time.time() - begin, 3)
        last[0] = time.perf_counter()
        timer.start()
        begin_work(program, no_options())

    def ready() -> None:
        figures["loading_gap_ms"] = round(max(length for _, length in gaps), 1)
        gaps.clear()
        program.controller.add_file(
            _sample(), output=Path(os.environ["UPREEL_DATA"]), starts_at_once=True
        )

    def ended(is_finished: bool) -> None:
        figures["finished"] = float(is_finished)
        QTimer.singleShot(500, app.quit)

    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(TICK_MS)
    timer.timeout.connect(tick)
    program.window.painted.connect(painted)
    program.bridge.subscribe(events.EngineReady, ready)
    program.bridge.subscribe(events.JobFinished, lambda _: ended(True))
    program.bridge.subscribe(events.JobFailed, lambda _: ended(False))
    program.bridge.subscribe(events.JobRejected, lambda _: ended(False))
    program.window.show()
    app.exec()
    program.close()
    lengths = sorted(length for _, length in gaps)
    figures["largest_gap_ms"] = round(lengths[-1], 1)
    figures["gap_99_percent_ms"] = round(lengths[int(0.99 * len(lengths))], 1)
    figures["gaps_over_50_ms"] = sum(length > 50 for length in lengths)
    figures["job_s"] = round(sum(lengths) / 1000, 1)
    _say(json.dumps(figures))
    return 0


def _sample() -> Path:
    from engine.core import paths

    return paths.resource("samples", "upreel_sample.mp4")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
