"""Tiles with blended overlaps, the rules one by one; the golden check has their numbers."""

from __future__ import annotations

from math import cos, pi
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from engine.models.video_vae.slicing import SlicedVae
from engine.ops.conv.causal_conv import Carry
from tests.reference.tiled_vae import tiled_decode, tiled_encode


class BlockVae(SlicedVae):
    """A latent position is the mean of its 4x4 pixels plus the number of the tile."""

    config = SimpleNamespace(spatial_factor=4, temporal_factor=1, slice_latents=1)

    def __init__(self, *, numbered: bool = False) -> None:
        self.tiles: list[tuple[int, int]] = []
        self._numbered = numbered

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        blocks = frames.unfold(3, 4, 4).unfold(4, 4, 4)
        latent = blocks.mean(dim=(5, 6)) + self._number(frames)
        return torch.cat((latent, latent), dim=1), carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        frames = latent.repeat_interleave(4, dim=3).repeat_interleave(4, dim=4)
        return frames + self._number(latent), carry

    def _number(self, tile: Tensor) -> int:
        self.tiles.append((tile.shape[3], tile.shape[4]))
        return len(self.tiles) - 1 if self._numbered else 0


SIDE = st.tuples(st.integers(1, 7), st.integers(4, 24), st.integers(0, 30))
"""Length in latent positions, tile and overlap in pixels."""


@settings(max_examples=20, deadline=None)
@given(SIDE, SIDE)
def test_tiles_of_a_model_without_a_view_beyond_its_position_equal_the_whole(
    rows: tuple[int, int, int], columns: tuple[int, int, int]
) -> None:
    vae = BlockVae()
    (height, width), tile, overlap = zip(rows, columns, strict=True)
    frames = torch.rand(1, 1, 1, 4 * height, 4 * width, dtype=torch.float64)
    torch.testing.assert_close(tiled_encode(vae, frames, tile, overlap), vae.encode(frames))
    whole = [min(given, side - 4) // 4 * 4 for given, side in zip(overlap, tile, strict=True)]
    latent = torch.rand(1, 1, 1, height, width, dtype=torch.float64)
    result = tiled_decode(vae, latent, tile, (whole[0], whole[1]))
    torch.testing.assert_close(result, vae.decode(latent))


def test_starts_last_tile_and_the_one_that_is_left_out() -> None:
    vae = BlockVae()
    tiled_decode(vae, torch.zeros(1, 1, 1, 10, 11), (24, 28), (8, 8))
    # Rows 0-6, 4-10 and not 8-10; columns 0-7, 5-11 (cut at the border) and not 10-11.
    assert vae.tiles == [(6, 7), (6, 6), (6, 7), (6, 6)]


def test_a_picture_in_one_tile_is_not_touched() -> None:
    vae = BlockVae()
    latent = torch.rand(1, 1, 1, 4, 4)
    assert torch.equal(tiled_decode(vae, latent, (16, 19), (8, 8)), vae.decode(latent))
    assert vae.tiles[0] == (4, 4)


def test_a_tile_below_one_position_is_one_position() -> None:
    vae = BlockVae()
    tiled_decode(vae, torch.zeros(1, 1, 1, 2, 3), (1, 4), (30, 30))
    assert vae.tiles == [(1, 1)] * 6


def ramp(count: int) -> list[float]:
    return [0.5 - 0.5 * cos(pi * i / (count - 1)) if count > 1 else 0.0 for i in range(count)]


def test_the_ramp_of_an_encoded_tile_counts_latent_positions() -> None:
    frames = torch.zeros(1, 3, 1, 4, 4 * 9, dtype=torch.float64)
    result = tiled_encode(BlockVae(numbered=True), frames, (4, 24), (0, 12))[0, 0, 0, 0]
    # Two tiles of six positions that share three: the result is the weight of the second one.
    assert result.tolist() == pytest.approx([0, 0, 0, *ramp(3), 1, 1, 1])


def test_the_ramp_of_a_decoded_tile_counts_pixels_as_given() -> None:
    latent = torch.zeros(1, 1, 1, 1, 5, dtype=torch.float64)
    result = tiled_decode(BlockVae(numbered=True), latent, (4, 12), (0, 6))[0, 0, 0, 0]
    # Tiles 0-3 and 2-5 share one position, four pixels; both ramps have six.
    rising = ramp(6)
    falling = [1 - weight for weight in rising]
    first = [1.0] * 6 + falling
    second = [*rising, *[1.0] * 6]
    shared = [b / (a + b) for a, b in zip(first[8:], second[:4], strict=True)]
    assert result.tolist() == pytest.approx([0] * 8 + shared + [1] * 8)


def test_a_ramp_of_one_sample_cuts_hard() -> None:
    frames = torch.zeros(1, 3, 1, 4, 4 * 5, dtype=torch.float64)
    result = tiled_encode(BlockVae(numbered=True), frames, (4, 12), (0, 4))[0, 0, 0, 0]
    assert result.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("tile", "overlap"), [((0, 8), (0, 0)), ((8, 8), (0, -1))])
def test_impossible_tiles_are_a_mistake(tile: tuple[int, int], overlap: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="tile"):
        tiled_decode(BlockVae(), torch.zeros(1, 1, 1, 4, 4), tile, overlap)


def test_every_tile_keeps_the_type() -> None:
    frames = torch.rand(1, 3, 1, 8, 40).half()
    assert tiled_encode(BlockVae(), frames, (8, 16), (0, 8)).dtype == torch.float16


def test_tiles_are_blended_as_means() -> None:
    class Refusing(BlockVae):
        def encode(self, frames: Tensor, generator: Generator | None = None) -> Tensor:
            assert generator is None
            return super().encode(frames)

    tiled_encode(Refusing(), torch.zeros(1, 3, 1, 8, 40), (8, 16), (0, 8))
