"""The fastest way of running Wan 2x that fits: tiles, and what waits where; plans next to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from engine.core.geometry import Size
from engine.core.messages import message
from engine.models.contracts import Step
from engine.models.planning.candidates import (
    LEAST_TILE,
    Axis,
    less_tiled,
    next_smaller,
    pairs_within,
    step_to,
    steps_of,
    tile_axis,
    with_two_at_once,
)
from engine.models.planning.memory import Room
from engine.models.wan import files
from engine.models.wan.plan import WanPlan
from engine.models.wan.requirements import needs, tiles
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
    return with_two_at_once(found, room, tiles(found))


def _fitted(plan: WanPlan, room: Room) -> WanPlan:
    on_gpu = plan.device == "cuda"
    pinned = replace(plan, park_pin_bytes=room.most_pinned if on_gpu else 0)
    if room.holds(plan):
        return pinned
    early = warm_up(files.wan_config(plan.vae, plan.model))
    encode, decode = (
        axis.down(plan) if direction in plan.stages else (None,)
        for direction, axis in _axes(plan).items()
    )

    def in_tiles(base: WanPlan) -> Iterator[WanPlan]:
        """Plans with tiles of encoder and decoder that fit, of which none beats another."""

        def fits(first: Size | None, second: Size | None) -> bool:
            return room.holds(replace(base, encode_tile=first, decode_tile=second))

        # one direction: larger tiles take less of main memory
        is_one = 1 in (len(encode), len(decode))
        pairs = (
            (pair for pair in product(encode, decode) if fits(*pair))
            if is_one
            else pairs_within(encode, decode, fits)
        )
        yield from (replace(base, encode_tile=one, decode_tile=two) for one, two in pairs)

    fast: list[WanPlan] = []
    for parks in (False, True) if on_gpu else (False,):
        for begins in (0, early) if on_gpu else (plan.warm_up,):
            found = list(in_tiles(replace(pinned, warm_up=begins, parks=parks)))
            fast += found
            if found:  # tiles that begin early compute more
                break
    if fast:
        return min(fast, key=room.seconds)
    smallest = replace(plan, warm_up=early, parks=on_gpu)
    return replace(smallest, encode_tile=encode[-1], decode_tile=decode[-1])


def warm_up(config: WanConfig) -> int:
    """Latents that tiles begin early without any change of their pictures."""
    return max(encode_warm_up(config), decode_warm_up(config))


def least_edge(config: WanConfig) -> int:
    """The smallest edge of a decoded tile, px of the result."""
    cut = split.decode_cut(config)
    return max(LEAST_TILE, split.least_tile(cut) * cut.factor * config.upscale)


def _axes(plan: WanPlan) -> dict[str, Axis[WanPlan]]:
    """Tiles of both directions."""
    config, frame = files.wan_config(plan.vae, plan.model), plan.padded
    cut = split.encode_cut(config)
    encode = tile_axis("encode", frame, 2 * cut.halo * cut.factor, cut.factor)
    cut, canvas = split.decode_cut(config), frame.scaled(config.upscale)
    factor, least = cut.factor * config.upscale, least_edge(config)
    decode = tile_axis("decode", canvas, 2 * cut.halo * factor, factor, least=least)
    return {"encode": encode, "decode": decode}


def smaller(plan: WanPlan, stage: str = "") -> WanPlan | None:
    """A plan with less on the device in the stage that ran out: "encode" or "decode".

    Its tiles become smaller, then those of the other stage, whose carry waits meanwhile. Last
    comes what can be parked.
    """

    def bytes_of(one: WanPlan) -> dict[str, int]:
        found = needs(one)
        return {**found.stages, "": found.device}

    taken = bytes_of(plan)
    first = stage or max(needs(plan).stages, key=lambda name: taken[name])
    axes = _axes(plan)
    order = sorted(axes, key=lambda direction: direction != first)
    ladder = [less_tiled(plan, axes[direction]) for direction in order]
    if plan.device != "cpu":
        ladder.append(iter([replace(plan, parks=True)]))
    return next_smaller(
        plan, ((stage if stage in taken else "", some) for some in ladder), bytes_of
    )


def gentler(plan: WanPlan, than: WanPlan) -> WanPlan:
    """A plan in half the tiles of another one."""
    axes = _axes(than)
    return replace(plan, **{axes[name].field: axes[name].half(than) for name in plan.stages})


def less_on_host(plan: WanPlan) -> WanPlan | None:
    """Tiles that begin early instead of waiting with their carry."""
    if plan.warm_up or not plan.is_tiled:
        return None
    return replace(plan, warm_up=warm_up(files.wan_config(plan.vae, plan.model)))


def steps(plan: WanPlan) -> Iterator[Step]:
    """Other tiles, or tiles that go on with a carry."""
    axes = _axes(plan)
    yield from steps_of(plan, (axes["decode"], axes["encode"]))
    if plan.warm_up and plan.device == "cuda" and plan.is_tiled:
        work = replace(plan, warm_up=0)
        yield step_to(work, "tiles-that-remember", message("step.carry"), is_more=True)
