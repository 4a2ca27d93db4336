"""Does a packed program work? Opens the window, upscales the sample clip with Lite, and closes.

    upreel --smoke-test --out result.json

Runs in folders of its own and, by default without a display. Writes what it saw to
`result.json`, with pictures of the window, empty and finished, next to it. What PyInstaller forgets
shows here: a module, a library, a Qt plugin, a resource.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from app.application import Program
    from engine.protocol.report import Report

SAMPLE_FRAMES = 96
EXPECTED_SIZE = (640, 360)  # px, of the sample clip at twice its size
FEWEST_COLOURS = 64  # a window that did not paint has one
PAINT_LIMIT_S, LOAD_LIMIT_S, JOB_LIMIT_S, TELEMETRY_LIMIT_S = 60.0, 120.0, 240.0, 10.0
LIBRARIES = ("torch", "av", "numpy", "PySide6", "psutil", "pynvml")
RESOURCES = (
    ("icons", "upreel-128.png"),
    ("icons", "play.svg"),
    ("catalogue.toml",),
    ("runtime.toml",),
    ("update.toml",),
    ("i18n", "zh_CN.json"),
    ("manual", "en", "index.html"),
    ("manual", "zh_CN", "index.html"),
    ("messages", "en.toml"),
    ("messages", "zh_CN.toml"),
    ("samples", "upreel_sample.mp4"),
    *(
        ("weights", f"{model}_x{scale}_{treatment}.safetensors")
        for model in ("lite", "lite_plus")
        for scale in (2, 4)
        for treatment in ("faithful", "restore")
    ),
    ("licences", "GPL-3.0.txt"),
)


def main(arguments: Sequence[str]) -> int:
    """Parse `--out FILE` and run; the exit status."""
    parser = argparse.ArgumentParser(prog="upreel --smoke-test")
    parser.add_argument("--out", type=Path, required=True, help="file to write the result to")
    return run_smoke_test(parser.parse_args(arguments).out)


def run_smoke_test(out: Path) -> int:
    """Try everything that a packed program needs.

    Args:
        out: JSON file to write: "ok", "problems" (sentences) and what was seen and measured.

    Returns:
        0 when all is well, else 1.
    """
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    seen = Findings()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["UPREEL_DATA"] = str(Path(folder) / "data")
        os.environ["UPREEL_CACHE"] = str(Path(folder) / "cache")
        try:
            _try_program(seen, Path(folder), out)
        except Exception:  # noqa: BLE001 - whatever broke must be in the result: there is no console
            seen.problems.append(traceback.format_exc())
    facts = {"ok": not seen.problems, "problems": seen.problems, **seen.facts}
    out.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    return 1 if seen.problems else 0


class Findings:
    """Observations, and the faults among them."""

    def __init__(self) -> None:
        self.facts: dict[str, object] = {}
        self.problems: list[str] = []

    def note(self, name: str, value: object, is_right: bool = True) -> None:
        """Keep a fact; one that is not right is a problem."""
        self.facts[name] = value
        if not is_right:
            self.problems.append(f"{name} is {value}")


def _try_program(seen: Findings, folder: Path, out: Path) -> None:
    from app.application import Program, begin_work, make_application
    from app.start_options import no_options
    from engine.core.file_access import CALLER

    _look_at_resources(seen)
    app = make_application(["upreel"])
    program = Program(app)
    painted: list[float] = []
    program.window.painted.connect(lambda: painted.append(time.time()))
    program.window.show()
    _wait(lambda: bool(painted), PAINT_LIMIT_S)
    seen.note("first_paint_s", _since_start(painted), bool(painted))
    seen.note("loaded_before_paint", [n for n in ("torch", "av") if n in sys.modules])
    _load_engine(seen, program, lambda: begin_work(program, no_options()))
    _look_at_window(seen, "colours_empty", program, out.with_suffix(".empty.png"))
    _run_job(seen, program, folder / "upreel_sample_x2.mp4")
    _look_at_window(seen, "colours_finished", program, out.with_suffix(".finished.png"))
    _look_at_libraries(seen)
    _look_at_signatures(seen)
    _look_at_telemetry(seen, program)
    program.window.close()
    program.close()
    others = [t.name for t in threading.enumerate() if t.name not in ("MainThread", CALLER)]
    seen.note("threads_left", others, not others)


def _load_engine(seen: Findings, program: Program, begin: Callable[[], None]) -> None:
    from engine.protocol import events

    ready: list[float] = []
    program.bridge.subscribe(events.EngineReady, lambda event: ready.append(event.seconds))
    begin()
    _wait(lambda: bool(ready), LOAD_LIMIT_S)
    seen.note("load_s", round(ready[0], 2) if ready else None, bool(ready))


def _look_at_signatures(seen: Findings) -> None:
    """RFC 8032, section 7.1, test 1: updates are believed only with such a signature."""
    from engine.api import is_signed

    key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signature = (
        "5VZDAMNgrHKQhuLMgG6CioSHfx645dl02HPgZSJJAVVfuIIVkKM7rMYeOXAc+bRr0lv18FlbviRlUUFDjnoQCw=="
    )
    is_right = is_signed(b"", signature, [key])
    seen.note("signature", is_right, is_right)


def _look_at_resources(seen: Findings) -> None:
    from engine.core import paths

    missing = ["/".join(parts) for parts in RESOURCES if not paths.resource(*parts).is_file()]
    seen.note("frozen", bool(getattr(sys, "frozen", False)))
    seen.note("missing_resources", missing, not missing)


def _since_start(times: list[float]) -> float | None:
    """Seconds from the start of this process to the first of these times."""
    return round(_age() - (time.time() - times[0]), 2) if times else None


def _age() -> float:
    """Seconds since this process was started."""
    if sys.platform == "linux":  # psutil adds the time of the boot, known in whole seconds alone
        ticks = int(Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    import psutil

    started: float = psutil.Process().create_time()
    return time.time() - started


def _wait(condition: Callable[[], bool], limit_s: float) -> bool:
    """Let Qt work until the condition holds; False when the time is over."""
    from PySide6.QtCore import QEventLoop, QTimer

    loop, timer, end = QEventLoop(), QTimer(), time.monotonic() + limit_s
    timer.timeout.connect(lambda: loop.quit() if condition() or time.monotonic() > end else None)
    timer.start(20)
    loop.exec()
    return condition()


def _look_at_window(seen: Findings, name: str, program: Program, picture: Path) -> None:
    image = program.window.grab().toImage()
    image.save(str(picture))
    colours = count_colours(image)
    seen.note(name, colours, colours >= FEWEST_COLOURS)
    seen.note("icon_is_there", not program.window.windowIcon().isNull())


def count_colours(image: QImage, step: int = 3) -> int:
    """Number of different colours among every `step`th pixel, each way."""
    return len(
        {
            image.pixel(x, y)
            for y in range(0, image.height(), step)
            for x in range(0, image.width(), step)
        }
    )


def _run_job(seen: Findings, program: Program, output: Path) -> None:
    from engine.core import paths
    from engine.protocol import events
    from engine.settings.schema import JobSettings

    bridge = program.bridge
    reports: list[Report] = []
    failures: list[str] = []
    tiles: list[int] = []

    def failed(event: events.JobFailed | events.JobRejected) -> None:
        failures.append(f"{event.error.code}: {event.error.message}")

    bridge.subscribe(events.JobFinished, lambda event: reports.append(event.report))
    bridge.subscribe(events.JobFailed, failed)
    bridge.subscribe(events.JobRejected, failed)
    bridge.subscribe(events.TileDone, lambda event: tiles.append(event.frame))
    started = time.monotonic()
    sample = paths.resource("samples", "upreel_sample.mp4")
    lite = JobSettings(model="lite")
    program.controller.add_file(sample, settings=lite, output=output, starts_at_once=True)
    _wait(lambda: bool(reports or failures), JOB_LIMIT_S)
    seen.note("job_s", round(time.monotonic() - started, 1))
    seen.note("job_failures", failures, not failures)
    seen.note("job_finished", bool(reports), bool(reports))
    seen.note("tile_events", len(tiles), bool(tiles))
    if reports:
        _look_at_report(seen, reports[0])


def _look_at_report(seen: Findings, report: Report) -> None:
    from engine.api import probe

    video = probe(report.output).video
    size = (video.size.width, video.size.height) if video is not None else None
    seen.note("output_bytes", report.output.stat().st_size)
    seen.note("output_size", size, size == EXPECTED_SIZE)
    seen.note("output_frames", report.frames_out, report.frames_out == SAMPLE_FRAMES)
    seen.note("failed_checks", [str(check.message) for check in report.problems], report.passed)


def _look_at_libraries(seen: Findings) -> None:
    versions = {
        name: str(getattr(sys.modules[name], "__version__", "loaded"))
        for name in LIBRARIES
        if name in sys.modules
    }
    missing = [name for name in LIBRARIES if name not in versions]
    seen.note("libraries", versions)
    seen.note("libraries_not_loaded", missing, not missing)


def _look_at_telemetry(seen: Findings, program: Program) -> None:
    """A reading comes also where there is no NVIDIA GPU; its `gpu` is None then."""
    from engine.protocol.events import Telemetry

    readings: list[Telemetry] = []
    program.bridge.subscribe(Telemetry, readings.append)
    _wait(lambda: bool(readings), TELEMETRY_LIMIT_S)
    seen.note("telemetry_came", bool(readings), bool(readings))
    gpu = readings[0].gpu if readings else None
    seen.note("nvidia_card", gpu.name if gpu is not None else None)
