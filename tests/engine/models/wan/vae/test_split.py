"""Where the Wan VAEs are cut, and tiles of the local half."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.geometry import Size
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22
from engine.models.wan.vae.split import (
    Cut,
    decode_cut,
    decode_tiles,
    encode_cut,
    encode_tiles,
    least_tile,
    tiles,
)

HD = Size(1920, 1088)
CUTS = st.builds(Cut, factor=st.just(4), halo=st.integers(0, 6), time=st.just(2))
SIDES = st.integers(1, 90)


@settings(max_examples=25, deadline=None)
@given(canvas=st.builds(Size, SIDES, SIDES), cut=CUTS, more=st.builds(Size, SIDES, SIDES))
def test_tiles_know_a_halo_more_than_they_show(canvas: Size, cut: Cut, more: Size) -> None:
    least = least_tile(cut)
    tile = Size(least + more.width, least + more.height)
    found = tiles(canvas, tile, cut)
    assert sum(one.inner.size.pixels for one in found) == canvas.pixels
    assert len({one.outer.size for one in found}) == 1
    for one in found:
        inner, outer = one.inner, one.outer
        assert outer.width <= tile.width
        assert outer.height <= tile.height
        assert outer.x <= max(0, inner.x - cut.halo)
        assert outer.y <= max(0, inner.y - cut.halo)
        assert outer.right >= min(canvas.width, inner.right + cut.halo)
        assert outer.bottom >= min(canvas.height, inner.bottom + cut.halo)


def test_cuts_of_the_published_models() -> None:
    assert decode_cut(WAN21) == decode_cut(WAN2X) == Cut(factor=4, halo=6, time=2)
    assert decode_cut(WAN22) == Cut(factor=8, halo=12, time=2)
    assert encode_cut(WAN21) == Cut(factor=4, halo=4, time=2)
    assert encode_cut(WAN22) == Cut(factor=8, halo=4, time=2)
    (whole,) = encode_tiles(WAN21, HD, None)
    assert whole.outer == whole.inner
    assert whole.inner.size == Size(480, 272)
    assert decode_tiles(WAN2X, HD, None) == [whole]


def test_a_tile_is_given_in_pixels_of_what_is_large() -> None:
    tile = Size(512, 512)
    encoded, decoded = encode_tiles(WAN2X, HD, tile), decode_tiles(WAN2X, HD, tile)
    assert max(one.outer.width for one in encoded) <= 128
    assert max(one.outer.width for one in decoded) <= 64
    assert len(decoded) > len(encoded)
    for config in (WAN21, WAN22):
        for pixels in (32, 64):
            with pytest.raises(ValueError, match="leaves nothing"):
                decode_tiles(config, HD, Size(pixels, pixels))
