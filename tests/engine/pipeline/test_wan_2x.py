"""Wan 2x from file to file with a very small model: shots, resumed jobs, tiles, pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.control import Control
from engine.core.errors import Cancelled, NumericOverflow
from engine.core.geometry import Size
from engine.jobs.checkpoint import Checkpoint
from engine.models.wan.upscaler import WanUpscaler
from engine.models.wan.vae.fast import FastWanVae
from engine.pipeline.context import JobContext
from engine.pipeline.run import run_job
from engine.protocol.events import PlanDowngraded, TileDone
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_picture
from tests.helpers.jobs import Events, plan_of, planes_of, run
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.seedvr2 import make_three_shots
from tests.helpers.wan import tiny_wan_config, write_wan

pytestmark = NEEDS_FFMPEG

SHOTS = (11, 7, 9)


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny_2x.safetensors"
    write_wan(path, tiny_wan_config("2x", dim=4, dec_dim=4))
    return path


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_three_shots(tmp_path_factory.mktemp("films") / "three shots.mkv", SHOTS, "60x44")


def lossless(vae: Path, **changes: Any) -> JobSettings:
    usual = {"model": "wan-2x", "vae": str(vae), "codec": "ffv1", "segment_seconds": 0.5}
    return JobSettings(**{**usual, **changes})


def assert_same(found: list[np.ndarray], right: list[np.ndarray], codes: int = 0) -> None:
    for a, b in zip(found, right, strict=True):
        assert int(np.abs(a.astype(int) - b).max()) <= codes


@pytest.fixture(scope="module")
def usual(vae: Path, film: Path, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """Pictures of the film in one go."""
    folder = tmp_path_factory.mktemp("usual")
    plan = plan_of(film, folder / "out.mkv", lossless(vae))
    events = run(plan, folder / "job")
    tiles = [event for event in events if isinstance(event, TileDone)]
    assert {tile.canvas for tile in tiles} == {Size(120, 88)}
    return planes_of(plan.output)


def test_all_frames_come_out_twice_as_large(usual: list[np.ndarray]) -> None:
    assert len(usual) == sum(SHOTS)
    assert {plane.shape for plane in usual} == {(88, 120)}
    assert all(float(plane.std()) > 2 for plane in usual)


def test_a_shot_comes_out_as_if_it_were_alone(
    vae: Path, film: Path, tmp_path: Path, usual: list[np.ndarray]
) -> None:
    alone = tmp_path / "second.mkv"
    cut = "trim=start_frame=11:end_frame=18,setpts=PTS-STARTPTS"
    ffmpeg(*("-i", film, "-vf", cut, "-c:v", "ffv1", alone))
    plan = plan_of(alone, tmp_path / "out.mkv", lossless(vae))
    run(plan, tmp_path / "job")
    assert_same(planes_of(plan.output), usual[11:18])


@pytest.mark.parametrize("stop_after", [1, 2])
def test_a_resumed_job_gives_the_same_pictures(
    vae: Path, film: Path, tmp_path: Path, usual: list[np.ndarray], stop_after: int
) -> None:
    plan = plan_of(film, tmp_path / "resumed.mkv", lossless(vae))
    with pytest.raises(Cancelled):
        run(plan, tmp_path / "job", stop_after=stop_after)
    assert len(Checkpoint(tmp_path / "job").records) > 0
    run(plan, tmp_path / "job")
    assert_same(planes_of(plan.output), usual)


def test_slices_of_another_length_give_the_same_pictures(
    vae: Path, film: Path, tmp_path: Path, usual: list[np.ndarray]
) -> None:
    plan = plan_of(film, tmp_path / "out.mkv", lossless(vae))
    longer = replace(plan.work, clip_frames=8)
    run(replace(plan, work=longer), tmp_path / "job")
    assert_same(planes_of(plan.output), usual, codes=1)


def test_tiles_give_the_same_pictures(vae: Path, tmp_path: Path) -> None:
    film = make_three_shots(tmp_path / "wide.mkv", (3, 2, 1), "180x40")
    found = []
    for name, tile in (("whole", None), ("tiles", Size(208, 208))):
        plan = plan_of(film, tmp_path / f"{name}.mkv", lossless(vae))
        work = replace(plan.work, decode_tile=tile, encode_tile=None)
        events = run(replace(plan, work=work), tmp_path / name)
        told = {event.tiles for event in events if isinstance(event, TileDone)}
        assert told == {1 if tile is None else 3}
        found.append(planes_of(plan.output))
    assert_same(*found, codes=1)


def test_a_picture_is_a_shot_of_one_frame(vae: Path, tmp_path: Path) -> None:
    picture = make_picture(tmp_path / "still.png")
    plan = plan_of(picture, tmp_path / "large.png", JobSettings(model="wan-2x", vae=str(vae)))
    run(plan, tmp_path / "job")
    assert probe(plan.output).video.size == probe(picture).video.size.scaled(2)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (torch.OutOfMemoryError("injected"), "out-of-memory"),
        (NumericOverflow("decoder", dtype="float16"), "overflow"),
    ],
)
def test_a_plan_that_did_not_work_is_replaced(
    vae: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    film = make_three_shots(tmp_path / "wide.mkv", (6, 1, 1), "360x40")
    real, calls = FastWanVae.decode_slice, []

    def decode_slice(self: FastWanVae, *args: Any) -> Any:
        calls.append(self)
        if len(calls) == 2:
            raise error
        return real(self, *args)

    monkeypatch.setattr(FastWanVae, "decode_slice", decode_slice)
    plan = plan_of(film, tmp_path / "out.mkv", lossless(vae, vae_precision="bfloat16"))
    assert plan.work.dtype == "bfloat16"
    events = run(plan, tmp_path / "job")
    (less,) = [event for event in events if isinstance(event, PlanDowngraded)]
    assert less.why == why
    now = less.plan.work
    assert (now.dtype == "float32") == (why == "overflow")
    assert (now.decode_tile is not None) == (why == "out-of-memory")
    assert len(planes_of(plan.output)) == 8


def test_a_job_can_be_cancelled_between_slices(
    vae: Path, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, slices = Control(), list[int]()
    real = WanUpscaler.placed

    def placed(self: WanUpscaler, *args: Any) -> Any:
        slices.append(0)
        if len(slices) == 2:
            control.cancel()
        return real(self, *args)

    monkeypatch.setattr(WanUpscaler, "placed", placed)
    plan = plan_of(film, tmp_path / "out.mkv", lossless(vae))
    context = JobContext(
        job_id="job", media=probe(film), plan=plan, control=control, events=Events(control)
    )
    (tmp_path / "job").mkdir()
    with pytest.raises(Cancelled):
        run_job(context, Checkpoint(tmp_path / "job"), overwrite=True)
    assert len(slices) == 2
    assert not plan.output.exists()
