"""Tiles of the decoder on a tiny model: the halo, the grid, what cannot be cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.streams import SeedVr2DecodeStream
from engine.models.seedvr2.vae.tiling import Tiling, halo, split_tiles
from engine.tiling.grid import tile_grid
from tests.helpers.vaes import ROWS, fast_of

ROW = ROWS["seedvr2"]


@pytest.fixture(scope="module")
def fast() -> FastVae:
    found: FastVae = fast_of("seedvr2")
    return found


@pytest.fixture(scope="class")
def frozen() -> Iterator[None]:
    with ROW.frozen():
        yield


def decoded(vae: FastVae, size: Size, steps: int, tiling: Tiling | None) -> Tensor:
    """Frames [T, 3, H, W] of random latents."""
    torch.manual_seed(1)
    latents = torch.randn(steps, size.height, size.width, 3, dtype=torch.float64)
    stream = SeedVr2DecodeStream(vae, size.scaled(8), tiling, lambda _: None)
    with torch.inference_mode():
        return torch.cat(list(stream.push(latents, last=True)))


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.usefixtures("frozen")
class TestFrozenStatistics:
    @settings(max_examples=25, deadline=None)
    @given(
        size=st.builds(Size, st.integers(1, 15), st.integers(1, 9)),
        steps=st.integers(1, 3),
        tile=st.builds(Size, st.integers(17, 22), st.integers(17, 22)),
        blend=st.integers(0, 8),
    )
    def test_with_frozen_statistics_tiles_are_the_whole_frame(self, fast, size, steps, tile, blend):
        expected = decoded(fast, size, steps, None)
        found = decoded(fast, size, steps, Tiling(tile=tile.scaled(4), blend=blend))
        assert error(found, expected) < 1e-6

    def test_a_halo_of_one_less_would_show(self, fast, monkeypatch):
        size, tiling = Size(11, 9), Tiling(tile=Size(52, 52), blend=0)  # in both directions
        expected = decoded(fast, size, 1, None)
        assert error(decoded(fast, size, 1, tiling), expected) < 1e-6
        monkeypatch.setattr(
            "engine.models.seedvr2.vae.tiling.halo", lambda config: halo(config) - 1
        )
        assert error(decoded(fast, size, 1, tiling), expected) > 1e-5


def test_tiles_of_the_published_model():
    assert halo(VAE) * 4 == 24
    tiles = split_tiles(VAE, Size(240, 136), Size(1024, 1024), 0)
    assert tiles.canvas == Size(1920, 1088)
    assert {box.size for box in tiles.boxes} == {Size(246, 142)}


@settings(max_examples=25, deadline=None)
@given(
    frame=st.builds(Size, st.integers(1, 120), st.integers(1, 120)),
    size=st.builds(Size, st.integers(29, 90), st.integers(29, 90)),
    blend=st.integers(0, 8),
)
def test_tiles_are_never_larger_nor_more_than_was_said(frame, size, blend):
    tiles = split_tiles(VAE, frame, size.scaled(4), blend)
    assert len(tiles.boxes) <= len(tile_grid(tiles.features, size, 12 + -(-blend // 4)))
    assert tiles.boxes[0].width <= size.width
    assert tiles.boxes[0].height <= size.height
    for left, right in itertools.pairwise(tiles.boxes):
        assert left.y != right.y or left.right - right.x >= 12


def test_what_cannot_be_split_is_refused():
    with pytest.raises(ValueError, match="multiple of 4"):
        split_tiles(VAE, Size(100, 100), Size(250, 256), 0)
    with pytest.raises(ValueError, match="overlap"):
        split_tiles(VAE, Size(100, 100), Size(96, 96), 0)
