"""Memory that runs out while latents are decoded or encoded: the same film, the same numbers."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from engine.core.control import Control
from engine.core.errors import OutOfMemory
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.latents import film_of
from engine.pipeline.prepare import Machine, make_plan, probe_source
from engine.pipeline.run import run_job
from engine.protocol.events import Event, PlanDowngraded
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.jobs import Events, planes_of
from tests.helpers.memory import RunsOut
from tests.helpers.program import NEEDS_FFMPEG
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan

pytestmark = NEEDS_FFMPEG
ONE_CODE = 1  # of 16 bits: tiles add up in another order
Job = Callable[[RunsOut, tuple[int, int]], tuple[list[np.ndarray], list[Event]]]


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Runs a job of latents of some height and width to its end, in this thread."""
    folder = tmp_path_factory.mktemp("latents")
    write_wan(folder / "vae.safetensors", tiny_wan_config("2.1"))
    settings = JobSettings(
        model="none",
        scale=1,
        codec="ffv1",
        latents="raw",
        latent_vae=str(folder / "vae.safetensors"),
    )
    count = [0]

    def job(mode: RunsOut, size: tuple[int, int]) -> tuple[list[np.ndarray], list[Event]]:
        count[0] += 1
        place = folder / str(count[0])
        place.mkdir()
        source = folder / f"{size}.latent"
        if not source.exists():
            write_latent(source, a_latent(16, 3, *size))
        media = probe_source(source, settings)
        machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder)
        plan = make_plan(media, settings, place / "out.mkv", machine)
        control = Control()
        events = Events(control)
        context = JobContext(job_id="j", media=media, plan=plan, control=control, events=events)
        with mode:
            context.media = film_of(context, place)
            report = run_job(context, Checkpoint(place), overwrite=True)
        assert report.passed, report.problems
        return planes_of(plan.output), events.all

    return job


def assert_alike(found: list[np.ndarray], right: list[np.ndarray]) -> None:
    for a, b in zip(found, right, strict=True):
        assert int(np.abs(a.astype(int) - b).max()) <= ONE_CODE


def test_a_refused_allocation_costs_no_frame_of_decoded_latents(decode: Job) -> None:
    counter = RunsOut()
    right, _ = decode(counter, (4, 5))
    for at in sorted(random.Random(3).sample(range(1, counter.count), 4)):
        mode = RunsOut(at)
        found, _ = decode(mode, (4, 5))
        assert mode.refused
        assert_alike(found, right)


@pytest.mark.slow
def test_large_latents_are_decoded_in_tiles_then(decode: Job) -> None:
    counter = RunsOut()
    right, _ = decode(counter, (33, 36))
    found, events = decode(RunsOut(counter.count // 2), (33, 36))
    (less,) = [event for event in events if isinstance(event, PlanDowngraded)]
    assert less.notice is not None
    assert less.notice.params["change"].startswith("decoding in tiles of 256x256 instead of whole")
    assert_alike(found, right)


def test_no_memory_at_all_is_said_of_latents_too(decode: Job) -> None:
    with pytest.raises(OutOfMemory, match="decode even the smallest tiles"):
        decode(RunsOut(50, again=10**9), (4, 5))
