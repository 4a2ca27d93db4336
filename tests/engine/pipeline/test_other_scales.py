"""Models whose factor is not the one that is wanted: what brings their pictures to the size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from engine.core.geometry import Size
from engine.pipeline.stages.restore import Restore
from engine.planner.peaks import stage_peaks
from engine.protocol.media import ColourTags
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.helpers.community import network, write_state
from tests.helpers.jobs import plan_of, planes_of, run
from tests.helpers.memory import Allocations
from tests.helpers.plans import a_media, a_plan
from tests.helpers.program import NEEDS_FFMPEG, ffmpeg


def repeating(path: Path, **arguments: int) -> Path:
    """A model file whose network repeats every pixel, and computes nothing besides."""
    state = network("Compact", **arguments).state_dict()
    return write_state(path, {name: torch.zeros_like(value) for name, value in state.items()})


def upscaled(source: Path, output: Path, model: Path, **settings: object) -> Plan:
    wanted = {"model": "community", "model_file": str(model), "codec": "auto", **settings}
    plan = plan_of(source, output, JobSettings(**wanted))
    run(plan, output.parent / f"{output.stem}-job")
    return plan


def checker(size: Size) -> np.ndarray:
    y, x = np.mgrid[: size.height, : size.width]
    return ((x + y) % 2 * 255).astype(np.uint8)


def test_fine_lines_of_a_picture_keep_their_light_when_a_result_is_reduced(tmp_path: Path) -> None:
    model, source, output = repeating(tmp_path / "x4.pth", upscale=4), tmp_path / "a.png", tmp_path
    Image.fromarray(checker(Size(64, 48))).convert("RGB").save(source)
    plan = upscaled(source, output / "b.png", model, width=32, height=24)
    assert (plan.work.scale, plan.picture.size) == (4, Size(32, 24))
    found = np.asarray(Image.open(output / "b.png"))
    assert np.abs(found[4:-4, 4:-4].astype(int) - 188).max() <= 2, "half of the light in sRGB"


@NEEDS_FFMPEG
def test_fine_lines_of_a_film_keep_their_light_when_a_result_is_reduced(tmp_path: Path) -> None:
    model, film = repeating(tmp_path / "x4.pth", upscale=4), tmp_path / "a.mkv"
    Image.fromarray(checker(Size(64, 48))).save(tmp_path / "a.png")
    ffmpeg("-i", tmp_path / "a.png", "-pix_fmt", "yuv444p", "-c:v", "ffv1", film)
    upscaled(film, tmp_path / "b.mkv", model, height=24, codec="ffv1")
    (luma,) = planes_of(tmp_path / "b.mkv")
    wanted = 16 + 219 * 0.5 ** (1 / 2.4)
    assert np.abs(luma[4:-4, 4:-4] - wanted).max() <= 2, "half of the light of BT.1886"


@pytest.mark.parametrize("scale", [2, 4])
def test_a_factor_between_scales_gives_the_place_of_each_pixel(scale: int, tmp_path: Path) -> None:
    """A white square stays where it was, whatever the model makes meanwhile."""
    model, source = repeating(tmp_path / "x.pth", upscale=scale), tmp_path / "a.png"
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[10:30, 20:40] = 255
    Image.fromarray(picture).save(source)
    for factor in (1, 2, 3, 4):
        size = {"width": 60 * factor, "height": 40 * factor}
        output = tmp_path / f"{factor}.png"
        upscaled(source, output, model, **size)
        found = np.asarray(Image.open(output)).astype(float) / 255
        edges = np.flatnonzero(found[20 * factor, :, 0] > 0.5)
        assert (edges[0], edges[-1]) == (20 * factor, 40 * factor - 1), factor
        edges = np.flatnonzero(found[:, 30 * factor, 0] > 0.5)
        assert (edges[0], edges[-1]) == (10 * factor, 30 * factor - 1), factor


@pytest.mark.parametrize("transfer", ["bt709", "iec61966-2-1", "smpte2084", "arib-std-b67"])
@pytest.mark.parametrize("result", [Size(320, 180), Size(480, 270)], ids=str)
def test_reducing_takes_no_more_than_was_planned(transfer: str, result: Size) -> None:
    media, plan = a_media(tags=ColourTags(transfer=transfer)), a_plan()
    plan = replace(plan, picture=replace(plan.picture, size=result))
    restore = Restore(media.video, plan)
    size, planned = media.video.size, stage_peaks(plan)["restore"].host
    with torch.inference_mode():
        restore.run(torch.rand(1, 3, size.height, size.width), None)  # what torch loads once
        with Allocations() as found:
            made = restore.run(torch.rand(1, 3, size.height, size.width), None)
    assert made[1].shape[-1] == result.width
    assert found.peak_bytes <= planned <= 1.6 * found.peak_bytes
