"""Levels below black and above white, which models keep that take and give 0 to 1 as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine.settings.schema import JobSettings
from engine.verification.verify import verify
from tests.helpers.community import network, write_state
from tests.helpers.fields import write_planes
from tests.helpers.jobs import plan_of, planes_of, run

BLACK, WHITE, NOISE = 16, 235, 6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Community models that copy pixels, once and twice as large; each is measured once."""
    folder, found = tmp_path_factory.mktemp("models"), []
    for scale in (1, 2):
        state = network("Compact", upscale=scale).state_dict()
        zeros = {name: torch.zeros_like(value) for name, value in state.items()}
        found.append(str(write_state(folder / f"copies_x{scale}.pth", zeros)))
    return found


def _settings(kind: str, files: list[str]) -> JobSettings:
    """Settings of a built-in treatment, or of community models."""
    if not kind.startswith("community"):
        return JobSettings(model="lite", treatment=kind, codec="ffv1")
    first = files[0] if kind != "community" else ""
    return JobSettings(model="community", model_file=files[1], first_model=first, codec="ffv1")


@pytest.mark.parametrize("level", [BLACK, WHITE + 12])
@pytest.mark.parametrize("kind", ["faithful", "restore", "community", "community after another"])
def test_noise_around_black_and_lights_above_white_keep_their_level(
    kind: str, level: int, tmp_path: Path, files: list[str]
) -> None:
    """Cut off at black, its mean would be 2 levels brighter: a grey veil over each fade."""
    rng = np.random.default_rng(1)
    grey = np.full((24, 32), 128, np.uint8)
    frames = [
        (rng.integers(level - NOISE, level + NOISE + 1, (48, 64)).astype(np.uint8), grey, grey)
        for _ in range(4)
    ]
    film = write_planes(tmp_path / "film.mkv", frames, "yuv420p")
    settings = _settings(kind, files)
    plan = plan_of(film, tmp_path / "out.mkv", settings)
    run(plan, tmp_path / "job")
    for made, given in zip(planes_of(plan.output), planes_of(film), strict=True):
        assert abs(made.mean() - given.mean()) < 0.3
    report = verify(film, plan.output)
    assert report.passed, report.problems
