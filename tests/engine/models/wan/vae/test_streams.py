"""A shot bit by bit, whole or in tiles, equals the shot at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Size
from engine.models.upscalers import DecodedTile
from engine.models.video_vae.frame_slices import as_clip, as_frames
from engine.models.video_vae.frame_slices import cut as cut_out
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up
from engine.models.wan.vae.split import (
    LATENTS_PER_VISIT,
    Cut,
    decode_cut,
    decode_tiles,
    encode_cut,
    encode_tiles,
    least_tile,
)
from engine.models.wan.vae.streams import Streaming, WanDecodeStream, WanEncodeStream
from engine.ops.conv.causal_conv import Carry
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

Layout = Literal["2.1", "2.2", "2x"]
LAYOUTS: tuple[Layout, ...] = ("2.1", "2.2", "2x")
FRAME = Size(80, 8)
HIGH = Size(80, 96)
WIDE = Size(288, 16)  # for 2.2, whose tiles have a large halo
EXACT = 1e-10


@cache
def vae_of(layout: Layout) -> FastWanVae:
    """Fewer blocks than published, so that small frames can be cut into tiles."""
    plain = tiny_wan(tiny_wan_config(layout, residual_blocks=1, dim=4, dec_dim=4))
    return FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)


def frame_of(vae: FastWanVae) -> Size:
    return WIDE if vae.config.layout == "2.2" else FRAME


def size_of(frames: Tensor) -> Size:
    return Size(frames.shape[-1], frames.shape[-2])


def tile_of(cut: Cut, more: tuple[int, int], upscale: int = 1) -> Size:
    """Pixels of a tile that is so many features larger than need be."""
    least = least_tile(cut)
    return Size(least + more[0], least + more[1]).scaled(cut.factor * upscale)


def frames_of(vae: FastWanVae, count: int, frame: Size | None = None) -> Tensor:
    frame = frame or frame_of(vae)
    return random_frames(count, 3, frame.height, frame.width)


def latents_of(vae: FastWanVae, count: int, frame: Size | None = None) -> Tensor:
    frame, factor = frame or frame_of(vae), vae.config.spatial_factor
    shape = (count, frame.height // factor, frame.width // factor)
    return 2 * random_frames(1, vae.config.latent_channels, *shape, seed=9)


def pushed(length: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pieces of a shot: the first has one more; the last size is used for all that follow."""
    end = 0
    for number in range(length):
        start, end = end, min(length, end + sizes[min(number, len(sizes) - 1)] + (number == 0))
        if start < length:
            yield start, end


def encoded(vae: FastWanVae, frames: Tensor, sizes: Sequence[int], **options: Any) -> Tensor:
    """Latents of frames that come in pieces of so many latents."""
    stream = WanEncodeStream(vae, size_of(frames), Streaming(**options))
    ends = [(a, b) for a, b in pushed(len(frames), [4 * size for size in sizes])]
    parts = [stream.push(frames[a:b], last=b == len(frames)) for a, b in ends]
    return torch.cat(parts, dim=2)


def decoded(
    vae: FastWanVae,
    latents: Tensor,
    sizes: Sequence[int],
    reported: list[DecodedTile] | None = None,
    **options: Any,
) -> Tensor:
    """Frames of latents that come in pieces of so many."""
    watch = (lambda _: None) if reported is None else reported.append
    frame = size_of(latents).scaled(vae.config.spatial_factor)
    stream = WanDecodeStream(vae, frame, Streaming(**options), watch)
    parts: list[Tensor] = []
    length = latents.shape[2]
    for a, b in pushed(length, sizes):
        parts += stream.push(latents[:, :, a:b], last=b == length)
    return torch.cat(parts)


def assert_same(found: Tensor, right: Tensor) -> None:
    assert found.shape == right.shape
    assert float((found - right).abs().max()) <= EXACT


PIECES = [((1,), 1), ((3, 1, 2), 2), ((2,), 3)]  # sizes of pieces, latents of a slice


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_frames_in_pieces_equal_the_shot(layout: Layout) -> None:
    vae = vae_of(layout)
    frames, latents = frames_of(vae, 21), latents_of(vae, 6)
    posterior, pictures = vae.encode(as_clip(frames)), as_frames(vae.decode(latents))
    for sizes, slice_latents in PIECES:
        assert_same(encoded(vae, frames, sizes, slice_latents=slice_latents), posterior)
        assert_same(decoded(vae, latents, sizes, slice_latents=slice_latents), pictures)


SHAPES = [("2x", FRAME), ("2.2", WIDE), ("2.1", Size(88, 88))]
SHAPES += extended(("2.1", HIGH), ("2x", HIGH))


@pytest.mark.parametrize(("layout", "frame"), SHAPES)
def test_tiles_equal_whole_frames(layout: Layout, frame: Size) -> None:
    vae = vae_of(layout)
    frames, latents = frames_of(vae, 9, frame), latents_of(vae, 3, frame)
    posterior, pictures = vae.encode(as_clip(frames)), as_frames(vae.decode(latents))
    cases = [((0, 0), (1,), 1), ((2, 1), (2, 3), 2)]
    for more, sizes, slice_latents in cases:
        tile = tile_of(encode_cut(vae.config), more)
        assert len(encode_tiles(vae.config, frame, tile)) > 1
        found = encoded(vae, frames, sizes, slice_latents=slice_latents, tile=tile)
        assert_same(found, posterior)
        tile = tile_of(decode_cut(vae.config), more, vae.config.upscale)
        assert len(decode_tiles(vae.config, frame, tile)) > 1
        found = decoded(vae, latents, sizes, slice_latents=slice_latents, tile=tile)
        assert_same(found, pictures)


LONG = LATENTS_PER_VISIT + 3


@pytest.mark.parametrize("layout", [*extended("2.2"), "2x"])
def test_tiles_go_on_where_they_stopped(layout: Layout) -> None:
    vae = vae_of(layout)
    frames, latents = frames_of(vae, 4 * LONG + 1), latents_of(vae, LONG + 1)
    whole, pictures = encoded(vae, frames, (LONG,)), decoded(vae, latents, (LONG,))
    for sizes, parks in (((1,), False), ((3,), True), ((LONG,), False)):
        tile = tile_of(encode_cut(vae.config), (1, 99))
        assert_same(encoded(vae, frames, sizes, tile=tile, parks=parks), whole)
        tile = tile_of(decode_cut(vae.config), (1, 99), vae.config.upscale)
        assert_same(decoded(vae, latents, sizes, tile=tile, parks=parks), pictures)


@pytest.mark.parametrize("layout", ["2.1", *extended("2.2")])
def test_tiles_that_begin_early_enough_are_exact_and_not_later(layout: Layout) -> None:
    vae = vae_of(layout)
    count = 2 * LATENTS_PER_VISIT + 1
    frames, latents = frames_of(vae, 4 * count + 1), latents_of(vae, count + 1)
    whole, pictures = encoded(vae, frames, (1,)), decoded(vae, latents, (1,))
    for less, same in ((0, True), (1, False)):
        tile, early = tile_of(encode_cut(vae.config), (1, 99)), encode_warm_up(vae.config) - less
        found = encoded(vae, frames, (1,), tile=tile, warm_up=early)
        worst = (found - whole).abs().amax((0, 1, 3, 4))
        assert (float(worst.max()) <= EXACT) == same
        assert float(worst[:LATENTS_PER_VISIT].max()) <= EXACT
        tile = tile_of(decode_cut(vae.config), (1, 99), vae.config.upscale)
        found = decoded(vae, latents, (1,), tile=tile, warm_up=decode_warm_up(vae.config) - less)
        worst = (found - pictures).abs().amax((1, 2, 3))
        assert (float(worst.max()) <= EXACT) == same
        assert float(worst[: 4 * LATENTS_PER_VISIT - 3].max()) <= EXACT


def test_decoded_tiles_are_reported_with_their_place_and_number() -> None:
    vae, reported = vae_of("2x"), list[DecodedTile]()
    tile = tile_of(decode_cut(vae.config), (1, 99), 2)
    frames = decoded(vae, latents_of(vae, LONG), (1,), reported, tile=tile)
    boxes = [one.inner.scaled(8) for one in decode_tiles(vae.config, FRAME, tile)]
    ends = [4 * LATENTS_PER_VISIT - 4, 4 * LONG - 4]
    places = [(index, frame) for frame in ends for index in range(len(boxes))]
    assert [(one.index, one.frame) for one in reported] == places
    for one in reported:
        assert (one.tiles, one.box) == (len(boxes), boxes[one.index])
        right = cut_out(frames[one.frame], one.box)
        torch.testing.assert_close(one.picture, right.float(), rtol=0, atol=0)
    reported.clear()
    stream = WanDecodeStream(vae, FRAME, watch=reported.append, first=40)
    frames = torch.cat(list(stream.push(latents_of(vae, 3), last=True)))
    assert [(one.index, one.tiles, one.frame) for one in reported] == [(0, 1, 44), (0, 1, 48)]
    assert reported[0].box.size == FRAME.scaled(2)
    torch.testing.assert_close(reported[-1].picture, frames[-1].float(), rtol=0, atol=0)


def test_nothing_comes_before_enough_is_there_for_a_visit() -> None:
    vae = vae_of("2.1")
    tile = tile_of(encode_cut(vae.config), (1, 99))
    stream = WanEncodeStream(vae, FRAME, Streaming(tile=tile))
    frames = frames_of(vae, 4 * LATENTS_PER_VISIT - 3)
    early = stream.push(frames[:1], last=False)
    assert early.shape == (1, 16, 0, FRAME.height // 8, FRAME.width // 8)
    assert stream.push(frames[1:-4], last=False).shape[2] == 0
    assert stream.push(frames[-4:], last=False).shape[2] == LATENTS_PER_VISIT


def test_values_that_are_no_numbers_are_refused() -> None:
    vae = vae_of("2.1")
    frames, latents = frames_of(vae, 5), latents_of(vae, 2)
    frames[3, 0, 5, 70] = latents[0, 3, 1, 0, 9] = torch.nan
    for tile in (None, Size(68, 68)):
        for run, given, part in ((encoded, frames, "encoder"), (decoded, latents, "decoder")):
            words = f"values of the {part} became too large for float64"
            with pytest.raises(NumericOverflow, match=words):
                run(vae, given, (1,), tile=tile)


def test_the_plain_form_takes_whole_frames_only() -> None:
    plain = tiny_wan(tiny_wan_config("2.1", residual_blocks=1, dim=4, dec_dim=4))
    frames = random_frames(5, 3, FRAME.height, FRAME.width)
    stream = WanEncodeStream(plain, FRAME)
    assert_same(stream.push(frames, last=True), plain.encode(as_clip(frames)))
    with pytest.raises(ValueError, match="only the fast variant"):
        WanDecodeStream(plain, FRAME, Streaming(tile=Size(68, 68)))


def test_the_caller_may_stop_the_work_between_slices_and_tiles() -> None:
    vae = vae_of("2.1")
    tile = tile_of(encode_cut(vae.config), (1, 99))
    tiles = len(encode_tiles(vae.config, FRAME, tile))
    for streaming, wanted in ((Streaming(), 2), (Streaming(tile=tile), 2 + 2 * tiles)):  # 2 slices
        calls: list[int] = []
        stream = WanEncodeStream(vae, FRAME, streaming, lambda to=calls: to.append(0))
        stream.push(frames_of(vae, 9), last=True)
        assert len(calls) == wanted


def test_half_precision_comes_out_in_float32_and_the_same_in_tiles() -> None:
    plain = tiny_wan(tiny_wan_config("2x", residual_blocks=1, dim=4, dec_dim=4))
    vae = FastWanVae(plain.config, plain.state_dict(), dtype=torch.bfloat16)
    frames = frames_of(vae, 5).float()
    tile = tile_of(encode_cut(vae.config), (1, 99))
    whole, tiled = encoded(vae, frames, (1,)), encoded(vae, frames, (1,), tile=tile)
    assert whole.dtype == tiled.dtype == torch.bfloat16
    torch.testing.assert_close(tiled, whole, rtol=0, atol=0.05)
    right = as_frames(plain.decode(whole.double()))
    tile = tile_of(decode_cut(vae.config), (1, 99), 2)
    pictures, in_tiles = decoded(vae, whole, (1,)), decoded(vae, whole, (1,), tile=tile)
    assert pictures.dtype == in_tiles.dtype == torch.float32
    error, error_in_tiles = (float((one - right).square().mean()) for one in (pictures, in_tiles))
    assert error_in_tiles <= 1.2 * error


@pytest.mark.parametrize("layout", ["2.1", "2.2"])
def test_the_halo_is_what_a_tile_sees_and_no_wider(layout: Layout) -> None:
    plain = tiny_wan(tiny_wan_config(layout, dim=4, dec_dim=4))
    vae = FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)
    cut = decode_cut(vae.config)
    width = 2 * cut.halo + 3
    latents = random_frames(1, vae.config.latent_channels, 1, 1, width // 2 + 1)
    features = vae.decode_low(latents, Carry())[0][..., :width].clone()
    features[..., cut.halo + 1] = torch.nan
    frames, _ = vae.decode_high(features, Carry())
    assert {column // cut.factor for column in spoiled(frames)} == set(range(1, width - 1))
    cut = encode_cut(vae.config)
    width = 2 * cut.halo + 3
    frames = random_frames(1, 3, cut.factor, width * cut.factor)
    frames[..., (cut.halo + 1) * cut.factor : (cut.halo + 2) * cut.factor] = torch.nan
    features, _ = vae.encode_high(frames, Carry())
    assert set(spoiled(features)) == set(range(1, width - 1))


def spoiled(frames: Tensor) -> list[int]:
    """Columns where something is no number."""
    return frames.isnan().flatten(0, 2).any(0).nonzero().flatten().tolist()
