"""Files of latents as sources of jobs, from file to file, with very small VAEs."""

import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.api import probe
from engine.core.errors import DiskFull, NumericOverflow
from engine.core.geometry import Size
from engine.models.video_vae.measuring import Sized
from engine.models.wan.latents.spaces import raw
from engine.models.wan.vae.fast import FastWanVae
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.settings.schema import JobSettings
from engine.video.read.frame_reader import FrameReader
from engine.video.write.segment_writer import LosslessWriter
from tests.helpers.jobs import ENDS, Listener, running_engine
from tests.helpers.wan import a_latent, tiny_wan_config, write_latent, write_wan

ONE_CODE = 1.2  # of 16 bits: rounding, and what float32 adds


@pytest.fixture(scope="module")
def vaes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    """Path and model by channels."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for channels, layout in ((16, "2.1"), (48, "2.2")):
        path = folder / f"wan{channels}.safetensors"
        model = write_wan(path, tiny_wan_config(layout))
        found[channels] = SimpleNamespace(path=path, model=model)
    return found


def a_job(latent: Path, vae: Any, **changes: Any) -> c.AddJob:
    usual = {"model": "none", "scale": 1, "codec": "ffv1", "latents": "raw"}
    settings = JobSettings(**{**usual, "latent_vae": str(vae.path), **changes})
    return c.AddJob(job_id="a", source=latent, settings=settings, output=latent.parent / "out.mkv")


def ended(job: c.AddJob) -> tuple[e.Event, Listener]:
    with running_engine(job.source.parent / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        engine.send(job)
        return heard.wait(*ENDS), heard


def finished(job: c.AddJob) -> Listener:
    done, heard = ended(job)
    assert isinstance(done, e.JobFinished), done
    assert done.report.passed, done.report.problems
    assert done.report.source == job.source
    return heard


def pictures(path: Path) -> np.ndarray:
    """[T, 3, H, W] codes."""
    with FrameReader(probe(path)) as reader:
        return np.stack([np.stack(frame.planes[:3]) for frame in reader]).astype(np.float64)


def truth(vae: Any, latent: Tensor) -> np.ndarray:
    """What comes out when all of it is decoded at once in float64, as codes of 16 bits."""
    frames = vae.model.decode(latent.double())[0].movedim(0, 1)
    return ((frames.clamp(-1, 1) + 1) / 2 * 65535).numpy()


@pytest.mark.parametrize("channels", [16, 48])
@pytest.mark.parametrize("reading", ["raw", "normalised"])
def test_latents_become_a_film(tmp_path: Path, vaes: Any, channels: int, reading: str) -> None:
    latent = write_latent(tmp_path / "a.latent", a_latent(channels))
    vae = vaes[channels]
    heard = finished(a_job(tmp_path / "a.latent", vae, latents=reading))
    made = probe(tmp_path / "out.mkv").video
    assert (made.frame_count, made.frame_rate) == (9, 16 if channels == 16 else 24)
    assert (made.tags.primaries, made.tags.transfer) == ("bt709", "bt709")
    wanted = truth(vae, raw(latent.double()) if reading == "normalised" else latent)
    assert abs(pictures(tmp_path / "out.mkv") - wanted).max() < ONE_CODE
    decoding = [event for event in heard.of(e.StageProgress) if event.stage == "decode"]
    assert (decoding[-1].done, decoding[-1].total) == (9, 9)
    assert not list((tmp_path / "jobs").iterdir()), "the decoded film has gone with the job"


def test_one_latent_becomes_a_picture(tmp_path: Path, vaes: Any) -> None:
    latent = write_latent(tmp_path / "a.latent", a_latent(16, 1))
    settings = JobSettings(model="none", latents="raw", latent_vae=str(vaes[16].path))
    finished(c.AddJob(job_id="a", source=tmp_path / "a.latent", settings=settings))
    made = tmp_path / "a_decoded.png"
    assert abs(pictures(made) - truth(vaes[16], latent)).max() < ONE_CODE


def test_a_film_for_players_that_is_twice_as_large(tmp_path: Path, vaes: Any) -> None:
    write_latent(tmp_path / "a.latent")
    finished(a_job(tmp_path / "a.latent", vaes[16], model="lite", scale=2, codec="h264"))
    made = probe(tmp_path / "out.mkv").video
    assert (made.size, made.tags.matrix, made.tags.range) == (Size(80, 48), "bt709", "tv")


@pytest.mark.parametrize("is_rotten", [False, True])
def test_what_was_decoded_is_decoded_again_only_where_it_changed(
    tmp_path: Path, vaes: Any, is_rotten: bool
) -> None:
    write_latent(tmp_path / "a.latent", a_latent(16, 6, 2, 3))
    job = a_job(tmp_path / "a.latent", vaes[16], segment_seconds=0.5)
    finished(job)
    whole = pictures(tmp_path / "out.mkv")
    (tmp_path / "out.mkv").unlink()
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        engine.send(job)
        heard.wait(e.SegmentDone)
        engine.send(c.CancelJob(job_id="a"))
        assert isinstance(heard.wait(*ENDS), e.JobCancelled)
    (film,) = (tmp_path / "jobs" / "a").glob("decoded_*.avi")
    if is_rotten:
        data = bytearray(film.read_bytes())
        data[len(data) * 3 // 4] ^= 0xFF
        film.write_bytes(data)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.AdoptJob(job_id="a"))
        engine.send(c.StartQueue())
        heard.finished_job()
    stages = [event.stage for event in heard.of(e.StageStarted)]
    assert ("decode" in stages) == is_rotten
    assert np.array_equal(pictures(tmp_path / "out.mkv"), whole)


def test_a_job_that_ended_while_decoding_begins_that_again(
    tmp_path: Path, vaes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelled in the middle: a whole film would be kept. Its end waits for a file that closes."""
    latent = write_latent(tmp_path / "a.latent", a_latent(16, 12, 2, 3))
    cancelled, write, abort = threading.Event(), LosslessWriter.write, LosslessWriter.abort

    def write_later(writer: LosslessWriter, planes: Any) -> None:
        assert cancelled.wait(60)
        write(writer, planes)

    def abort_slowly(writer: LosslessWriter) -> None:
        time.sleep(0.3)
        abort(writer)

    monkeypatch.setattr(LosslessWriter, "write", write_later)
    monkeypatch.setattr(LosslessWriter, "abort", abort_slowly)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.StartQueue())
        engine.send(a_job(tmp_path / "a.latent", vaes[16]))
        while heard.wait(e.StageProgress).stage != "decode":
            pass
        engine.send(c.CancelJob(job_id="a"))
        engine.send(c.ShowFrame(job_id="none", seconds=0))
        heard.wait(e.Warned)  # the engine has carried out both commands
        cancelled.set()
        assert isinstance(heard.wait(*ENDS), e.JobCancelled)
        folder = tmp_path / "jobs" / "a"
        assert not list(folder.glob("decoded_*")), "a part is worth nothing"
        (folder / "decoded_0123.avi").write_bytes(b"of other settings")
        (folder / "decoded_0123.avi.part").write_bytes(b"of a program that was killed")
        engine.send(c.RetryJob(job_id="a"))
        assert isinstance(heard.wait(*ENDS), e.JobFinished)
    assert abs(pictures(tmp_path / "out.mkv") - truth(vaes[16], latent)).max() < ONE_CODE


FAILURES = {
    "out-of-memory": torch.OutOfMemoryError("no"),
    "overflow": NumericOverflow("decoder", dtype="float16"),
}


@pytest.mark.parametrize("why", FAILURES)
def test_too_little_memory_or_range_is_a_smaller_or_wider_plan(
    tmp_path: Path, vaes: Any, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    size = (36, 3) if why == "out-of-memory" else (2, 3)  # larger than the least tile
    latent = write_latent(tmp_path / "a.latent", a_latent(16, 1, *size))
    real, fails = FastWanVae.decode_slice, [FAILURES[why]]

    def once(self: FastWanVae, *args: Any) -> Any:
        if fails and not isinstance(args[0], Sized):  # else a plan measures
            raise fails.pop()
        return real(self, *args)

    monkeypatch.setattr(FastWanVae, "decode_slice", once)
    precision = "bfloat16" if why == "overflow" else "float32"
    heard = finished(a_job(tmp_path / "a.latent", vaes[16], vae_precision=precision))
    (change,) = heard.of(e.PlanDowngraded)
    assert change.why == why
    assert change.plan.latent is not None
    assert change.plan.latent.dtype == "float32"
    assert (change.plan.latent.decode_tile is None) == (why == "overflow")
    assert abs(pictures(tmp_path / "out.mkv") - truth(vaes[16], latent)).max() < ONE_CODE


def test_a_full_disk_ends_the_job_before_and_while_it_decodes(
    tmp_path: Path, vaes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LosslessWriter, planes: Any) -> None:
        raise DiskFull("while-writing", name="a.mkv")

    def nothing(_: object) -> SimpleNamespace:
        return SimpleNamespace(free=1000, total=1000, used=0)

    write_latent(tmp_path / "a.latent", a_latent(16, 12, 2, 3))
    for place, name, failing in ((LosslessWriter, "write", full), (shutil, "disk_usage", nothing)):
        monkeypatch.setattr(place, name, failing)
        done, _ = ended(a_job(tmp_path / "a.latent", vaes[16]))
        assert isinstance(done, e.JobFailed), done
        assert done.error.code == "disk-full"
        assert not list((tmp_path / "jobs" / "a").glob("decoded_*"))
        shutil.rmtree(tmp_path / "jobs")


def test_what_cannot_be_used_is_refused(tmp_path: Path, vaes: Any) -> None:
    with_nan = a_latent()
    with_nan[0, 0, 0, 0, 0] = torch.nan
    for latent, channels, size, code in (
        (with_nan, 16, None, "unreadable-media"),
        (a_latent(), 16, 0, "unreadable-media"),
        (a_latent(), 16, -7, "truncated-media"),
        (torch.zeros(1, 4, 8, 8), 16, None, "unsupported-media"),
        (a_latent(), 48, None, "wrong-model"),
    ):
        path = tmp_path / "a.latent"
        write_latent(path, latent)
        path.write_bytes(path.read_bytes()[:size])
        done, _ = ended(a_job(path, vaes[channels]))
        assert isinstance(done, e.JobRejected), done
        assert done.error.code == code
        assert done.error.hint


def test_previews_begin_with_decoding_and_never_show_a_source(tmp_path: Path, vaes: Any) -> None:
    write_latent(tmp_path / "a.latent")
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(a_job(tmp_path / "a.latent", vaes[16]))
        engine.send(c.ShowFrame(job_id="a", seconds=0.1))
        shown = heard.wait(e.PreviewReady)
        assert (shown.source, shown.result) == (None, None)
        engine.send(c.StartQueue())
        assert isinstance(heard.wait(*ENDS), e.JobFinished)
        assert any(event.picture is not None for event in heard.of(e.TileDone))
        engine.send(c.ShowFrame(job_id="a", seconds=0.1))
        shown = heard.wait(e.PreviewReady)
        assert shown.source is None
        assert shown.result is not None
        assert shown.result.size == Size(40, 24)


def test_new_settings_are_a_new_film(tmp_path: Path, vaes: Any) -> None:
    write_latent(tmp_path / "a.latent")
    job = a_job(tmp_path / "a.latent", vaes[16])
    changed = a_job(tmp_path / "a.latent", vaes[16], latents="normalised", latent_rate=24.0)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(job)
        first = heard.wait(e.PlanChosen).plan
        engine.send(c.ChangeJob(job_id="a", settings=changed.settings, output=job.output))
        second = heard.wait(e.PlanChosen).plan
    for plan, normalised, rate in ((first, False, 16), (second, True, 24)):
        assert plan.latent is not None
        assert (plan.latent.normalised, plan.picture.frame_rate) == (normalised, rate)
