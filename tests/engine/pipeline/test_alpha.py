"""Stills with alpha through models: colours at their edges, and alpha itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.core.geometry import Size
from engine.pipeline.stages.restore import SourceColours
from engine.planner.peaks import stage_peaks
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from tests.helpers.community import write_network
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import plan_of, run
from tests.helpers.memory import Allocations
from tests.helpers.plans import a_media, a_plan
from tests.helpers.seedvr2 import write_seedvr2

Codes = NDArray[np.uint16]  # [h, w, 4], red, green, blue and alpha of 16 bits
SIZE = Size(72, 56)
WHITE = 65535
MODELS = ("lite", "three channels", "four channels")


def write_picture(path: Path, codes: Codes, depth: int = 16) -> Path:
    """A PNG of 8 or 16 bits."""
    values, format = (codes, "rgba64le") if depth == 16 else ((codes >> 8).astype("u1"), "rgba")
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(values), format=format)
    context = av.CodecContext.create("png", "w")
    context.width, context.height = codes.shape[1], codes.shape[0]
    context.pix_fmt, context.time_base = "rgba64be" if depth == 16 else "rgba", Fraction(1, 25)
    frame = frame.reformat(format=context.pix_fmt, threads=1)
    path.write_bytes(b"".join(map(bytes, [*context.encode(frame), *context.encode(None)])))
    return path


def read_picture(path: Path) -> Codes:
    with av.open(f"file:{path}") as file:
        codes = next(file.decode(video=0)).to_ndarray()
    return codes if codes.dtype == np.uint16 else codes.astype(np.uint16) * 257


def disc(hidden: tuple[int, int, int] | None = None) -> Codes:
    """Red with a soft edge; beneath what is transparent a colour, or noise."""
    y, x = np.mgrid[: SIZE.height, : SIZE.width]
    away = np.hypot(x - SIZE.width / 2, y - SIZE.height / 2)
    alpha = np.clip((20 - away) / 5, 0, 1)
    noise = np.random.default_rng(1).integers(0, WHITE, (*away.shape, 4))
    colours = noise if hidden is None else np.broadcast_to((*hidden, 0), noise.shape)
    codes = np.where(alpha[..., None] > 0, (52000, 6000, 9000, 0), colours)
    codes[..., 3] = np.round(alpha * WHITE)
    return codes.astype(np.uint16)


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of networks that take three or four channels; each is measured once."""
    folder = tmp_path_factory.mktemp("networks")
    return {
        name: write_network(folder / f"{count}.pth", "ESRGAN", scale=2, in_nc=count, out_nc=count)
        for name, count in (("three channels", 3), ("four channels", 4))
    }


def settings_of(
    model: str, folder: Path, networks: dict[str, Path], **wanted: object
) -> JobSettings:
    if model == "lite":
        return JobSettings(model=model, **wanted)
    if model == "seedvr2":
        return write_seedvr2(folder / "models").settings(codec="auto", **wanted)
    return JobSettings(model="community", model_file=str(networks[model]), **wanted)


def made(folder: Path, codes: Codes, settings: JobSettings, depth: int = 16) -> Codes:
    folder.mkdir()
    plan: Plan = plan_of(write_picture(folder / "a.png", codes, depth), folder / "b.png", settings)
    run(plan, folder / "job")
    if settings.model != "community":  # random networks make something else
        report = verify(probe(plan.source), plan.output, plan=plan)
        assert report.passed, report.problems
    return read_picture(plan.output)


def enlarged_alpha(codes: Codes, size: Size) -> NDArray[np.float64]:
    """By Pillow."""
    alpha = Image.fromarray(codes[..., 3].astype(np.float32), mode="F")
    large = alpha.resize((size.width, size.height), Image.Resampling.BICUBIC)
    return np.clip(np.asarray(large, np.float64), 0, WHITE)


@pytest.mark.parametrize("model", [*MODELS, "seedvr2"])
@pytest.mark.parametrize(
    "height", rest_extended([2 * SIZE.height, SIZE.height * 3 // 2], SIZE.height * 3 // 2)
)
def test_colours_beneath_transparent_pixels_change_nothing(
    model: str, height: int, tmp_path: Path, networks: dict[str, Path]
) -> None:
    settings = settings_of(model, tmp_path, networks, height=height)
    noise, black = (
        made(tmp_path / name, codes, settings)
        for name, codes in (("noise", disc()), ("black", disc((0, 0, 0))))
    )
    assert noise.shape[0] == height
    np.testing.assert_array_equal(noise, black)


@pytest.mark.parametrize("settings", [{"scale": 2}, {"height": SIZE.height * 3}, {"height": 28}])
def test_no_edge_has_a_colour_from_beneath(settings: dict[str, int], tmp_path: Path) -> None:
    green = disc((0, WHITE, 0))
    found = made(tmp_path / "a", green, JobSettings(model="lite", **settings))
    visible = found[found[..., 3] > 0][:, :3].astype(int)
    assert np.abs(visible - (52000, 6000, 9000)).max() < 0.03 * WHITE


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("depth", [8, 16])
def test_alpha_is_enlarged_by_itself_in_its_depth(
    model: str, depth: int, tmp_path: Path, networks: dict[str, Path]
) -> None:
    codes = disc()
    if depth == 8:
        codes = (codes >> 8) * 257
    found = made(tmp_path / "a", codes, settings_of(model, tmp_path, networks, scale=2), depth)
    off = found[..., 3] - enlarged_alpha(codes, SIZE.scaled(2))
    step = 1 if depth == 16 else 257
    assert np.abs(off).max() <= step
    assert (len(np.unique(found[..., 3])) > 256) == (depth == 16)


@pytest.mark.parametrize("depth", [8, 16])
def test_a_picture_that_is_only_converted_keeps_what_is_hidden(depth: int, tmp_path: Path) -> None:
    codes = disc() if depth == 16 else (disc() >> 8) * 257
    found = made(tmp_path / "a", codes, JobSettings(model="none"), depth)
    np.testing.assert_array_equal(found, codes)


def test_alpha_of_a_smaller_picture_is_the_mean_of_what_was_there(tmp_path: Path) -> None:
    codes = disc((0, WHITE, 0))
    found = made(tmp_path / "a", codes, JobSettings(model="none", height=SIZE.height // 2))
    assert found[..., 3].mean() == pytest.approx(codes[..., 3].mean(), rel=1e-3)
    pairs = codes[..., 3].reshape(SIZE.height // 2, 2, SIZE.width // 2, 2).mean((1, 3))
    assert np.abs(found[..., 3] - pairs).max() < 0.04 * WHITE


def test_verification_sees_what_is_visible_and_nothing_else(tmp_path: Path) -> None:
    source = probe(write_picture(tmp_path / "a.png", disc()))
    assert verify(source, write_picture(tmp_path / "b.png", disc((0, WHITE, 0)))).passed
    dark = disc()
    dark[..., :3] //= 8
    report = verify(source, write_picture(tmp_path / "c.png", dark))
    assert [check.code for check in report.problems] == ["likeness"]


@pytest.mark.parametrize("depth", [8, 16])
def test_filling_takes_no_more_than_was_planned(depth: int) -> None:
    media = a_media(has_alpha=True, chroma="rgb", bit_depth=depth)
    size, usual = media.video.size, a_plan()
    small = replace(usual.picture, size=Size(320, 180), has_alpha=True, chroma="rgb")
    plan = replace(usual, picture=small)
    kind = np.uint8 if depth == 8 else np.uint16
    plane = np.zeros((size.height, size.width), kind)
    frame = PlanarFrame(planes=(plane,) * 4, pts=0, duration=0)
    colours = SourceColours.of_job(media.video, plan)
    with torch.inference_mode():
        colours.rgb([frame])  # what torch loads once
        with Allocations() as found:
            colours.rgb([frame])
    planned = stage_peaks(plan)["upscale"].host
    assert found.peak_bytes <= planned <= 1.15 * found.peak_bytes
