"""A first pass: a 1x community model cleans each frame before the model of the job sees it."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from engine import api
from engine.cli.main import main
from engine.core.errors import (
    Cancelled,
    CheckpointMismatch,
    WeightsError,
    WeightsMissing,
    WrongModel,
)
from engine.core.geometry import Size
from engine.core.serialization import from_plain, to_plain
from engine.hardware import devices
from engine.jobs.checkpoint import Checkpoint
from engine.models import registry
from engine.models.community.upscaler import CommunityUpscaler
from engine.planner import times
from engine.planner.downgrade import next_plan
from engine.protocol.events import PlanDowngraded
from engine.protocol.plan import Plan, WorkPlan
from engine.settings.schema import JobSettings
from tests.helpers import program
from tests.helpers.community import network, write_network, write_state
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import plan_of, planes_of, run, small_job, worst
from tests.helpers.memory import RunsOut
from tests.helpers.seedvr2 import make_three_shots, write_seedvr2

SHOTS = (11, 3, 6)
Settings = Callable[..., JobSettings]
LOSSLESS: dict[str, Any] = {"codec": "ffv1", "segment_seconds": 0.5}


@pytest.fixture(autouse=True)
def in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are compared to one code value: in bfloat16 rounding alone makes more of it."""
    monkeypatch.setattr(devices, "cpu_has_bf16", lambda: False)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_three_shots(tmp_path_factory.mktemp("films") / "film.mkv", SHOTS, "20x12")


@pytest.fixture(scope="module")
def cleaner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It changes little: colours stay those of the source."""
    state = network("Compact", upscale=1).state_dict()
    for name in list(state)[-2:]:  # of the last layer
        state[name] = state[name] * 0.3
    return write_state(tmp_path_factory.mktemp("models") / "1x_clean.pth", state)


@pytest.fixture(params=rest_extended(["lite", "seedvr2", "community"], "lite"))
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings of a model without a first pass, with changes."""
    if request.param == "seedvr2":
        files = write_seedvr2(tmp_path / "seedvr2")
        return lambda **more: files.settings(scale=1, **LOSSLESS, **more)
    own = {"model_file": str(write_network(tmp_path / "2x.pth", upscale=2))}
    named = {"model": request.param, **(own if request.param == "community" else {}), **LOSSLESS}
    return lambda **more: JobSettings(**named, **more)


def made(source: Path, result: Path, settings: JobSettings) -> list[np.ndarray]:
    run(plan_of(source, result, settings), result.parent / result.stem)
    return planes_of(result)


def test_it_equals_two_jobs_with_a_film_between_them(
    settings: Settings, film: Path, cleaner: Path, tmp_path: Path
) -> None:
    both = made(film, tmp_path / "both.mkv", settings(first_model=str(cleaner)))
    first = {"model": "community", "model_file": str(cleaner), "scale": 1}
    between = JobSettings(**first, codec="ffv1", chroma="444", bit_depth=12)
    made(film, tmp_path / "between.mkv", between)
    by_hand = made(
        tmp_path / "between.mkv", tmp_path / "by hand.mkv", settings(chroma="420", bit_depth=8)
    )
    alone = made(film, tmp_path / "alone.mkv", settings())
    print(worst(both, by_hand), worst(both, alone))
    assert worst(both, by_hand) <= 1
    assert worst(both, alone) > 3


def test_how_many_frames_are_taken_at_a_time_changes_nothing(
    film: Path, cleaner: Path, tmp_path: Path
) -> None:
    second = write_network(tmp_path / "2x.pth", upscale=2)
    named = {"model": "community", "model_file": str(second), "first_model": str(cleaner)}
    plan = plan_of(film, tmp_path / "out.mkv", JobSettings(**named, **LOSSLESS))
    assert plan.first_pass is not None
    found = []
    for clip, at_a_time in ((1, 1), (4, 1), (5, 3)):
        plan = replace(
            plan,
            output=tmp_path / f"{clip}.mkv",
            work=replace(plan.work, clip_frames=clip),
            first_pass=replace(plan.first_pass, clip_frames=at_a_time),
        )
        run(plan, tmp_path / str(clip))
        found.append(planes_of(plan.output))
    assert worst(found[0], found[1]) == worst(found[0], found[2]) == 0


def test_a_job_that_goes_on_gives_the_same_pictures(
    settings: Settings, film: Path, cleaner: Path, tmp_path: Path
) -> None:
    plan = plan_of(film, tmp_path / "whole.mkv", settings(first_model=str(cleaner)))
    run(plan, tmp_path / "one")
    again = replace(plan, output=tmp_path / "resumed.mkv")
    with pytest.raises(Cancelled):
        run(again, tmp_path / "two", stop_after=1)
    assert len(Checkpoint(tmp_path / "two").records) == 1
    run(again, tmp_path / "two")
    assert worst(planes_of(plan.output), planes_of(again.output)) == 0


def test_the_plan_says_what_it_does_first_and_what_that_takes(
    settings: Settings, film: Path, cleaner: Path, tmp_path: Path
) -> None:
    plan = plan_of(film, tmp_path / "out.mkv", settings(first_model=str(cleaner)))
    alone = plan_of(film, tmp_path / "out.mkv", settings())
    assert alone.first_pass is None
    assert plan.reasons is not None
    said = [choice.message for choice in plan.reasons.choices]
    assert any(text.startswith("First pass: ") and cleaner.name in text for text in said)
    stages = {stage.stage: stage for stage in plan.stages}
    assert [*stages][:2] == ["read", "clean"]
    assert stages["clean"].seconds > 0
    assert plan.seconds > alone.seconds
    assert plan.peak_bytes > alone.peak_bytes
    assert times.kind(plan) != times.kind(alone), "learned apart"
    stored = from_plain(Plan, to_plain(plan), {WorkPlan: registry.plan_class})
    assert stored.passes == plan.passes


@pytest.mark.parametrize("kind", rest_extended(["lite", "seedvr2"], "lite"))
def test_memory_that_runs_out_in_it_makes_its_tiles_smaller(
    kind: str, cleaner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = make_three_shots(tmp_path / "film.mkv", (3, 2, 2), "200x152")
    model = {"model": "lite", **LOSSLESS}
    if kind == "seedvr2":
        wanted = write_seedvr2(tmp_path / "seedvr2").settings(scale=1, **LOSSLESS)
    else:
        wanted = JobSettings(**model)
    plan = plan_of(film, tmp_path / "out.mkv", replace(wanted, first_model=str(cleaner)))
    run(plan, tmp_path / "one")
    right = planes_of(plan.output)
    upscale = CommunityUpscaler.upscale

    def refused(self: CommunityUpscaler, frames: torch.Tensor) -> torch.Tensor:
        if frames[0, 0].numel() > 130 * 130:
            raise torch.OutOfMemoryError("refused")
        return upscale(self, frames)

    monkeypatch.setattr(CommunityUpscaler, "upscale", refused)
    again = replace(plan, output=tmp_path / "again.mkv")
    changed = [event for event in run(again, tmp_path / "two") if isinstance(event, PlanDowngraded)]
    assert changed[-1].plan.first_pass.tile == Size(128, 128)
    assert changed[-1].plan.work == plan.work
    assert "in the first pass" in changed[-1].notice.message
    assert worst(planes_of(again.output), right) <= 1


@pytest.mark.extended
def test_memory_that_runs_out_anywhere_is_harmless(tmp_path: Path) -> None:
    for kind, refusals in (("lite", 3), ("seedvr2", 2)):
        job = small_job(kind, tmp_path / kind, is_cleaned=True)
        job.run()
        job.run(counter := RunsOut())
        for at in random.Random(1).sample(range(1, counter.count + 1), refusals):
            done = job.run(RunsOut(at))
            assert worst(done.pictures, job.expected(done.events)) <= 1


def test_values_that_overflow_are_computed_wider_in_the_first_pass(
    film: Path, cleaner: Path, tmp_path: Path
) -> None:
    settings = JobSettings(model="lite", first_model=str(cleaner), device="cuda")
    pretend = api.pretended("RTX 5070 Ti")
    plan = api.plan(film, settings, tmp_path / "out.mkv", pretend=pretend)
    assert plan.first_pass is not None
    assert (plan.first_pass.device, plan.first_pass.dtype) == ("cuda", "float16")
    wider = next_plan(plan, "overflow")
    assert wider is not None
    assert wider.first_pass.dtype == "float32"
    assert wider.work == plan.work


def test_a_model_that_cannot_go_first_is_refused(film: Path, tmp_path: Path) -> None:
    larger = write_network(tmp_path / "2x.pth", upscale=2)
    (tmp_path / "no model.pth").write_bytes(b"something")
    for name, kind, case in (
        ("2x.pth", WrongModel, "enlarges-first"),
        ("gone.pth", WeightsMissing, "chosen"),
        ("no model.pth", WeightsError, ""),
    ):
        settings = JobSettings(model="lite", first_model=str(larger.with_name(name)))
        with pytest.raises(kind) as caught:
            plan_of(film, tmp_path / "out.mkv", settings)
        assert caught.value.case == case or not case
        assert caught.value.hint
        assert name in caught.value.message


def test_nothing_but_the_first_pass_is_a_job_too(film: Path, cleaner: Path, tmp_path: Path) -> None:
    alone = {"model": "community", "model_file": str(cleaner), "scale": 1}
    right = made(film, tmp_path / "alone.mkv", JobSettings(**alone, **LOSSLESS))
    for model in ("lite", "none"):  # Lite has nothing to enlarge at this size
        settings = JobSettings(model=model, scale=1, first_model=str(cleaner), **LOSSLESS)
        assert worst(made(film, tmp_path / f"{model}.mkv", settings), right) == 0


def test_another_file_in_its_place_stops_the_job(film: Path, tmp_path: Path) -> None:
    first = write_network(tmp_path / "1x.pth", upscale=1)
    plan = plan_of(film, tmp_path / "out.mkv", JobSettings(model="lite", first_model=str(first)))
    write_network(first, upscale=1, num_feat=16)
    with pytest.raises(CheckpointMismatch):
        run(plan, tmp_path / "job")


def test_the_command_line_says_and_does_both(
    film: Path, cleaner: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", str(cleaner), "--then", "lite", "--set", "codec=ffv1"]
    assert main(["plan", str(film), *words]) == 0
    said = capsys.readouterr().out
    assert "First:     1x_clean.pth (RealESRGAN Compact, x1), cpu, float32, whole frames" in said
    assert "First pass: RealESRGAN Compact from 1x_clean.pth, which keeps the size" in said
    result = tmp_path / "by words.mkv"
    assert main(["upscale", str(film), *words, "-o", str(result)]) == 0
    settings = JobSettings(model="lite", first_model=str(cleaner), codec="ffv1")
    assert worst(planes_of(result), made(film, tmp_path / "made.mkv", settings)) == 0


@pytest.mark.slow
@program.NEEDS_FFMPEG
def test_a_program_that_is_killed_goes_on_with_the_same_pictures(
    cleaner: Path, tmp_path: Path
) -> None:
    film = program.make_film(tmp_path / "film.mp4", "96x64", 4)
    words = ["--model", str(cleaner), "--then", "lite", "--set", "codec=ffv1"]
    program.upscale(film, tmp_path / "whole.mkv", *words, "--set", "segment_seconds=0.5")
    result, env = tmp_path / "out.mkv", {"UPREEL_DATA": str(tmp_path / "data")}
    more = ["upscale", film, "-o", result, *words, "--set", "segment_seconds=0.5"]
    assert program.is_killed_at({"event": "SegmentDone", "segment": 1}, *more, env=env)
    assert not result.exists()
    ended = program.run("resume", "--all", env=env)
    assert ended.status == 0, ended.err
    assert worst(planes_of(result), planes_of(tmp_path / "whole.mkv")) == 0


def test_alpha_does_not_go_through_it(cleaner: Path, tmp_path: Path) -> None:
    y, x = np.mgrid[:44, :60]
    colours = np.stack([4 * x, 5 * y, 3 * x + 2 * y, np.maximum(0, 255 - 8 * x)], -1)
    source = tmp_path / "still.png"
    Image.fromarray(colours.astype(np.uint8), "RGBA").save(source)
    found = []
    for name in ("", str(cleaner)):
        result = tmp_path / f"{len(found)}.png"
        plan = plan_of(source, result, JobSettings(model="lite", first_model=name))
        run(plan, tmp_path / result.stem)
        found.append(np.asarray(Image.open(plan.output)))
    assert np.array_equal(found[0][..., 3], found[1][..., 3])
    assert not np.array_equal(found[0][..., :3], found[1][..., :3])
    converted = JobSettings(model="none", scale=1, first_model=str(cleaner))
    assert not plan_of(source, tmp_path / "new.png", converted).only_converts


def test_results_alone_are_steadied(film: Path, cleaner: Path, tmp_path: Path) -> None:
    named = {"model": "lite", "steadiness": "mild", "first_model": str(cleaner)}
    plan = plan_of(film, tmp_path / "whole.mkv", JobSettings(**named, **LOSSLESS))
    assert (plan.first_pass.steadiness, plan.work.steadiness) == ("off", "mild")
    stages = [stage.stage for stage in plan.stages]
    assert stages[1:4] == ["clean", "upscale", "steady"]
    run(plan, tmp_path / "one")
    again = replace(plan, output=tmp_path / "resumed.mkv")
    with pytest.raises(Cancelled):
        run(again, tmp_path / "two", stop_after=1)
    run(again, tmp_path / "two")
    assert worst(planes_of(plan.output), planes_of(again.output)) == 0
