"""`python -m tests.trials.soak --minutes 120`: jobs without end in one program.

Writes docs/benchmarks/soak.md: what the process holds while it waits between two jobs.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from itertools import cycle
from pathlib import Path
from statistics import median

import psutil
import torch

from engine.api import Engine
from engine.hardware import devices
from engine.protocol import commands as c
from engine.protocol.events import JobFailed, JobFinished
from engine.settings.schema import JobSettings
from tests.helpers.jobs import ENDS, Listener, running_engine, settings_of
from tests.helpers.seedvr2 import make_three_shots

WARM_UP = 15  # jobs: the first ones fill what the program keeps for good
_SHOTS = (5, 3, 6)
_PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "soak.md"
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Held:
    """Resources held after a job: bytes, bytes of all live tensors, and counts."""

    rss: int
    tensors: int
    handles: int
    threads: int


def kinds_of_jobs(folder: Path) -> dict[str, JobSettings]:
    """Jobs of every kind, a second or two of work each."""
    short = {"codec": "ffv1", "segment_seconds": 0.5}
    return {
        "lite": settings_of("lite", folder, codec="h264"),
        "seedvr2": settings_of("seedvr2", folder, **short),
        "lite x4": JobSettings(model="lite", scale=4, codec="hevc", segment_seconds=0.5),
        "wan-2x": settings_of("wan-2x", folder, codec="h264"),
        "community": settings_of("community", folder, **short),
    }


def held() -> Held:
    """Resources that this process holds now."""
    gc.collect()
    tensors = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    dense = (each for each in tensors if each.layout == torch.strided)  # others: of other tests
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in dense}
    process = psutil.Process()
    handles = process.num_handles() if sys.platform == "win32" else process.num_fds()
    return Held(process.memory_info().rss, sum(sizes.values()), handles, process.num_threads())


def run_jobs(folder: Path, jobs: dict[str, JobSettings]) -> Iterator[Held]:
    """Run jobs of these kinds in turn without end: what is held after each.

    Raises:
        AssertionError: A job failed or lost a frame.
    """
    film = make_three_shots(folder / "film.mkv", _SHOTS, "64x48")
    with running_engine(folder / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        for number, (kind, settings) in enumerate(cycle(jobs.items())):
            output = folder / f"{number} {kind}.mkv"
            job = c.AddJob(job_id=f"j{number}", source=film, settings=settings, output=output)
            done = _ended(engine, heard, job)
            assert done.report.frames_out == sum(_SHOTS)
            output.unlink()
            engine.send(c.RemoveJob(job_id=job.job_id))  # kept: random weights make other pictures
            yield held()


def _ended(engine: Engine, heard: Listener, job: c.AddJob) -> JobFinished:
    engine.send(job)
    end = heard.wait(*ENDS, timeout_s=300)
    if isinstance(end, JobFailed):  # models of random numbers make pictures that look like nothing
        raise AssertionError(end.error)
    assert isinstance(end, JobFinished)
    heard.seen.clear()
    return end


def main() -> int:
    """Run for so long and write the page; the exit status is 1 when something grows."""
    parser = argparse.ArgumentParser(prog="python -m tests.trials.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    options = parser.parse_args()
    found: list[tuple[float, Held]] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = kinds_of_jobs(folder)
        for each in run_jobs(folder, jobs):
            found.append((time.monotonic() - begin, each))
            if len(found) % 50 == 0:
                print(f"{len(found)} jobs, {found[-1][0] / 60:.0f} min: {each}", flush=True)
            if found[-1][0] > 60 * options.minutes and len(found) % len(jobs) == 0:
                break
    parts = _parts(found)
    _PAGE.write_text(_page(parts), encoding="utf-8")
    return int(grows([each for _, each in found], len(jobs)))


def grows(found: list[Held], kinds: int) -> bool:
    """Whether the last third of the jobs left more than the first did, once the program is warm."""
    after = found[WARM_UP - 1 :]
    third = len(after) // 3
    early, late = after[:third], after[-third:]
    more = median(each.rss for each in late) - median(each.rss for each in early)
    # What each kind of job leaves is always the same.
    same = all(len({each.tensors for each in after[job::kinds]}) == 1 for job in range(kinds))
    handles = max(each.handles for each in late) > max(each.handles for each in early)
    threads = max(each.threads for each in late) > max(each.threads for each in early)
    return more > 5 * 10**6 or not same or handles or threads


def _parts(found: list[tuple[float, Held]]) -> list[tuple[int, float, list[Held]]]:
    """Eight parts of the run: jobs so far, minutes so far, and what was held in the part."""
    size = max(1, -(-len(found) // 8))
    parts: list[tuple[int, float, list[Held]]] = []
    for first in range(0, len(found), size):
        part = found[first : first + size]
        parts.append((first + len(part), part[-1][0] / 60, [each for _, each in part]))
    return parts


def _page(parts: list[tuple[int, float, list[Held]]]) -> str:
    lines = [
        "# Two hours of jobs",
        "",
        "This page is written by `python -m tests.trials.soak`: one process runs jobs of five",
        "kinds in turn (Lite; SeedVR2, Wan and Compact with tiny weights), each from file to",
        "verified file. The table shows the resources that the process holds between two jobs, as",
        "median and maximum of each part of the run.",
        "",
        f"{date.today().isoformat()}, {devices.cpu_name()}, {devices.cpu_threads()} threads, "
        f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}.",
        "",
        "| jobs | minutes | RSS, MiB | largest | tensors, KiB | handles | threads |",
        "| --: | --: | --: | --: | --: | --: | --: |",
    ]
    for jobs, minutes, part in parts:
        rss = [each.rss / _MIB for each in part]
        tensors = median(each.tensors for each in part) / 1024
        lines.append(
            f"| {jobs:,} | {minutes:.0f} | {median(rss):.1f} | {max(rss):.1f} | {tensors:.0f} "
            f"| {max(each.handles for each in part)} | {max(each.threads for each in part)} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
