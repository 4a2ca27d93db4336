"""Does playback keep up? Plays a 1080p pair at 24 frames/s on the stage, without a screen.

    python -m tools.playback_benchmark [--seconds N] [--height PX]

Writes JSON: frames shown and dropped, CPU seconds for a second of video, the largest gap
between two ticks of a 10 ms timer in the window's thread, in ms. Other programs on the machine
change all but the CPU time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tools.figures.child import report


def measure(seconds: float, height: int) -> dict[str, float]:
    """Play two videos of a size for some seconds.

    Args:
        seconds: Length of the videos.
        height: Height of both videos, px; the stage shows them at most 960x540 large.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtCore import Qt, QTimer
    from PySide6.QtGui import QImage

    from app.application import make_application
    from app.preview.compare_canvas import CompareCanvas
    from app.preview.player import Frame, Player
    from app.preview.scene import Mode
    from engine.bench.jobs import RATE, make_clip
    from engine.core.geometry import Size
    from engine.jobs.playback import PlayedFrame
    from engine.video.read.frame_reader import FrameReader
    from engine.video.read.probe import probe

    app = make_application(["upreel"])
    canvas, player = CompareCanvas(), Player()
    canvas.resize(960, 540)
    canvas.show()
    canvas.set_mode(Mode.SPLIT)
    player.shown.connect(
        lambda _seconds, images: canvas.set_pictures(
            *(images.get(name, QImage()) for name in ("first", "second"))  # one may end first
        )
    )
    ticks: list[float] = []
    timer = QTimer()
    timer.setTimerType(Qt.TimerType.PreciseTimer)
    timer.setInterval(10)
    timer.timeout.connect(lambda: ticks.append(time.perf_counter()))
    player.ended.connect(app.quit)
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        make_clip(film, Size(height * 16 // 9, height), round(seconds * RATE))

        media = probe(film)

        def frames(_start_s: float) -> Iterator[Frame]:
            base = media.video.time_base
            with FrameReader(media) as reader:
                for frame in reader:
                    yield PlayedFrame(float(frame.pts * base - media.start), frame, media.video)

        begin, cpu = time.perf_counter(), time.process_time()
        timer.start()
        player.play({"first": frames, "second": frames}, 0.0, 1.0, Size(960, 540))
        app.exec()
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    due = player.counts.shown + player.counts.dropped
    gaps = [after - before for before, after in pairwise(ticks)]
    return {
        "shown": player.counts.shown,
        "dropped": player.counts.dropped,
        "dropped_percent": 100 * player.counts.dropped / max(1, due),
        "wall_s": wall,
        "cpu_s_per_s": cpu / seconds,
        "largest_gap_ms": 1000 * max(gaps, default=0.0),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.playback_benchmark")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of both films")
    parser.add_argument("--height", type=int, default=1080, help="px")
    options = parser.parse_args(sys.argv[1:])
    report(measure(options.seconds, options.height))


if __name__ == "__main__":
    main()
