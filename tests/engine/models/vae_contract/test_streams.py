"""Shots of each VAE in streams: pieces, tiles and spans of any length, two tiles at once."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import pytest
import torch
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.core.geometry import Size
from engine.models.upscalers import DecodedTile
from engine.models.video_vae.frame_slices import cut
from tests.helpers.extended import extended, rest_extended
from tests.helpers.vaes import (
    EACH,
    ROWS,
    SIDES,
    SPAN,
    TILED,
    VaeRow,
    fast_of,
    in_lanes,
    shot_of,
    streamed,
    whole_of,
)

LONG = SPAN + 3  # latents: two visits

# One VAE of each code; those of the others differ in their layers only, which all tests above have.
USUAL = [(row, side) for row, side in TILED if row.name in ("seedvr2", "wan 2.1")]


def assert_same(found: Tensor, right: Tensor, rounding: float) -> None:
    assert found.shape == right.shape
    assert float((found - right).abs().max()) <= rounding


def small(row: VaeRow) -> Size:
    """A frame of 2 x 1 positions of the latent."""
    return Size(2, 1).scaled(row.streamed.spatial_factor)


@EACH
def test_whole_frames_in_pieces_equal_the_shot(row: VaeRow) -> None:
    vae = fast_of(row.name)
    for side in SIDES:
        given = shot_of(row, side, 6, small(row))
        right = whole_of(vae, side, given)
        for pieces, options in (((1,), {}), ((3, 1, 2), {}), *(((2,), one) for one in row.alike)):
            assert_same(streamed(row, side, vae, given, pieces, **options), right, row.rounding)


@pytest.mark.parametrize(
    ("row", "side"), [(row, side) for row, side in TILED if row.tiled[side].exact], ids=str
)
def test_tiles_equal_whole_frames(row: VaeRow, side: str) -> None:
    vae, tiled = fast_of(row.name), row.tiled[side]
    cases = {tiled.frame: tiled.options}
    if tiled.high is not None:
        frame, tile = tiled.high
        cases[frame] = {**tiled.options, "tile": tile}
    for frame, options in cases.items():
        given, tiles = shot_of(row, side, 3, frame), list[DecodedTile]()
        with row.frozen():
            right = whole_of(vae, side, given)
            found = streamed(row, side, vae, given, (2, 1), watch=tiles.append, **options)
        assert_same(found, right, row.rounding)
        if side == "decode":
            assert len({one.box.x for one in tiles}) > 1
            assert frame == tiled.frame or len({one.box.y for one in tiles}) > 1


@pytest.mark.parametrize(
    ("row", "side"), [(row, side) for row, side in TILED if row.frozen is not nullcontext], ids=str
)
def test_tiles_with_norms_of_their_own_resemble_whole_frames(row: VaeRow, side: str) -> None:
    vae, tiled = fast_of(row.name), row.tiled[side]
    given = shot_of(row, side, 2, tiled.frame)
    right = whole_of(vae, side, given)
    found = streamed(row, side, vae, given, **tiled.options)
    right = right if side == "encode" else right.clamp(-1, 1)
    difference = float((found - right).abs().mean() / right.abs().mean())
    assert 0 < difference < 0.4


@cache
def in_one_visit(name: str, side: str, latents: int) -> tuple[Tensor, Tensor]:
    """A shot, and what tiles make of it that see all of it at once."""
    row = ROWS[name]
    vae, tiled = fast_of(name), row.tiled[side]
    given = shot_of(row, side, latents, tiled.frame)
    if not tiled.once:  # tiles equal whole frames
        return given, whole_of(vae, side, given)
    return given, streamed(row, side, vae, given, (99,), **{**tiled.options, **tiled.once})


@pytest.mark.parametrize(("row", "side"), rest_extended(TILED, *USUAL), ids=str)
def test_tiles_go_on_where_they_stopped(row: VaeRow, side: str) -> None:
    vae, tiled = fast_of(row.name), row.tiled[side]
    given, right = in_one_visit(row.name, side, LONG)
    for pieces, options in (((99,), {}), *(((3,), one) for one in row.alike[-1:] or ({},))):
        found = streamed(row, side, vae, given, pieces, **tiled.options, **options)
        assert_same(found, right, tiled.rounding)


@pytest.mark.parametrize(("row", "side"), rest_extended(TILED, *USUAL), ids=str)
def test_tiles_come_with_their_span_and_say_where_they_are(row: VaeRow, side: str) -> None:
    vae, tiled, config = fast_of(row.name), row.tiled[side], row.streamed
    given, right = in_one_visit(row.name, side, LONG)
    sizes, tiles, each = list[int](), list[DecodedTile](), config.temporal_factor
    make = row.encode if side == "encode" else row.decode
    push = make(vae, tiled.frame, watch=tiles.append, first=40, **tiled.options)
    found = []
    for latent in range(LONG):
        last = latent == LONG - 1
        if side == "encode":
            begin = max(0, 1 + each * (latent - 1))
            parts = [push(given[begin : 1 + each * latent], last=last)]
            sizes.append(parts[0].shape[2])
        else:
            parts = list(push(given[:, :, latent : latent + 1], last=last))
            sizes.append(sum(map(len, parts)))
        found += parts
    whole = torch.cat(found, dim=2 if side == "encode" else 0)
    assert_same(whole, right, tiled.rounding)
    visits = [SPAN, LONG - SPAN] if side == "encode" else [1 + each * (SPAN - 1), each * 3]
    assert [size for size in sizes if size] == visits
    assert sizes.index(visits[0]) == SPAN - 1
    if side == "encode":
        return
    count, ends = tiles[0].tiles, [visits[0] - 1, sum(visits) - 1]
    assert count > 1
    places = [(index, 40 + end) for end in ends for index in range(count)]
    assert [(one.index, one.frame) for one in tiles] == places
    is_pasted = sum(one.box.size.pixels for one in tiles[:count]) == whole[0, 0].numel()
    for one in tiles:
        assert one.tiles == count
        assert one.box == tiles[one.index].box
        shown = cut(whole[one.frame - 40], one.box).float()
        assert one.picture.shape == shown.shape
        assert not is_pasted or torch.equal(one.picture, shown)


@EACH
def test_a_whole_frame_is_reported_as_one_tile(row: VaeRow) -> None:
    tiles: list[DecodedTile] = []
    given = shot_of(row, "decode", 3, small(row))
    frames = streamed(row, "decode", fast_of(row.name), given, watch=tiles.append, first=40)
    ends = [40 + row.streamed.temporal_factor * latent for latent in (1, 2)]
    assert [(one.index, one.tiles, one.frame) for one in tiles] == [(0, 1, end) for end in ends]
    assert tiles[0].box.size == small(row).scaled(row.streamed.upscale)
    torch.testing.assert_close(tiles[-1].picture, frames[-1].float(), rtol=0, atol=0)


def latents_until_late(early: int) -> int:
    """Latents of a shot in which some tiles begin later than the shot."""
    return SPAN * (early // SPAN + 1) + 1


EARLY = [
    (row, side, LONG if side == "decode whole" else latents_until_late(row.tiled[side].reach))
    for row, side in USUAL
]
LATER = [(row, side, latents_until_late(row.tiled[side].reach)) for row, side in TILED]


@pytest.mark.parametrize(
    ("row", "side", "latents"),
    [*EARLY, *extended(*(case for case in LATER if case not in EARLY))],
    ids=str,
)
def test_tiles_that_begin_early_enough_equal_those_that_go_on(
    row: VaeRow, side: str, latents: int
) -> None:
    """Whatever they begin with, the first visit is right."""
    vae, tiled = fast_of(row.name), row.tiled[side]
    first, axes = SPAN, (0, 1, 3, 4)
    if side != "encode":
        first, axes = 1 + row.streamed.temporal_factor * (SPAN - 1), (1, 2, 3)
    for early, same in ((tiled.reach, True), (tiled.short, False)):
        length = min(latents, max(LONG, latents_until_late(early)))
        given, right = in_one_visit(row.name, side, length)
        found = streamed(row, side, vae, given, **tiled.options, warm_up=early)
        worst = (found - right).abs().amax(axes)
        assert (float(worst.max()) <= tiled.rounding) == same
        assert float(worst[:first].max()) <= tiled.rounding


GPU = (pytest.mark.gpu, pytest.mark.real_gpu("the pretended one has tests of its own"))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize(("row", "side"), rest_extended(TILED, *USUAL), ids=str)
def test_two_at_once_give_the_bits_of_one_after_the_other(
    row: VaeRow, side: str, device: str
) -> None:
    for options in ({}, {"warm_up": 1}):
        if device == "cuda":  # cuDNN finds out which algorithms are the fastest
            in_lanes(row, side, 1, device, **options)
        wanted, found = (in_lanes(row, side, lanes, device, **options) for lanes in (1, 2))
        assert torch.equal(found, wanted)


@EACH
def test_values_that_are_no_numbers_are_refused(row: VaeRow) -> None:
    vae, half = fast_of(row.name), row.fast(row.plain(row.streamed), dtype=torch.float16)
    for side, tiled in row.tiled.items():
        part = f"{side.partition(' ')[0]}r"
        given = shot_of(row, side, 2, tiled.frame)
        given[..., -1, -1] = torch.nan if side != "encode" else given[..., -1, -1]
        if side == "encode":
            given[-1, 0, -1, -1] = torch.nan
        for options in ({}, tiled.options):
            with pytest.raises(NumericOverflow, match=f"{part}.*float64"):
                streamed(row, side, vae, given, **options)
            with pytest.raises(NumericOverflow, match=f"{part}.*float16"):
                streamed(row, side, half, 1e6 * shot_of(row, side, 1, tiled.frame), **options)


@EACH
def test_the_plain_variant_takes_whole_frames_only(row: VaeRow) -> None:
    plain = row.plain(row.streamed)
    for side, tiled in row.tiled.items():
        given = shot_of(row, side, 2, small(row))
        assert_same(streamed(row, side, plain, given), whole_of(plain, side, given), row.rounding)
        with pytest.raises(ValueError, match="only the fast variant"):
            streamed(row, side, plain, shot_of(row, side, 1, tiled.frame), **tiled.options)


@EACH
def test_the_caller_may_stop_the_work_between_slices_and_tiles(row: VaeRow) -> None:
    """Counted frames of a tile are its share of all frames."""
    vae = fast_of(row.name)
    for side, tiled in row.tiled.items():
        if side.partition(" ")[0] not in row.counted:
            continue
        given = shot_of(row, side, 3, tiled.frame)  # two slices
        for options in ({}, tiled.options):
            calls: list[float] = []
            streamed(row, side, vae, given, (2, 1), worked=calls.append, **options)
            assert len(calls) % 2 == 0
            assert len(calls) >= 4 if options else len(calls) == 2
            if any(calls):
                assert sum(calls) == pytest.approx(1 + 2 * row.streamed.temporal_factor)

            def stop(frames: float, calls: list[float] = calls) -> None:
                calls.pop()
                if not calls:
                    raise InterruptedError

            with pytest.raises(InterruptedError):
                streamed(row, side, vae, given, (2, 1), worked=stop, **options)


@EACH
def test_frames_come_out_in_float32(row: VaeRow) -> None:
    half = row.fast(row.plain(row.streamed), dtype=torch.bfloat16)
    with row.frozen():
        for side, tiled in row.tiled.items():
            given = shot_of(row, side, 2, tiled.frame)
            whole, parts = (streamed(row, side, half, given, **o) for o in ({}, tiled.options))
            if side != "encode":
                assert whole.dtype == parts.dtype == torch.float32
            if tiled.exact:
                error = (parts - whole).float().square().mean().sqrt()
                assert error <= 0.01 * whole.float().square().mean().sqrt()
