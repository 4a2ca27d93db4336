from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.bench.cases import models
from engine.bench.run import BenchOptions, vae_models
from engine.core.geometry import Size
from engine.models.community.library import spandrel
from engine.models.contracts import BenchWork
from engine.models.seedvr2.dit import random_dit
from engine.models.swiftvr import upscaler
from engine.models.swiftvr.dit.config import SWIFT_DIT
from engine.models.user_files import describe
from tests.engine.models.vae_contract.test_memory import Operations
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config
from tests.helpers.wan import tiny_wan_config

OPTIONS = BenchOptions(device="cpu", size=Size(32, 32), quick=True, runs=1, threads=1)


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    wan = tiny_wan_config()
    configs = {
        "seedvr2-vae": tiny_config(),
        "wan21-vae": wan,
        "wan22-vae": wan,
        "wan-2x": replace(wan, out_channels=12),
    }
    for name, vae in vae_models().items():
        monkeypatch.setitem(vae_models(), name, replace(vae, config=configs[name]))
    for kind in random_dit.KINDS:
        monkeypatch.setitem(random_dit.MIDDLE, kind, tiny_dit_config())
    monkeypatch.setattr(upscaler, "NARROW", replace(SWIFT_DIT, heads=1, layers=2, hidden=64))


@pytest.mark.extended
def test_every_model_has_a_row() -> None:
    rows = {row["model"]: row for row in models.model_rows(OPTIONS)}
    vaes = ("SeedVR2 VAE", "Wan 2.1 VAE", "Wan 2.2 VAE")
    assert list(rows) == [
        *("Lite 2x", "Lite 4x", "Lite Plus 2x", "Lite Plus 4x"),
        *(f"{vae}, {side}" for vae in vaes for side in ("encode", "decode")),
        "Wan 2x, decode",
        *(f"SeedVR2 transformer, {kind} kind" for kind in ("3b", "7b")),
        "SwiftVR, 25 frames",
    ]
    for row in rows.values():
        assert row["megapixels_per_second"] > 0
        ceiling = models._ceiling("cpu", row["dtype"])
        assert row["ceiling_percent"] == pytest.approx(100 * row["tflop_per_s"] * 1e12 / ceiling)
        assert row["peak_mib"] > 0
    works = dict(models._models(OPTIONS))  # speeds are of the result
    assert works["Lite 4x"]().megapixels == pytest.approx(2 * 128 * 128 / 1e6)
    twice = works["Wan 2x, decode"]()
    assert twice.megapixels == pytest.approx(5 * 64 * 64 / 1e6)
    assert twice.compute().shape[-1] == 64  # type: ignore[attr-defined]  # a tensor
    shot = works["SwiftVR, 25 frames"]()
    with Operations() as ran:
        parts: Any = shot.compute()
    assert sum(len(part.frames) for part in parts) == 25
    assert ran.total == pytest.approx(shot.operations, rel=0.05)


def test_a_lack_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> BenchWork:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(models, "_models", lambda options: iter([("a model", fail)]))
    (row,) = models.model_rows(OPTIONS)
    texts = {name: str(value) for name, value in row.items()}
    assert texts == {"model": "a model", "note": "not enough memory"}


COMMUNITY = BenchOptions(device="cpu", runs=1, threads=1, size=Size(256, 64))
TINY = models.Network("Compact", "Compact", {"num_feat": 8, "num_conv": 2, "upscale": 2})


def test_a_network_has_a_row_for_whole_frames_and_one_for_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "NETWORKS", {"tiny": TINY})
    with torch.inference_mode():
        whole, tiles = models.community_rows(COMMUNITY)
    assert (whole["model"], tiles["model"]) == ("tiny", "tiny")
    assert (whole["tiles"], whole["operations"]) == (1, 1)
    assert tiles["tiles"] == 2
    assert tiles["operations"] == pytest.approx(2 * 192 / 256)
    for row in (whole, tiles):
        assert row["speed_per_operation"] == pytest.approx(row["speed"] * row["operations"])
        assert row["seconds"] > 0 < row["peak_mib"]
        assert 1 / 1.10 <= row["planned"] <= 1.10


@pytest.mark.slow
@pytest.mark.parametrize("title", models.NETWORKS)
def test_the_networks_are_recognised(title: str, tmp_path: Path) -> None:
    network = models.NETWORKS[title]
    network.write(tmp_path / "a.safetensors")
    found = describe(tmp_path / "a.safetensors").network
    assert found is not None
    assert found.scale == 4
    assert found.architecture == spandrel().MAIN_REGISTRY[network.architecture].architecture.name
