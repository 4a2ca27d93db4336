"""The fastest way of running Wan 2x that fits: tiles, and what waits where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from engine.core.geometry import Size
from engine.models.planning.search import (
    EDGES,
    Room,
    pairs_within,
    smaller_tiles,
    tilings,
    with_two_at_once,
)
from engine.models.wan import files
from engine.models.wan.plan import WanPlan
from engine.models.wan.planning.requirements import tiled
from engine.models.wan.vae import split
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up


def fitted(plan: WanPlan, room: Room) -> WanPlan:
    """The fastest plan that the room holds; the smallest one where it holds none.

    Args:
        plan: The largest; what the user chose is the largest there.
        room: Available memory.
    """
    found = _fitted(plan, room)
    return with_two_at_once(found, room, tiled(found))


def _fitted(plan: WanPlan, room: Room) -> WanPlan:
    on_gpu = plan.device == "cuda"
    pin_bytes = room.most_pinned if on_gpu else 0
    if room.holds(plan):
        return replace(plan, park_pin_bytes=pin_bytes)
    search = _WanSearch(plan, room)
    for parks in (False, True) if on_gpu else (False,):  # what is parked has a way to go
        found = search.best(parks=parks)
        if found is not None:
            return replace(found, park_pin_bytes=pin_bytes)
    return search.smallest(parks=on_gpu)


def warm_up(config: WanConfig) -> int:
    """Latents that tiles begin early without any change of their pictures."""
    return max(encode_warm_up(config), decode_warm_up(config))


def least_edge(config: WanConfig) -> int:
    """The smallest edge of a decoded tile, px of the result."""
    cut = split.decode_cut(config)
    return max(EDGES[-1], split.least_tile(cut) * cut.factor * config.upscale)


def wan_tiles(config: WanConfig, frame: Size) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """Tiles of the encoder and of the decoder that are worth trying, the largest first."""
    cut = split.encode_cut(config)
    encode = tilings(frame, 2 * cut.halo * cut.factor, cut.factor)
    cut, canvas = split.decode_cut(config), frame.scaled(config.upscale)
    factor = cut.factor * config.upscale
    return encode, tilings(canvas, 2 * cut.halo * factor, factor, least_edge(config))


class _WanSearch:
    """Plans of one model, and their needs."""

    def __init__(self, plan: WanPlan, room: Room) -> None:
        self.plan, self.room = plan, room
        config = files.wan_config(plan.vae, plan.model)
        self.early = warm_up(config)
        encode, decode = wan_tiles(config, plan.padded)
        whole: tuple[Size | None, ...] = (None,)
        self.encode = smaller_tiles(plan.encode_tile, encode) if "encode" in plan.stages else whole
        self.decode = smaller_tiles(plan.decode_tile, decode) if "decode" in plan.stages else whole

    def best(self, *, parks: bool) -> WanPlan | None:
        """The fastest that fits; None where nothing does."""
        for early in (0, self.early) if self.plan.device == "cuda" else (self.plan.warm_up,):
            base = replace(self.plan, warm_up=early, parks=parks)
            found = list(self._tiled(base))
            if found:
                return min(found, key=self.room.seconds)
        return None

    def smallest(self, *, parks: bool) -> WanPlan:
        """The plan that takes least, whether it fits or not."""
        base = replace(self.plan, warm_up=self.early, parks=parks)
        return replace(base, encode_tile=self.encode[-1], decode_tile=self.decode[-1])

    def _tiled(self, base: WanPlan) -> Iterator[WanPlan]:
        """In pairs of tiles of encoder and decoder that fit, of which none beats another."""

        def tiled(first: int, second: int) -> WanPlan:
            return replace(base, encode_tile=self.encode[first], decode_tile=self.decode[second])

        def fits(first: int, second: int) -> bool:
            return self.room.holds(tiled(first, second))

        counts = len(self.encode), len(self.decode)
        if 1 in counts:  # one direction: larger tiles take less of main memory
            yield from (tiled(*p) for p in product(*map(range, counts)) if fits(*p))
        else:
            yield from (tiled(*p) for p in pairs_within(*counts, fits))
