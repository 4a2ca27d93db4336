"""Jobs that are to have several processes, through the engine: films, latents and excerpts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import ENDS, Listener, planes_of, running_engine
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan

pytestmark = pytest.mark.slow
TWO = JobSettings(
    codec="ffv1", container="mkv", treatment="faithful", segment_seconds=0.5, workers=2
)


def made_by_two(heard: Listener) -> None:
    """Wait for a job that keeps its two workers to its end."""
    done = heard.finished_job()
    assert done.report.passed, done.report.problems
    assert len(heard.of(e.PlanChosen)[-1].plan.workers) == 2
    assert not heard.of(e.Warned)
    shown = {one.worker for one in heard.of(e.WorkerProgress)}
    assert shown
    assert shown <= {1, 2}


def test_an_excerpt_has_the_frame_of_the_film(tmp_path: Path) -> None:
    source = make_clip(tmp_path / "film.mkv", Clip(frames=30, rate=Fraction(25), audio_tracks=1))
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AddJob(job_id="a", source=source, settings=TWO))
        engine.send(c.MakeExcerpt(job_id="a", start=0.5))
        excerpt = heard.wait(e.ExcerptReady).excerpt
        engine.send(c.StartQueue())
        made_by_two(heard)
        tried = planes_of(excerpt.plan.output)  # it goes with the engine
    film = planes_of(tmp_path / "film_x2.mkv")
    assert len(film) == 30
    assert (tried[0] == film[12]).all()


def test_latents_are_decoded_once_and_shared(tmp_path: Path) -> None:
    vae = tmp_path / "wan16.safetensors"
    write_wan(vae, tiny_wan_config("2.1"))
    latent = tmp_path / "a.latent"
    write_latent(latent, a_latent(16))
    settings = replace(TWO, model="none", scale=1, latents="raw", latent_vae=str(vae))
    pictures = []
    for count in (1, 2):
        output = tmp_path / f"made_by_{count}.mkv"
        with running_engine(tmp_path / "jobs") as (engine, heard):
            wanted = replace(settings, workers=count)
            engine.send(c.StartQueue())
            engine.send(c.AddJob(job_id="a", source=latent, settings=wanted, output=output))
            if count == 2:
                made_by_two(heard)
            else:
                assert isinstance(heard.wait(*ENDS), e.JobFinished)
        assert probe(output).video.frame_count == 9
        pictures.append(planes_of(output))
    assert all((one == two).all() for one, two in zip(*pictures, strict=True))
