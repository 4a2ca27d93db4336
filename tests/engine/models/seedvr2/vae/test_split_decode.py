"""Split decode of a tiny model: the halo, the record of the norms' statistics, what a seam is."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Box, Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.norm_statistics import Book, Statistics
from engine.models.seedvr2.vae.split_decode import split_decode
from engine.models.seedvr2.vae.tiling import halo, norms_of_high_part, split_tiles
from engine.ops.conv.causal_conv import Carry
from engine.ops.norm.group_norm import group_statistics
from engine.ops.transfer.tile_canvas import TileSink
from engine.settings.optimisations import VaeSwitches
from engine.tiling.grid import tile_grid
from tests.helpers.split_vae import TINY, PlainSplit, tiny_vae
from tests.helpers.tensors import FloatSink

LATENT = Size(11, 1)
TILE = Size(52, 8)  # three tiles side by side
WHOLE = LATENT.scaled(8)


def latent_of(steps: int, *, size: Size = LATENT) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(1, 3, steps, size.height, size.width, dtype=torch.float64)


def whole(vae, latent: Tensor) -> Tensor:
    return vae.decode(latent)[0].transpose(0, 1)


def split(vae: PlainSplit, latent: Tensor, size: Size = WHOLE, **options) -> Tensor:
    sink = FloatSink(4 * (latent.shape[2] - 1) + 1, size)
    options = {"tile": TILE, "blend": 0, "tile_statistics": "frame"} | options
    split_decode(vae, latent, sink=sink, **options)
    return sink.result()


def assert_equal(result: Tensor, expected: Tensor) -> None:
    assert result.shape == expected.shape
    assert (result - expected).abs().max() <= 1e-10 * expected.abs().max()


@pytest.fixture(scope="module")
def plain():
    return tiny_vae()


@pytest.fixture(scope="module")
def fast(plain):
    return FastVae(TINY, plain.state_dict(), dtype=torch.float64)


def test_the_fast_form_in_tiles_with_as_many_passes_as_norms_is_the_whole_frame(fast, plain):
    latent = latent_of(3)
    result = split(fast, latent, passes=norms_of_high_part(TINY))
    assert_equal(result, whole(plain, latent))


def test_the_fast_form_in_tiles_is_the_plain_form_in_tiles(fast, plain):
    latent = latent_of(2)
    for options in ({"tile_statistics": "tile", "tile": Size(60, 8), "blend": 4}, {"passes": 1}):
        assert_equal(split(fast, latent, **options), split(PlainSplit(plain), latent, **options))


class Spy(Statistics):
    """Keeps the statistics that every norm was given."""

    def __init__(self, known, record, cell, features):
        super().__init__(known, record, cell, features)
        self.given = {}
        Spy.latest = self

    def for_norm(self, name, x, groups, *, kernels=False):
        self.given[name] = super().for_norm(name, x, groups)
        return self.given[name]


@pytest.mark.parametrize("passes", [1, 3])
def test_each_pass_makes_one_more_norm_exact(fast, monkeypatch, passes):
    latent = latent_of(1)
    features, _ = fast.decode_low(latent, Carry())
    spy = Spy(None, None, Box(0, 0, 1, 1), Size(1, 1))
    fast.decode_high(features, Carry(), spy)
    monkeypatch.setattr("engine.models.seedvr2.vae.split_decode.Statistics", Spy)
    split(fast, latent, passes=passes)
    errors = [
        float((given.m2 / given.count - spy.given[name].m2 / spy.given[name].count).abs().max())
        for name, given in Spy.latest.given.items()
    ]
    assert len(errors) == norms_of_high_part(TINY)
    assert max(errors[:passes]) < 1e-12
    assert min(errors[passes:]) > 1e-9


def test_a_tile_of_the_whole_frame_needs_no_pass(plain):
    vae, latent = PlainSplit(plain), latent_of(3)
    for statistics in ("tile", "frame"):
        vae.calls = 0
        result = split(vae, latent, tile=WHOLE, tile_statistics=statistics)
        assert_equal(result, whole(plain, latent))
        assert vae.calls == 2


class FrozenStatistics(Statistics):
    """Every norm uses the same statistics, whatever its input."""

    def for_norm(self, name, x, groups, *, kernels=False):
        fixed = group_statistics(torch.ones(x.shape[0], groups, 1, 1, dtype=x.dtype), groups)
        return type(fixed)(1, fixed.mean * 0.1, fixed.m2 + 0.3)


class Frozen:
    """A form of the VAE whose norms do not depend on what they see."""

    def __init__(self, vae) -> None:
        self.config, self.decode_low, self._vae = vae.config, vae.decode_low, vae
        self.calls = 0

    def decode_high(self, features, carry, statistics):
        self.calls += 1
        frozen = FrozenStatistics(None, None, Box(0, 0, 1, 1), Size(1, 1))
        return self._vae.decode_high(features, carry, frozen)


@settings(max_examples=25, deadline=None)
@given(
    width=st.integers(1, 15),
    height=st.integers(1, 9),
    steps=st.integers(1, 3),
    tile=st.builds(Size, st.integers(17, 22), st.integers(17, 22)),
    blend=st.integers(0, 8),
)
def test_with_frozen_statistics_tiles_are_the_whole_frame(fast, width, height, steps, tile, blend):
    vae, size = Frozen(fast), Size(width * 8, height * 8)
    latent = latent_of(steps, size=Size(width, height))
    options = {"tile_statistics": "tile", "size": size}
    expected = split(vae, latent, tile=size, **options)
    result = split(vae, latent, tile=tile.scaled(4), blend=blend, **options)
    assert_equal(result, expected)


def test_tiles_in_both_directions_are_the_whole_frame(fast):
    vae, size = Frozen(fast), Size(9 * 8, 7 * 8)
    latent = latent_of(1, size=Size(9, 7))
    options = {"tile_statistics": "tile", "size": size}
    expected = split(vae, latent, tile=size, **options)
    vae.calls = 0
    result = split(vae, latent, tile=Size(52, 52), **options)
    assert vae.calls == 4
    assert_equal(result, expected)


def test_a_halo_of_one_less_would_show(fast, monkeypatch):
    vae, latent = Frozen(fast), latent_of(1)
    expected = split(vae, latent, tile=WHOLE, tile_statistics="tile")
    monkeypatch.setattr("engine.models.seedvr2.vae.tiling.halo", lambda config: halo(config) - 1)
    result = split(vae, latent, tile_statistics="tile")
    assert (result - expected).abs().max() > 1e-9


def test_switches_change_nothing(fast, plain):
    latent = latent_of(2)
    expected = split(fast, latent)
    for switches in (VaeSwitches.all_off(), VaeSwitches(planned_buffers=False, convolution="3d")):
        other = FastVae(TINY, plain.state_dict(), dtype=torch.float64, switches=switches)
        assert_equal(split(other, latent), expected)


def test_features_on_the_host_change_nothing(plain):
    latent = latent_of(1)
    kept = split(PlainSplit(plain), latent)
    assert torch.equal(split(PlainSplit(plain), latent, park=True), kept)


def test_a_sink_of_16_bits_takes_what_the_float_sink_takes(plain):
    latent, options = latent_of(2), {"tile": Size(60, 8), "blend": 4, "tile_statistics": "tile"}
    weights = dict(plain.state_dict())
    for name in ("decoder.conv_out.weight", "decoder.conv_out.bias"):
        weights[name] = weights[name] / 8  # frames stay within [-1, 1]
    sink, quiet = TileSink(5, WHOLE), FastVae(TINY, weights, dtype=torch.float64)
    split_decode(quiet, latent, sink=sink, **options)
    exact = split(quiet, latent, **options) * 0.5 + 0.5
    assert 0.01 < exact.min() < exact.max() < 0.99  # nothing was clipped before it was blended
    error = sink.result().double() - exact.permute(0, 2, 3, 1) * 65535
    assert error.abs().max() <= 2 * 0.52


def test_values_too_large_for_half_precision_are_an_error_of_the_first_tile(plain):
    weights = dict(plain.state_dict())
    weights["decoder.conv_out.weight"] = weights["decoder.conv_out.weight"] * 3e5
    vae = FastVae(TINY, weights, dtype=torch.float16)
    options = {"tile": TILE, "blend": 0, "tile_statistics": "tile", "sink": TileSink(1, WHOLE)}
    with pytest.raises(NumericOverflow, match="float16"):
        split_decode(vae, latent_of(1).half(), **options)


class Overlaps:
    """Compares what two neighbours say about the pixels that both of them show."""

    def __init__(self) -> None:
        self.seen: list[tuple[Box, Tensor]] = []
        self.most = 0.0
        self.pixels = 0

    def add(self, part: Tensor, window: Box, start: int, weight: Tensor | None) -> None:
        for other, there in self.seen if start == 0 else []:
            left, right = max(other.x, window.x), min(other.right, window.right)
            if left < right:
                mine = part[..., left - window.x : right - window.x]
                theirs = there[..., left - other.x : right - other.x]
                self.most = max(self.most, float((mine - theirs).abs().max()))
                self.pixels += mine.numel()
        self.seen.append((window, part.clone()))

    def check(self) -> None:
        pass


def test_neighbours_disagree_by_themselves_and_agree_with_statistics_of_the_frame(fast):
    latent = latent_of(1)
    options = {"tile": Size(68, 8), "blend": 8}
    found = {}
    for statistics in ("tile", "frame"):
        sink = Overlaps()
        split_decode(fast, latent, sink=sink, tile_statistics=statistics, **options)
        assert sink.pixels >= 8 * 8 * 3
        found[statistics] = sink.most
    assert found["tile"] > 1e-3
    assert found["frame"] < 1e-12


def test_tiles_of_the_published_model():
    assert halo(VAE) * 4 == 24
    assert norms_of_high_part(VAE) == 13
    tiles = split_tiles(VAE, Size(240, 136), Size(1024, 1024), 0)
    assert tiles.canvas == Size(1920, 1088)
    assert {box.size for box in tiles.boxes} == {Size(246, 142)}
    assert 1.06 < tiles.work < 1.08


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


def test_what_cannot_be_split_is_refused(plain):
    with pytest.raises(ValueError, match="multiple of 4"):
        split_tiles(VAE, Size(100, 100), Size(250, 256), 0)
    with pytest.raises(ValueError, match="overlap"):
        split_tiles(VAE, Size(100, 100), Size(96, 96), 0)
    with pytest.raises(ValueError, match="2 clips"):
        split(PlainSplit(plain), latent_of(1).expand(2, -1, -1, -1, -1))
    tile = Statistics(None, Book(), Box(0, 0, 2, 2), Size(4, 4))
    with pytest.raises(ValueError, match="multiple"):
        tile.for_norm("a", torch.zeros(1, 4, 8, 9), 4)
