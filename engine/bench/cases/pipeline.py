"""The whole program but its start: one job from file to verified file, in this process."""

from __future__ import annotations

from pathlib import Path

from engine.bench.report.machine import Row
from engine.bench.timing.one_job import run_once
from engine.bench.timing.stopwatch import ThreadTimes
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol.media import MediaInfo
from engine.settings.schema import EngineSettings, JobSettings


def run_pipeline(media: MediaInfo, settings: JobSettings, folder: Path) -> Row:
    """Run one job as the command line does, without pictures for a window.

    Returns:
        Frames a second and processor time a frame of everything, then of each step ("run_", "mux_",
        "verify_") and, within the run, of each kind of thread.
    """
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=folder)
    output = folder / "result.mp4"
    plan = make_plan(media, settings, output, machine)
    with ThreadTimes() as threads:
        ran = run_once(media, plan, folder)
    frames = ran.report.frames_out
    row: Row = {
        "dtype": ran.plan.work.dtype,
        "frames_per_second": frames / ran.wall_s,
        "cpu_ms_a_frame": 1000 * ran.cpu_s / frames,
    }
    row |= {f"{name}_cpu_ms": 1000 * step.cpu_s / frames for name, step in ran.steps.items()}
    row |= {f"{name}_wall_ms": 1000 * step.wall_s / frames for name, step in ran.steps.items()}
    row |= _by_thread(threads, frames)
    return row | {"verified": ran.report.passed}


def _by_thread(threads: ThreadTimes, frames: int) -> Row:
    names = {"MainThread": "device", "read": "read", "write": "write", "native": "codecs and torch"}
    return {
        f"thread {title} ms": 1000 * threads.seconds.get(name, 0.0) / frames
        for name, title in names.items()
    }
