"""Models of shots from file to file, very small ones: shots, resumed jobs, choices, tiles."""

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.core.control import Control
from engine.core.errors import Cancelled, NumericOverflow
from engine.core.geometry import Size
from engine.jobs.checkpoint import Checkpoint
from engine.models.seedvr2.upscaler import SeedVr2
from engine.models.video_vae.measuring import Sized
from engine.models.wan.upscaler import WanUpscaler
from engine.models.wan.vae.fast import FastWanVae
from engine.protocol.events import PlanDowngraded, TileDone
from engine.settings.schema import JobSettings
from engine.video.read.probe import probe
from tests.helpers.clips import make_picture
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import plan_of, planes_of, run, worst
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg
from tests.helpers.seedvr2 import make_three_shots, write_seedvr2
from tests.helpers.wan import tiny_wan_config, write_wan

SHOTS = (6, 5, 14)
LOSSLESS = {"codec": "ffv1", "segment_seconds": 0.5}
JOINED = {"clip_frames": 13, "join_frames": 3}
Lossless = Callable[..., JobSettings]  # settings of a model, with changes


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_three_shots(tmp_path_factory.mktemp("films") / "three shots.mkv", SHOTS, "20x12")


@pytest.fixture(scope="module")
def seedvr2(tmp_path_factory: pytest.TempPathFactory) -> Lossless:
    return partial(write_seedvr2(tmp_path_factory.mktemp("models")).settings, **LOSSLESS)


@pytest.fixture(scope="module")
def wan(tmp_path_factory: pytest.TempPathFactory) -> Lossless:
    path = tmp_path_factory.mktemp("models") / "tiny_2x.safetensors"
    write_wan(path, tiny_wan_config("2x", dim=4, dec_dim=4))
    return partial(JobSettings, model="wan-2x", vae=str(path), **LOSSLESS)


@pytest.fixture(params=["seedvr2", "wan"])
def lossless(request: pytest.FixtureRequest) -> Lossless:
    return request.getfixturevalue(request.param)


@NEEDS_FFMPEG
def test_a_shot_comes_out_as_if_alone(lossless: Lossless, film: Path, tmp_path: Path) -> None:
    settings = lossless(noise_order="reference")
    alone = tmp_path / "second shot.mkv"
    cut = f"trim=start_frame={SHOTS[0]}:end_frame={sum(SHOTS[:2])},setpts=PTS-STARTPTS"
    ffmpeg(*("-i", film, "-vf", cut, "-c:v", "ffv1", alone))
    found = []
    for source in (film, alone):
        plan = plan_of(source, tmp_path / f"{source.stem} out.mkv", settings)
        events = run(plan, tmp_path / source.stem)
        assert {e.canvas for e in events if isinstance(e, TileDone)} == {Size(40, 24)}
        found.append(planes_of(plan.output))
    assert len(found[0]) == sum(SHOTS)
    assert {plane.shape for plane in found[0]} == {(24, 40)}
    assert worst(found[0][SHOTS[0] : sum(SHOTS[:2])], found[1]) == 0


@pytest.mark.parametrize(
    ("stop_after", "join"), rest_extended([(1, "latents"), (2, "frames")], (1, "latents"))
)
def test_a_resumed_job_gives_the_same_pictures(
    seedvr2: Lossless, film: Path, tmp_path: Path, stop_after: int, join: str
) -> None:
    plan = plan_of(film, tmp_path / "whole.mkv", seedvr2(join=join, scale=1, **JOINED))
    run(plan, tmp_path / "one")
    again = replace(plan, output=tmp_path / "resumed.mkv")
    with pytest.raises(Cancelled):
        run(again, tmp_path / "two", stop_after=stop_after)
    assert len(Checkpoint(tmp_path / "two").records) > 0
    run(again, tmp_path / "two")
    assert worst(planes_of(plan.output), planes_of(again.output)) == 0


def test_a_picture_is_a_shot_of_one_frame(lossless: Lossless, tmp_path: Path) -> None:
    picture = make_picture(tmp_path / "still.png")
    plan = plan_of(picture, tmp_path / "large.png", lossless(codec="auto"))
    run(plan, tmp_path / "job")
    assert probe(plan.output).video.size == probe(picture).video.size.scaled(2)


def test_clips_end_at_cuts(
    seedvr2: Lossless, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    real = SeedVr2.shot

    def shot(self: SeedVr2, start: int, *about: Any) -> Any:
        begun.append(start)
        return real(self, start, *about)

    monkeypatch.setattr(SeedVr2, "shot", shot)
    run(plan_of(film, tmp_path / "out.mkv", seedvr2(scale=1)), tmp_path / "job")
    assert begun == [0, SHOTS[0], sum(SHOTS[:2])]


@pytest.fixture(scope="module")
def pictures(
    seedvr2: Lossless, film: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[np.ndarray]]:
    """Planes of a job with such choices, made once."""
    known: dict[str, list[np.ndarray]] = {}

    def made(**choices: Any) -> list[np.ndarray]:
        if str(choices) not in known:
            folder = tmp_path_factory.mktemp("job")
            plan = plan_of(film, folder / "out.mkv", seedvr2(**choices))
            run(plan, folder / "job")
            known[str(choices)] = planes_of(plan.output)
        return known[str(choices)]

    return made


@pytest.mark.parametrize(
    "changes",
    rest_extended(
        [
            {"colour": "lab"},
            {"colour": "none", "padding": "black", "noise_order": "reference"},
            {"working_size": 84},
            {"strength": 40, "shots": "off", "clip_frames": 5},
            {"join": "none", "clip_frames": 5},
            {"input_noise": 30, "latent_noise": 40, "seed": 7},
            {"encode_tile": 192, "decode_tile": 192, "height": 264, "stop": "0.12"},
            {"blocks_on_device": 1},
            {"matmul": "int8"},
        ],
        {"colour": "lab"},
        {"blocks_on_device": 1},
        {"working_size": 84},
        {"matmul": "int8"},
    ),
    ids=str,
)
def test_every_choice_changes_the_pictures(
    pictures: Callable[..., list[np.ndarray]], changes: dict[str, Any]
) -> None:
    small = {name: changes.get(name, usual) for name, usual in (("height", 18), ("stop", "0.4"))}
    usual, other = pictures(**small), pictures(**{**small, **changes})
    assert len(usual) == (3 if "encode_tile" in changes else 10)
    assert (worst(usual, other) > 0) == (changes.keys() != {"blocks_on_device"})


def test_no_strength_is_the_resized_source(seedvr2: Lossless, film: Path, tmp_path: Path) -> None:
    nothing = plan_of(film, tmp_path / "a.mkv", seedvr2(strength=0, scale=1))
    run(nothing, tmp_path / "a")
    assert worst(planes_of(film), planes_of(nothing.output)) <= 1


def test_a_smaller_working_size_is_resized_to_the_result(
    seedvr2: Lossless, film: Path, tmp_path: Path
) -> None:
    """With the source's colours, from a film and from a still."""
    still = make_picture(tmp_path / "still.png")
    for source, codec in ((film, "ffv1"), (still, "auto")):
        settings = seedvr2(strength=0, working_size=70, codec=codec)
        plan = plan_of(source, tmp_path / f"{source.stem} large{source.suffix}", settings)
        events = run(plan, tmp_path / source.stem)
        small = plan.work.canvas
        assert small.width < plan.picture.size.width
        assert {e.canvas for e in events if isinstance(e, TileDone)} <= {small}
        assert probe(plan.output).video.size == probe(source).video.size.scaled(2)
        if source == film:
            found, right = planes_of(plan.output), planes_of(source)
            assert abs(found[0].mean() - right[0].mean()) < 1


def test_a_job_can_be_cancelled_inside_a_clip(
    seedvr2: Lossless, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, asked = Control(), list[Control]()
    check, whole = Control.check, SeedVr2.restored

    def checked(self: Control) -> None:
        check(self)
        if threading.current_thread() is threading.main_thread():
            asked.append(self)

    def restored(self: SeedVr2, latents: Any, shot: int, first: int) -> Any:
        control.cancel()
        before = len(asked)
        try:
            return whole(self, latents, shot, first)
        finally:
            assert len(asked) == before, "it went on to the next layer"

    monkeypatch.setattr(Control, "check", checked)
    monkeypatch.setattr(SeedVr2, "restored", restored)
    plan = plan_of(film, tmp_path / "out.mkv", seedvr2())
    with pytest.raises(Cancelled):
        run(plan, tmp_path / "job", control=control)
    assert not plan.output.exists()


def test_a_job_can_be_cancelled_between_slices(
    wan: Lossless, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, slices = Control(), list[int]()
    real = WanUpscaler.placed

    def placed(self: WanUpscaler, *args: Any) -> Any:
        slices.append(0)
        if len(slices) == 2:
            control.cancel()
        return real(self, *args)

    monkeypatch.setattr(WanUpscaler, "placed", placed)
    plan = plan_of(film, tmp_path / "out.mkv", wan())
    with pytest.raises(Cancelled):
        run(plan, tmp_path / "job", control=control)
    assert len(slices) == 2
    assert not plan.output.exists()


def test_tiles_and_longer_slices_give_the_same_pictures(wan: Lossless, tmp_path: Path) -> None:
    film = make_three_shots(tmp_path / "wide.mkv", (9, 1, 1), "180x40")
    found = []
    for name, how, tiles in (
        ("whole", {"decode_tile": None}, 1),
        ("tiles", {"decode_tile": Size(208, 208)}, 3),
        ("longer", {"decode_tile": None, "clip_frames": 8}, 1),
    ):
        plan = plan_of(film, tmp_path / f"{name}.mkv", wan())
        work = replace(plan.work, encode_tile=None, **how)
        events = run(replace(plan, work=work), tmp_path / name)
        assert {event.tiles for event in events if isinstance(event, TileDone)} == {tiles}
        found.append(planes_of(plan.output))
    assert worst(found[0], found[1]) <= 1
    assert worst(found[0], found[2]) <= 1


def test_overflow_makes_the_plan_wider(
    wan: Lossless, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = make_three_shots(tmp_path / "wide.mkv", (6, 1, 1), "60x40")
    real, calls = FastWanVae.decode_slice, []

    def decode_slice(self: FastWanVae, *args: Any) -> Any:
        if isinstance(args[0], Sized):  # a plan measures
            return real(self, *args)
        calls.append(self)
        if len(calls) == 2:
            raise NumericOverflow("decoder", dtype="float16")
        return real(self, *args)

    monkeypatch.setattr(FastWanVae, "decode_slice", decode_slice)
    plan = plan_of(film, tmp_path / "out.mkv", wan(vae_precision="bfloat16"))
    assert plan.work.dtype == "bfloat16"
    events = run(plan, tmp_path / "job")
    (less,) = [event for event in events if isinstance(event, PlanDowngraded)]
    assert less.why == "overflow"
    assert (less.plan.work.dtype, less.plan.work.decode_tile) == ("float32", None)
    assert len(planes_of(plan.output)) == 8
