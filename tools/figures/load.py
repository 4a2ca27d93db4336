"""Costs of a long queue and of a long job: two hundred videos, and an hour of the engine's events.

`python -m tools.figures.load queue` opens the window in this process, without a screen, drops two
hundred videos of which one takes three hours, selects some of them and writes figures as JSON;
`python -m tools.figures.load hour` gives it the events of an hour in a few minutes.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tools.figures.child import Children, report
from tools.figures.gaps import Gaps, ticking_timer
from tools.figures.window import end_with_error

if TYPE_CHECKING:
    from app.application import Program
    from engine.protocol import commands, events
    from engine.protocol.plan import Plan

_VIDEOS, _LONG_S = 200, 3 * 3600
_SELECTED = 10  # one after the other, once all are planned
_WARM_S, _HOUR_S = 600, 3600  # s of events before memory is measured, and until it is again
_TILES = 4  # of a frame, one a second
_MIB = 2**20


def measure(children: Children) -> dict[str, float]:
    """Figures of two processes."""
    found = children.with_new_data().figures("-m", "tools.figures.load", "queue")
    found |= children.with_new_data().figures("-m", "tools.figures.load", "hour")
    return {f"load.{name}": value for name, value in found.items()}


def _opened() -> Program:
    gc.disable()  # as main.py
    sys.excepthook = end_with_error
    from app.application import Program, make_application

    program = Program(make_application(["upreel"]))
    program.window.show()
    return program


def _settle(milliseconds: int) -> None:
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


# --- two hundred videos


def _queue() -> dict[str, float]:
    from PySide6.QtCore import QEventLoop

    from app.application import begin_work
    from app.start_options import no_options
    from engine.core import paths
    from engine.protocol import events

    program, loop = _opened(), QEventLoop()
    folder = Path(tempfile.mkdtemp(dir=os.environ["XDG_VIDEOS_DIR"]))
    sample = paths.resource("samples", "upreel_sample.mp4")
    _write_long(sample, folder / "000.mp4")
    for number in range(1, _VIDEOS):
        shutil.copy(sample, folder / f"{number:03}.mp4")
    program.bridge.subscribe(events.EngineReady, lambda _: loop.quit())
    begin_work(program, no_options())
    loop.exec()
    planned = set[str]()

    def take(event: events.PlanChosen) -> None:
        planned.add(event.job_id)
        if len(planned) == _VIDEOS:
            loop.quit()

    program.bridge.subscribe(events.PlanChosen, take)
    gaps, timer = Gaps(), ticking_timer()
    timer.timeout.connect(gaps.tick)
    gaps.begin()
    timer.start()
    program.controller.add_paths([folder])
    loop.exec()
    added = gaps.own
    gaps.own = 0.0
    for row in program.queue.rows[:_SELECTED]:
        program.window.queue_column.view.select(row.job_id)
        _settle(300)
    timer.stop()
    program.close()
    return {"add_gap": added, "select_gap": gaps.own}


def _write_long(sample: Path, to: Path) -> None:
    """The frames of a clip again and again, without its sound, until the video is long enough."""
    import av

    with av.open(str(sample)) as source, av.open(str(to), "w") as made:
        stream = source.streams.video[0]
        packets = [packet for packet in source.demux(stream) if packet.dts is not None]
        out = made.add_stream_from_template(stream)
        length = sum(packet.duration or 0 for packet in packets)
        whole = [(packet.pts or 0, packet.dts or 0) for packet in packets]
        for turn in range(round(_LONG_S / float(length * Fraction(stream.time_base or 1)))):
            for packet, (pts, dts) in zip(packets, whole, strict=True):
                packet.stream = out
                packet.pts, packet.dts = pts + turn * length, dts + turn * length
                made.mux(packet)


# --- an hour of events


class _Silent:
    """An engine that answers nothing; its events are said by the measurement."""

    def start(self) -> None: ...

    def send(self, command: commands.Command) -> None: ...

    def close(self, timeout_s: float = 0.0) -> None: ...


def _hour() -> dict[str, float]:
    from PySide6.QtWidgets import QApplication

    from engine.api import plan, probe
    from engine.core import paths
    from engine.protocol import events
    from engine.settings.schema import JobSettings

    program, settings = _opened(), JobSettings(model="lite")
    program.attach(_Silent())  # type: ignore[arg-type]  # all of Engine that the window calls here
    sample = paths.resource("samples", "upreel_sample.mp4")
    media, made = probe(sample), plan(sample, settings)
    program.queue.add("a", sample, settings)
    video = replace(media.video, frame_count=24 * _LONG_S, duration=Fraction(_LONG_S))
    for event in (
        events.JobQueued(job_id="a", media=replace(media, video=video)),
        events.PlanChosen(job_id="a", plan=made),
        events.JobStarted(job_id="a", total=24 * _LONG_S),
        events.StageStarted(job_id="a", stage="run"),
    ):
        program.bridge.emit(event)
    process, before = psutil.Process(), 0
    for second in range(_WARM_S + _HOUR_S):
        if second == _WARM_S:
            gc.collect()
            before = process.memory_info().rss
        for event in _second(second, made):
            program.bridge.emit(event)
        while program.bridge.drain():
            pass
        QApplication.processEvents()
        if second % 60 == 0:
            gc.collect()  # as often as the interpreter does by itself at this rate
    gc.collect()
    return {"hour": (process.memory_info().rss - before) / _MIB}


def _second(second: int, plan: Plan) -> Iterator[events.Event]:
    """Events of one second of a job: four frames a second, in tiles that can be seen."""
    from engine.core.geometry import Box
    from engine.protocol import events

    size, rgb = plan.picture.size, bytes([second % 256]) * (plan.picture.size.pixels // _TILES * 3)
    yield events.Telemetry(
        gpu=None, ram_total_mb=24_000, ram_ours_mb=900, ram_others_mb=3000, cpu_percent=99.0
    )
    high = size.height // _TILES
    for tile in range(_TILES):
        box = Box(0, tile * high, size.width, high)
        picture = events.Picture(size=box.size, rgb=rgb)
        yield events.TileDone(
            job_id="a",
            frame=4 * second,
            tile=tile,
            tiles=_TILES,
            box=box,
            canvas=size,
            picture=picture,
        )
        yield events.StageProgress(
            job_id="a",
            stage="write",
            done=4 * second + tile,
            total=24 * _LONG_S,
            frames_per_second=4.0,
            seconds_left=24 * _LONG_S / 4 - second,
        )
    times = {stage.stage: float(second) for stage in plan.stages}
    yield events.StagesTimed(job_id="a", seconds=times)
    if second % 5 == 4:
        yield events.SegmentDone(
            job_id="a",
            segment=second // 5,
            bytes=300_000,
            frames_done=4 * second,
            frames_total=24 * _LONG_S,
        )


if __name__ == "__main__":
    report({"queue": _queue, "hour": _hour}[sys.argv[1]]())
