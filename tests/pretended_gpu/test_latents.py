"""A video encoded to latents on the pretended GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from safetensors.torch import load_file
from torch import Tensor

from engine.core.geometry import Size
from engine.models.wan.family import WanFamily
from engine.pipeline import latents_encode, recovery
from engine.pipeline.latents_encode import encode_latents
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import Clip, make_clip
from tests.helpers.plans import GIB, a_budget
from tests.helpers.wan import tiny_wan_config, write_wan
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.test_jobs import REFUSAL

pytestmark = [
    pytest.mark.pretended_gpu,
    pytest.mark.usefixtures("figures_of_published_vaes"),
]

TILE = Size(256, 64)
SWITCHES = "vae.convolution=3d"


def test_pinned_memory_refused_late_costs_the_pinning_and_not_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = make_clip(tmp_path / "film.mkv", Clip(size=(272, 64), frames=5))
    vae = tmp_path / "wan21-vae.safetensors"
    write_wan(vae, tiny_wan_config("2.1"))
    budget = a_budget(cuda=True, vram_bytes=8 * GIB, capability=(8, 9))
    monkeypatch.setattr(latents_encode, "measure_budget", lambda *_, **__: budget)
    monkeypatch.setattr(recovery.devices, "in_use", lambda: Mock(free_bytes=2**33))
    monkeypatch.setattr(WanFamily, "fitted", lambda *args: replace(args[1], encode_tile=TILE))
    monkeypatch.setattr(WanFamily, "smaller", Mock(side_effect=AssertionError("a smaller plan")))

    def encoded(name: str, device: str) -> Tensor:
        options = {"device": device, "vae_precision": "float32", "switches": SWITCHES}
        settings = JobSettings(latent_vae=str(vae), **options)
        target = tmp_path / name
        encode_latents(film, target, "wan21-vae", settings, EngineSettings())
        return load_file(target)["latent_tensor"]

    with pretended_gpu() as gpu:
        launch, refused = gpu.launch, list[int]()

        def pinned_bytes() -> int:
            return sum(size for (kind, _), size in gpu.record.copies.items() if "pinned" in kind)

        def failing(*args: Any) -> None:
            if pinned_bytes() > sum(refused):
                refused.append(pinned_bytes())
                raise RuntimeError(REFUSAL)
            launch(*args)

        monkeypatch.setattr(gpu, "launch", failing)
        found = encoded("gpu.latent", "cuda")
    assert len(refused) == 1
    assert (found - encoded("cpu.latent", "cpu")).abs().max() < 1e-5
