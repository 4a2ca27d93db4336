"""Accuracy of predicted times: `python -m tools.reports.prediction`.

Runs the speed test, then ten jobs that differ in size, model and codec, and compares the CPU
time that was predicted for each with what it took. Models have random weights; of SeedVR2 the
widths are smaller than published, so that it ends.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from engine.bench import calibration as calibrate
from engine.bench.jobs import make_clip, run_once
from engine.bench.video_costs import plan_on_cpu
from engine.bench.workload import write_seedvr2, write_wan
from engine.core.geometry import Size
from engine.hardware import devices
from engine.planner import times
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe

_MOST_ERROR = 0.25  # median, of the CPU time
Made = Callable[[Path], JobSettings]  # settings, with the model's files in a folder


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the comparison."""

    title: str
    size: Size
    frames: int
    settings: Made
    suffix: str = "mkv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Predicted and measured seconds of a job."""

    title: str
    cpu: float
    cpu_predicted: float
    wall: float
    wall_predicted: float

    @property
    def error(self) -> float:
        """Error of the predicted CPU time, as a share of the measured one."""
        return self.cpu_predicted / self.cpu - 1


_LITE = JobSettings(model="lite", treatment="faithful", scale=2)
_NONE = JobSettings(model="none")


def _with(settings: JobSettings) -> Made:
    return lambda folder: settings


JOBS = (
    Job("Lite x2, H.264", Size(480, 270), 96, _with(_LITE)),
    Job("Lite x4, HEVC", Size(320, 180), 48, _with(replace(_LITE, scale=4, codec="hevc"))),
    Job("Lite x2, FFV1", Size(640, 360), 30, _with(replace(_LITE, codec="ffv1"))),
    Job("Lite x2, ProRes", Size(384, 216), 60, _with(replace(_LITE, codec="prores")), "mov"),
    Job("Lite x2 to 720 lines, H.264", Size(852, 480), 24, _with(replace(_LITE, height=720))),
    Job("Lite x4 in tiles, AV1", Size(960, 540), 4, _with(replace(_LITE, scale=4, codec="av1"))),
    Job("no model, HEVC", Size(1280, 720), 48, _with(replace(_NONE, codec="hevc"))),
    Job("no model to 1080 lines, H.264", Size(640, 360), 48, _with(replace(_NONE, height=1080))),
    Job("Wan 2x, H.264", Size(160, 96), 13, partial(write_wan, codec="h264")),
    Job("SeedVR2, half as wide, H.264", Size(96, 64), 9, partial(write_seedvr2, codec="h264")),
)


def compare(jobs: tuple[Job, ...], rates: Rates) -> Iterator[Line]:
    """Predict and run jobs, one after the other."""
    for job in jobs:
        with tempfile.TemporaryDirectory(prefix="upreel-jobs-") as name:
            yield _line(job, rates, Path(name))


def median_error(lines: list[Line]) -> float:
    """Median error of predicted CPU times, as a share."""
    return statistics.median(abs(line.error) for line in lines)


def _line(job: Job, rates: Rates, folder: Path) -> Line:
    media = _film(job, folder)
    plan = plan_on_cpu(media, job.settings(folder), folder / f"result.{job.suffix}", rates)
    plan = replace(plan, notices=())
    ran = run_once(media, plan, folder)
    return Line(
        title=job.title,
        cpu=ran.cpu_s,
        cpu_predicted=times.cpu_seconds(plan, rates),
        wall=ran.wall_s,
        wall_predicted=plan.seconds,
    )


def _film(job: Job, folder: Path) -> MediaInfo:
    path = folder / "film.mp4"
    make_clip(path, job.size, job.frames)
    return probe(path)


def _table(lines: list[Line]) -> Iterator[str]:
    yield "| job | CPU s, predicted | CPU s | error | s, predicted | s |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        cpu = f"{line.cpu_predicted:.1f} | {line.cpu:.1f} | {line.error:+.0%}"
        yield f"| {line.title} | {cpu} | {line.wall_predicted:.1f} | {line.wall:.1f} |"
    yield ""
    yield f"Median error of the processor time: {median_error(lines):.0%}."


def main() -> int:
    """Write the table; 1 when the median error is above a quarter."""
    torch.set_num_threads(devices.cpu_threads())
    _say("speed test")
    rates, lines = calibrate.calibrate(), []
    for line in compare(JOBS, rates):
        _say(f"{line.title}: {line.error:+.0%}")
        lines.append(line)
    machine = f"{devices.cpu_name()}, {devices.cpu_threads()} threads, torch {torch.__version__}"
    sys.stdout.write("\n".join([machine, "", *_table(lines), ""]))
    return 0 if median_error(lines) <= _MOST_ERROR else 1


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
