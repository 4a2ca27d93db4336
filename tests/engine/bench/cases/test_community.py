"""Community models against spandrel's plain call, with a very small network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.bench.cases import community
from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.models.community.library import spandrel
from engine.models.user_files import describe

OPTIONS = BenchOptions(device="cpu", runs=1, threads=1, size=Size(256, 64))
TINY = community.Network("Compact", "Compact", {"num_feat": 8, "num_conv": 2, "upscale": 2})


def test_a_network_has_a_row_for_whole_frames_and_one_for_tiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(community, "NETWORKS", {"tiny": TINY})
    with torch.inference_mode():
        whole, tiles = community.community_rows(OPTIONS)
    assert (whole["model"], tiles["model"]) == ("tiny", "tiny")
    assert (whole["tiles"], whole["operations"]) == (1, 1)
    assert tiles["tiles"] == 2
    assert tiles["operations"] == pytest.approx(2 * 192 / 256)
    for row in (whole, tiles):
        assert row["speed_per_operation"] == pytest.approx(row["speed"] * row["operations"])
        assert row["seconds"] > 0 < row["peak_mib"]
        assert 1 / 1.10 <= row["planned"] <= 1.10


@pytest.mark.slow
@pytest.mark.parametrize("title", community.NETWORKS)
def test_the_networks_are_recognised(title: str, tmp_path: Path) -> None:
    network = community.NETWORKS[title]
    network.write(tmp_path / "a.safetensors")
    found = describe(tmp_path / "a.safetensors").network
    assert found is not None
    assert found.scale == 4
    assert found.architecture == spandrel().MAIN_REGISTRY[network.architecture].architecture.name
