"""SeedVR2 from file to file with very small models: shots, resumed jobs, choices."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.jobs.checkpoint import Checkpoint
from engine.models.seedvr2.upscaler import SeedVr2
from engine.pipeline.context import JobContext
from engine.pipeline.run import run_job
from engine.protocol.events import TileDone
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_picture
from tests.helpers.jobs import Events, plan_of, planes_of, run
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.seedvr2 import SeedVr2Files, make_three_shots, write_seedvr2

pytestmark = NEEDS_FFMPEG


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SeedVr2Files:
    return write_seedvr2(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shots of 11, 7 and 22 frames."""
    return make_three_shots(
        tmp_path_factory.mktemp("films") / "three shots.mkv", (11, 7, 22), "64x48"
    )


def lossless(files: SeedVr2Files, **changes: Any) -> JobSettings:
    return files.settings(codec="ffv1", segment_seconds=0.5, **changes)


def test_no_clip_goes_across_a_cut(
    files: SeedVr2Files, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    real = SeedVr2.shot

    def shot(self: SeedVr2, start: int, wanted: int, watch: Any) -> Any:
        begun.append(start)
        return real(self, start, wanted, watch)

    monkeypatch.setattr(SeedVr2, "shot", shot)
    out = tmp_path / "out.mkv"
    events = run(plan_of(film, out, lossless(files)), tmp_path / "job")
    assert begun == [0, 11, 18]
    assert len(planes_of(out)) == 40
    assert any(isinstance(event, TileDone) for event in events)


def test_a_shot_comes_out_as_if_it_were_alone(
    files: SeedVr2Files, film: Path, tmp_path: Path
) -> None:
    settings = lossless(files, noise_order="reference")
    alone = tmp_path / "second shot.mkv"
    cut = "trim=start_frame=11:end_frame=18,setpts=PTS-STARTPTS"
    ffmpeg(*("-i", film, "-vf", cut, "-c:v", "ffv1", alone))
    for source in (film, alone):
        run(plan_of(source, tmp_path / f"{source.stem} out.mkv", settings), tmp_path / source.stem)
    inside = planes_of(tmp_path / "three shots out.mkv")[11:18]
    by_itself = planes_of(tmp_path / "second shot out.mkv")
    assert all(np.array_equal(a, b) for a, b in zip(inside, by_itself, strict=True))


@pytest.mark.parametrize("stop_after", [1, 2])
@pytest.mark.parametrize("join", ["latents", "frames"])
def test_a_resumed_job_gives_the_same_pictures(
    files: SeedVr2Files, film: Path, tmp_path: Path, stop_after: int, join: str
) -> None:
    settings = lossless(files, join=join, clip_frames=13, join_frames=3)
    plan = plan_of(film, tmp_path / "whole.mkv", settings)
    run(plan, tmp_path / "one")
    again = replace(plan, output=tmp_path / "resumed.mkv")
    with pytest.raises(Cancelled):
        run(again, tmp_path / "two", stop_after=stop_after)
    assert len(Checkpoint(tmp_path / "two").records) > 0
    run(again, tmp_path / "two")
    whole, resumed = planes_of(plan.output), planes_of(again.output)
    assert len(whole) == len(resumed) == 40
    assert all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "lab"},
        {"colour": "none", "padding": "black", "noise_order": "reference"},
        {"strength": 40, "shots": "off", "clip_frames": 5},
        {"join": "none", "clip_frames": 9},
        {"input_noise": 30, "latent_noise": 40, "seed": 7},
        {"encode_tile": 192, "decode_tile": 192, "height": 240},
        {"blocks_on_device": 1},
        {"matmul": "int8"},
    ],
    ids=lambda changes: "-".join(map(str, changes)),
)
def test_every_choice_changes_the_pictures(
    files: SeedVr2Files, film: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    small = {"height": changes.pop("height", 64), "stop": "0.4"}
    usual = plan_of(film, tmp_path / "usual.mkv", lossless(files, **small))
    other = plan_of(film, tmp_path / "other.mkv", lossless(files, **small, **changes))
    for plan in (usual, other):
        run(plan, tmp_path / plan.output.stem)
    a, b = planes_of(usual.output), planes_of(other.output)
    assert len(a) == len(b) == 10
    differs = any(not np.array_equal(x, y) for x, y in zip(a, b, strict=True))
    assert differs == (changes.keys() != {"blocks_on_device"})


def test_no_strength_is_the_resized_source(files: SeedVr2Files, film: Path, tmp_path: Path) -> None:
    nothing = plan_of(film, tmp_path / "a.mkv", lossless(files, strength=0, scale=1))
    run(nothing, tmp_path / "a")
    source, result = planes_of(film), planes_of(nothing.output)
    worst = max(int(np.abs(a.astype(int) - b).max()) for a, b in zip(source, result, strict=True))
    assert worst <= 1


def test_a_picture_is_a_shot_of_one_frame(files: SeedVr2Files, tmp_path: Path) -> None:
    picture = make_picture(tmp_path / "still.png")
    plan = plan_of(picture, tmp_path / "large.png", files.settings())
    run(plan, tmp_path / "job")
    assert probe(plan.output).video.size == probe(picture).video.size.scaled(2)


def test_a_job_can_be_cancelled_inside_a_clip(
    files: SeedVr2Files, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control()
    asked = []

    def check(self: Control) -> None:
        real(self)
        if threading.current_thread() is threading.main_thread():
            asked.append(self)

    real = Control.check
    monkeypatch.setattr(Control, "check", check)
    plan = plan_of(film, tmp_path / "out.mkv", lossless(files))
    context = JobContext(
        job_id="job", media=probe(film), plan=plan, control=control, events=Events(control)
    )

    def restored(self: SeedVr2, latents: Any, shot: int, first: int) -> Any:
        control.cancel()
        before = len(asked)
        try:
            return whole(self, latents, shot, first)
        finally:
            assert len(asked) == before, "it went on to the next layer"

    whole = SeedVr2.restored
    monkeypatch.setattr(SeedVr2, "restored", restored)
    (tmp_path / "job").mkdir()
    with pytest.raises(Cancelled):
        run_job(context, Checkpoint(tmp_path / "job"), overwrite=True)
    assert not plan.output.exists()


def test_memory_that_runs_out_makes_the_plan_smaller(
    files: SeedVr2Files, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = SeedVr2.restored, []

    def restored(self: SeedVr2, *args: Any) -> Any:
        calls.append(self)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("injected")
        return real(self, *args)

    monkeypatch.setattr(SeedVr2, "restored", restored)
    plan = plan_of(film, tmp_path / "out.mkv", lossless(files))
    events = run(plan, tmp_path / "job")
    assert [type(e).__name__ for e in events].count("PlanDowngraded") == 1
    assert len(planes_of(plan.output)) == 40


def test_models_that_are_not_here_are_a_refusal(film: Path, tmp_path: Path) -> None:
    plan = plan_of(film, tmp_path / "out.mkv", JobSettings(model="seedvr2-7b", precision="q4"))
    refusal = next(notice for notice in plan.notices if notice.severity == "refusal")
    assert refusal.code == "weights-missing"
    assert "seedvr2-7b-q4" in refusal.params["files"]
    assert plan.work.canvas == Size(128, 96)
    assert shutil.which("ffmpeg")
