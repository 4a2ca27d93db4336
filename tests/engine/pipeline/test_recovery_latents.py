"""Memory that runs out while latents are decoded or encoded: the same film, the same latents."""

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from engine.core.control import Control
from engine.core.errors import OutOfMemory
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import JobContext
from engine.pipeline.latents import film_of
from engine.pipeline.prepare import Machine, make_plan, probe_source
from engine.pipeline.run import run_job
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.jobs import Events, planes_of
from tests.helpers.memory import RunsOut
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan


@pytest.fixture(scope="module")
def decode(tmp_path_factory: pytest.TempPathFactory) -> Callable[[RunsOut], list[np.ndarray]]:
    """Runs a job of latents to its end, in this thread."""
    folder = tmp_path_factory.mktemp("latents")
    write_latent(folder / "a.latent", a_latent(16, 3, 4, 5))
    vae = folder / "vae.safetensors"
    write_wan(vae, tiny_wan_config("2.1"))
    usual = {"model": "none", "scale": 1, "codec": "ffv1", "latents": "raw"}
    settings = JobSettings(**usual, latent_vae=str(vae))

    def job(mode: RunsOut) -> list[np.ndarray]:
        place = Path(mkdtemp(dir=folder))
        media = probe_source(folder / "a.latent", settings)
        machine = Machine(settings=EngineSettings(threads=1), jobs_folder=folder)
        plan = make_plan(media, settings, place / "out.mkv", machine)
        control = Control()
        context = JobContext(
            job_id="j", media=media, plan=plan, control=control, events=Events(control)
        )
        with mode:
            context.media = film_of(context, place)
            report = run_job(context, Checkpoint(place), overwrite=True)
        assert report.passed, report.problems
        return planes_of(plan.output)

    return job


def test_a_refused_allocation_costs_no_frame_of_decoded_latents(
    decode: Callable[[RunsOut], list[np.ndarray]],
) -> None:
    counter = RunsOut()
    right = decode(counter)
    for at in sorted(random.Random(3).sample(range(1, counter.count), 2)):
        mode = RunsOut(at)
        for a, b in zip(decode(mode), right, strict=True):
            assert int(np.abs(a.astype(int) - b).max()) <= 1  # tiles add up in another order
        assert mode.refused
    with pytest.raises(OutOfMemory, match="decode even with the smallest tiles"):
        decode(RunsOut(50, again=10**9))
