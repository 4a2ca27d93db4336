"""Jobs with a model that sees neighbours: the same pictures wherever clips and tries begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.models.lite.files import LiteConfig
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tests.engine.pipeline.test_steadiness import write_film
from tests.helpers.jobs import plan_of, planes_of, run
from tests.helpers.lite import another_lite

FRAMES, SIZE, CUT = 9, Size(40, 32), 5


@pytest.fixture(autouse=True)
def _three_frames(tmp_path: Path) -> Iterator[None]:
    config = LiteConfig(scale=2, channels=8, layers=1, frames=3)
    with another_lite(tmp_path / "three.safetensors", config):
        yield


@pytest.fixture
def frames() -> list[torch.Tensor]:
    """Two noisy shots."""
    random = torch.Generator().manual_seed(3)
    scenes = [torch.rand(3, 1, 1, generator=random), torch.rand(3, 4, 5, generator=random)]
    large = [
        torch.nn.functional.interpolate(one[None], (SIZE.height, SIZE.width))[0] for one in scenes
    ]
    shots = [large[0] * 0.2 + 0.1] * CUT + [large[1] * 0.6 + 0.3] * (FRAMES - CUT)
    noise = [0.02 * torch.randn(3, SIZE.height, SIZE.width, generator=random) for _ in shots]
    return [(shot + grain).clamp(0, 1) for shot, grain in zip(shots, noise, strict=True)]


def planned(source: Path, output: Path, steadiness: str = "off") -> Plan:
    settings = JobSettings(model="lite", treatment="restore", codec="ffv1", steadiness=steadiness)
    plan = plan_of(source, output, settings)
    assert plan.work.sees_neighbours
    return replace(plan, work=replace(plan.work, dtype="float32"))


def made(plan: Plan, folder: Path) -> list[np.ndarray]:
    run(plan, folder)
    return planes_of(plan.output)


def equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> list[bool]:
    return [bool((one == other).all()) for one, other in zip(found, wanted, strict=True)]


@pytest.mark.parametrize("steadiness", ["off", "mild"])
def test_pictures_do_not_depend_on_clips_segments_and_tries(
    steadiness: str, frames: list[torch.Tensor], tmp_path: Path
) -> None:
    film = write_film(tmp_path / "film.mkv", frames)
    plan = planned(film, tmp_path / "whole.mkv", steadiness)
    whole = made(plan, tmp_path / "whole")
    for clip, segment in ((1, 3), (3, 4), (8, 1)):
        work = replace(plan.work, clip_frames=clip)
        output = tmp_path / f"{clip}.mkv"
        other = replace(plan, work=work, segment_frames=segment, output=output)
        folder = tmp_path / str(clip)
        with pytest.raises(Cancelled):
            run(other, folder, stop_after=2)
        assert all(equal(made(other, folder), whole))


def test_frames_see_those_beside_them_but_no_other_shot(
    frames: list[torch.Tensor], tmp_path: Path
) -> None:
    def result(name: str, shown: list[torch.Tensor]) -> list[np.ndarray]:
        film = write_film(tmp_path / f"{name}.mkv", shown)
        return made(planned(film, tmp_path / f"{name}_2.mkv"), tmp_path / name)

    whole = result("whole", frames)
    assert all(equal(result("first", frames[:CUT]) + result("second", frames[CUT:]), whole))
    changed = [*frames[:2], frames[2].flip(-1), *frames[3:]]
    assert equal(result("changed", changed), whole) == [n not in (1, 2, 3) for n in range(FRAMES)]
