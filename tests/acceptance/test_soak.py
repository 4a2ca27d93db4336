"""Fifty jobs in a row in one program: memory afterwards is memory before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import psutil
import pytest
import torch

from engine.api import Engine
from engine.protocol import commands as c
from engine.protocol.events import JobFailed, JobFinished
from engine.settings.schema import JobSettings
from tests.helpers.jobs import ENDS, Listener, running_engine
from tests.helpers.program import NEEDS_FFMPEG
from tests.helpers.seedvr2 import make_three_shots, write_seedvr2
from tests.helpers.wan import tiny_wan_config, write_wan

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]

SHOTS = (5, 3, 6)
JOBS, WARM_UP = 50, 12  # the first ones fill what the program keeps for good
ALLOWED = 20 * 10**6  # bytes


def kinds(folder: Path) -> dict[str, JobSettings]:
    """Jobs of every kind, a second or two of work each."""
    vae = folder / "tiny_2x.safetensors"
    write_wan(vae, tiny_wan_config("2x", dim=4, dec_dim=4))
    seedvr2 = write_seedvr2(folder / "models")
    return {
        "lite": JobSettings(model="lite", treatment="faithful", codec="h264"),
        "seedvr2": seedvr2.settings(codec="ffv1", scale=1, segment_seconds=0.5),
        "lite x4": JobSettings(model="lite", scale=4, codec="hevc", segment_seconds=0.5),
        "wan-2x": JobSettings(model="wan-2x", vae=str(vae), codec="h264"),
    }


def held() -> tuple[int, int]:
    """Bytes of the process, and of all tensors that live."""
    gc.collect()
    tensors = (each for each in gc.get_objects() if issubclass(type(each), torch.Tensor))
    dense = (each for each in tensors if each.layout == torch.strided)  # others: of other tests
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in dense}
    return psutil.Process().memory_info().rss, sum(sizes.values())


def ended(engine: Engine, heard: Listener, job: c.AddJob) -> JobFinished:
    engine.send(job)
    end = heard.wait(*ENDS, timeout_s=300)
    if isinstance(end, JobFailed):  # models of random numbers make pictures that look like nothing
        raise AssertionError(end.error)
    assert isinstance(end, JobFinished)
    heard.seen.clear()
    return end


def run_all(folder: Path, jobs: dict[str, JobSettings]) -> Iterator[tuple[int, int]]:
    """What is held after each job."""
    film = make_three_shots(folder / "film.mkv", SHOTS, "64x48")
    with running_engine(folder / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        for number, (kind, settings) in enumerate(islice(cycle(jobs.items()), JOBS)):
            output = folder / f"{number} {kind}.mkv"
            job = c.AddJob(job_id=f"j{number}", source=film, settings=settings, output=output)
            done = ended(engine, heard, job)
            assert done.report.frames_out == sum(SHOTS)
            output.unlink()
            yield held()
    assert not any((folder / "jobs").iterdir())


def test_fifty_jobs_leave_memory_as_it_was(tmp_path: Path) -> None:
    jobs = kinds(tmp_path)
    found = list(run_all(tmp_path, jobs))[WARM_UP - 1 :]
    rss, tensors = [r for r, _ in found], [t for _, t in found]
    third = len(rss) // 3
    middle, early, late = median(rss), median(rss[:third]), median(rss[-third:])
    assert max(abs(each - middle) for each in rss) <= ALLOWED
    assert late - early <= ALLOWED / 4, "it grows"
    for job in range(len(jobs)):  # what each kind leaves is always the same
        assert len(set(tensors[job :: len(jobs)])) == 1
