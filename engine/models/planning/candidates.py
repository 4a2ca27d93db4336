"""Candidates for a plan: what a family may decide, which of it fits, and the plans next to a plan.

A family states each decision as an `Axis`: a field of its plan, and the values that are worth
trying. The search takes the largest values that fit (`first_fit`, `pairs_within`), recovery the
next smaller ones (`Axis.less`, `next_smaller`), and the window offers both neighbours (`steps_of`).
Memory and seconds are asked of as few candidates as possible: one takes about 0.1 ms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models.contracts import ShotPlan, StageWork, Step
from engine.models.planning.memory import Room
from engine.models.video_vae.vae_use import SliceWork, half_sums
from engine.protocol.plan import Notice
from engine.settings.switches import Switches

AT_ONCE = 2  # tiles in work at the same time, with the switch `two_tiles`
LEAST_TILE = 256  # px, the smallest edge of a tile
FRAMES_OF_LATENT = 4
_APART = 1.05  # times as many px, at least, has the next larger tile that is worth trying
_MOST_OBLONG = 4  # sides of a tile
_LESS_TILE = 0.8  # of its px, at most, has the next tile after a lack of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class VaePlan(ShotPlan):
    """Plan of a model whose VAE takes frames whole or in tiles.

    Attributes:
        encode_tile: Size of a tile, px of the encoded frame; None for whole frames.
        decode_tile: Size of a tile, px of the decoded frame; None for whole frames.
        encode_at_once, decode_at_once: Tiles in work at a time, on a stream each.
        warm_up: Latents that tiles begin early; 0 where they go on with a carry.
        parks: Carries of whole frames wait in main memory while other stages work.
        park_pin_bytes: Most bytes of main memory that are pinned where carries wait.
    """

    encode_tile: Size | None = None
    decode_tile: Size | None = None
    encode_at_once: int = 1
    decode_at_once: int = 1
    warm_up: int = 0
    parks: bool = False
    park_pin_bytes: int = 0

    @property
    def is_tiled(self) -> bool:
        """Whether encoder or decoder takes tiles."""
        return self.encode_tile is not None or self.decode_tile is not None

    @property
    def step_values(self) -> dict[str, str]:
        """Settings with which the user gets this plan."""
        return self.tile_values

    @property
    def tile_values(self) -> dict[str, str]:
        """Settings for its tiles."""
        edges = {"encode_tile": self.encode_tile, "decode_tile": self.decode_tile}
        return {
            name: "0" if tile is None else str(max(tile.width, tile.height))
            for name, tile in edges.items()
        }

    @property
    def tile_parts(self) -> tuple[str, str]:
        """Tiles in a line for a terminal: "encodes whole frames", "decodes tiles of 512x512"."""
        one, two = (
            f"{verb} whole frames" if tile is None else f"{verb} tiles of {tile}"
            for verb, tile in (("encodes", self.encode_tile), ("decodes", self.decode_tile))
        )
        return one, two


def vae_stage(
    made: SliceWork, dtype: str, switches: Switches, parked: float = 0.0, pinned: float = 0.0
) -> StageWork:
    """Work of a half of a VAE.

    Args:
        made: Work of all slices.
        dtype: Type of the VAE.
        switches: Optimisations.
        parked: Bytes of carries that go to main memory and back.
        pinned: Share of them for which there is pinned memory.
    """
    return StageWork(
        kind="vae",
        dtype=dtype,
        operations=made.operations,
        products=made.products,
        half_sums=half_sums(switches.vae, dtype),
        tf32=switches.run.tf32,
        is_counted=True,
        passed_bytes=made.passed,
        launches=made.launches,
        parked_bytes=parked * (1 - pinned),
        parked_pinned_bytes=parked * pinned,
    )


S = TypeVar("S", bound=ShotPlan)
P = TypeVar("P", bound=VaePlan)
T = TypeVar("T")
U = TypeVar("U")


# --- one decision


def _with_field(name: str, plan: Any, value: Any) -> Any:
    return replace(plan, **{name: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis(Generic[S]):
    """One decision about a plan.

    Attributes:
        field: Field of the plan; it may have a value that is not listed.
        values: Values worth trying, the one that takes most memory first; None is all there is.
        more_code, less_code: Codes of the steps to the next larger and the next smaller value.
        text: Message about the value of a plan.
        put: Plan with a value; None replaces the field.
        fewer: Values after a lack of memory; () for `values`.
        share: Part of a value, at most, that the next one has then.
    """

    field: str
    values: Sequence[Any]
    more_code: str
    less_code: str
    text: Callable[[S], Message]
    put: Callable[[S, Any], S] | None = None
    fewer: Sequence[Any] = ()
    share: float = 1.0

    def on(self, plan: S, value: Any) -> S:
        """The plan with a value."""
        return _with_field(self.field, plan, value) if self.put is None else self.put(plan, value)

    def larger(self, plan: S) -> S | None:
        """Plan with the next larger value; None where there is none."""
        now = _amount(getattr(plan, self.field))
        found = [value for value in self.values if _amount(value) > now]
        return self.on(plan, found[-1]) if found else None

    def smaller(self, plan: S) -> S | None:
        """Plan with the next smaller value; None where there is none."""
        now = _amount(getattr(plan, self.field))
        found = [value for value in self.values if _amount(value) < now]
        return self.on(plan, found[0]) if found else None

    def down(self, plan: S) -> tuple[Any, ...]:
        """The value of a plan, and all smaller ones; of tiles, none with a longer side."""
        now = getattr(plan, self.field)
        smaller = (value for value in self.values if _amount(value) < _amount(now))
        if isinstance(now, Size):
            edge = max(now.width, now.height)
            smaller = (tile for tile in smaller if max(tile.width, tile.height) <= edge)
        return now, *smaller

    def half(self, plan: S) -> Any:
        """The largest tile of at most half the px of a plan's, or the smallest one."""
        now = getattr(plan, self.field)
        tiles = [tile for tile in self.values if tile is not None and _amount(tile) < _amount(now)]
        most = math.inf if now is None else now.pixels / 2  # of whole frames it is a first cut
        return next((tile for tile in tiles if tile.pixels <= most), tiles[-1] if tiles else now)

    def less(self, plan: S) -> Iterator[S]:
        """Plans with less and less after a lack of memory; the last one has the least value."""
        values = self.fewer or self.values
        now = _amount(getattr(plan, self.field))
        for value in values:
            most = now if value is values[-1] else self.share * now
            if _amount(value) < now and _amount(value) <= most:
                yield self.on(plan, value)
                now = _amount(value)


def _amount(value: Any) -> float:
    """Order of the values of an axis."""
    if value is None:
        return math.inf
    return value.pixels if isinstance(value, Size) else value


# --- candidates that fit


def first_fit(values: Sequence[T], fits: Callable[[T], bool], near: int = 0) -> Sequence[T]:
    """All values from the largest one that fits on, by bisection; empty where none fits.

    Args:
        values: Values, the one that takes most memory first. That one may be of another kind than
            the rest, which take less and less.
        fits: Whether a value fits; asked for a few of them only.
        near: Place where that value is expected; it and the one before are asked for first.
    """
    low, high = 0, len(values)
    for place in (near, near - 1):
        if low <= place < high:
            low, high = (low, place) if fits(values[place]) else (place + 1, high)
    return values[bisect_left(values, True, low, high, key=fits) :]


def pairs_within(
    first: Sequence[T], second: Sequence[U], fits: Callable[[T, U], bool]
) -> Iterator[tuple[T, U]]:
    """The best pairs of values of two axes: no other pair that fits has both earlier.

    Args:
        first: Values of an axis, the largest and fastest first; see `first_fit`.
        second: Values of the other axis.
        fits: Whether a pair fits; asked for a few of them only.
    """
    if not (first and second and fits(first[-1], second[-1])):
        return
    most = len(first_fit(first, lambda one: fits(one, second[-1])))
    beaten = 0
    for other in first_fit(second, lambda one: fits(first[-1], one)):
        rest = first_fit(first, partial(_turned, fits, other))
        if len(rest) > beaten:
            yield rest[0], other
        beaten = max(len(rest), beaten)
        if beaten >= most:
            return


def _turned(fits: Callable[[T, U], bool], second: U, first: T) -> bool:
    return fits(first, second)


def with_two_at_once(plan: P, room: Room, tiles: Mapping[str, int]) -> P:
    """The plan with two tiles at a time in each direction where there is room.

    No GPU has shown how much time that saves, so the switch is off by default.

    Args:
        plan: Plan that the room holds with one tile at a time.
        room: Available memory.
        tiles: Number of tiles of a frame, by direction. A VAE that is compiled gets one at a time:
            what the compiler keeps between calls is not for two streams.
    """
    switches = plan.switches
    if plan.device != "cuda" or not switches.run.two_tiles or switches.vae.compile:
        return plan
    for direction, count in tiles.items():
        more = _with_field(f"{direction}_at_once", plan, AT_ONCE)
        if count > 1 and room.holds(more):
            plan = more
    return plan


# --- sizes of tiles


def tile_of(edge: int, frame: Size, least: int = LEAST_TILE) -> Size | None:
    """A tile of a requested edge, 0 for none; None where it would be the whole frame."""
    edge = max(edge, least) if edge else 0
    if not edge or edge >= max(frame.width, frame.height):
        return None
    edge = max(LEAST_TILE, edge // 16 * 16)
    return Size(min(edge, frame.width), min(edge, frame.height))


@lru_cache(maxsize=256)
def tilings(frame: Size, shared: int, each: int, least: int = LEAST_TILE) -> tuple[Size, ...]:
    """Tiles worth trying, from the largest on: none is beaten in size and in work by another.

    Args:
        frame: In px.
        shared: Px that neighbours have in common.
        each: Sides of tiles are multiples of it.
        least: Smallest side, unless the frame's own is smaller.
    """
    sides = [_sides(length, shared, each, least) for length in (frame.width, frame.height)]
    found = sorted(
        (width * height, columns * rows * width * height, width)
        for columns, width in sides[0]
        for rows, height in sides[1]
        if columns * rows > 1 and max(width, height) <= _MOST_OBLONG * min(width, height)
    )
    worth: list[Size] = []
    best = None
    for pixels, work, width in found:  # from small tiles, which cost most, to large ones
        if (best is None or work < best) and (not worth or pixels > _APART * worth[-1].pixels):
            worth.append(Size(width, pixels // width))
            best = work
    return tuple(reversed(worth))


def _sides(length: int, shared: int, each: int, least: int) -> list[tuple[int, int]]:
    """Numbers of cuts of a side, and the shortest tiles that do it; the whole side first."""
    found, count = [(1, length)], 2
    while True:
        side = -(-(length + (count - 1) * shared) // (count * each)) * each
        if side < least or side <= 2 * shared:
            return found
        if side < found[-1][1]:
            found.append((count, side))
        count += 1


def tile_axis(
    direction: str,
    frame: Size,
    shared: int,
    each: int,
    *,
    least: int = LEAST_TILE,
    whole: bool = True,
) -> Axis[Any]:
    """Tiles of a direction, "encode" or "decode".

    Args:
        direction: The direction.
        frame: In px.
        shared: Px that neighbours have in common.
        each: Sides of tiles are multiples of it.
        least: Smallest side, unless the frame's own is smaller.
        whole: Whole frames are the largest value.
    """

    def text(plan: VaePlan) -> Message:
        tile = getattr(plan, f"{direction}_tile")
        return message(f"step.{direction}-{'whole' if tile is None else 'tiles'}", size=tile)

    values = (*([None] if whole else []), *tilings(frame, shared, each, least))
    smallest = Size(min(least, frame.width), min(least, frame.height))
    return Axis(
        field=f"{direction}_tile",
        values=values,
        more_code=f"larger-{direction}-tiles",
        less_code=f"smaller-{direction}-tiles",
        text=text,
        fewer=(*values, smallest),
        share=_LESS_TILE,
    )


# --- the plans next to a plan


def steps_of(plan: S, axes: Iterable[Axis[S]]) -> Iterator[Step]:
    """Every plan with the next larger or smaller value of one axis, all larger ones first."""
    for is_more in (True, False):
        for axis in axes:
            work = axis.larger(plan) if is_more else axis.smaller(plan)
            if work is not None:
                code = axis.more_code if is_more else axis.less_code
                yield step_to(work, code, axis.text(work), is_more=is_more)


def step_to(work: ShotPlan, code: str, text: Message, *, is_more: bool) -> Step:
    """A step to another plan."""
    return Step(code=code, message=text, work=work, is_more=is_more, params=work.step_values)


def next_smaller(
    plan: S, ladder: Iterable[tuple[str, Iterable[S]]], bytes_of: Callable[[S], Mapping[str, int]]
) -> S | None:
    """The first plan that takes less than the present one; None where none does.

    Args:
        plan: Plan that needs too much.
        ladder: Plans to try, each group with the name of the memory that it is to lower.
        bytes_of: Bytes of a plan, by such names.
    """
    now = bytes_of(plan)
    found = (one for name, plans in ladder for one in plans if bytes_of(one)[name] < now[name])
    return next(found, None)


def less_tiled(plan: P, axis: Axis[P]) -> Iterator[P]:
    """One tile of a direction at a time, then smaller ones."""
    one = _with_field(axis.field.replace("tile", "at_once"), plan, 1)
    yield one
    yield from axis.less(one)


# --- what is shown of a plan


def chosen(code: str, case: str = "", **params: object) -> Notice:
    """A decision of the planner; also a phrase of a summary."""
    values = {name: str(value) for name, value in params.items()}
    return Notice(code=code, case=case, severity="info", params=values)


def chosen_tiles(code: str, count: int, tile: Size | None, tiles: str = "tiles") -> Notice:
    """Notice of how frames are tiled: "Frames are decoded in 4 tiles of 512x512."."""
    whole = tile is None or count == 1
    return chosen(code, "whole" if whole else tiles, count=count, size=tile)


def tile_choices(plan: VaePlan, tiles: Mapping[str, int], decoded: str) -> Iterator[Notice]:
    """Tiles of both directions, and two of them at a time.

    Args:
        plan: The plan.
        tiles: Number of tiles of a frame, by direction.
        decoded: Kind of decoded tiles: "tiles" or "independent-tiles".
    """
    yield chosen_tiles("encode", tiles["encode"], plan.encode_tile)
    yield chosen_tiles("decode", tiles["decode"], plan.decode_tile, decoded)
    at_once = max(plan.encode_at_once, plan.decode_at_once)
    if at_once > 1:
        yield chosen("at-once", count=at_once)


def early_tiles(plan: VaePlan, span: int) -> Iterator[Notice]:
    """Notice that tiles begin early after each span of n latents; 0: there are no tiles."""
    if plan.warm_up and span and plan.device == "cuda":
        frames = FRAMES_OF_LATENT * plan.warm_up
        yield chosen("early", frames=frames, span=FRAMES_OF_LATENT * span)


def tiles_phrases(encode: Size | None, decode: Size | None) -> Iterator[Notice]:
    """Tiles in a summary; whole frames are not mentioned."""
    for code, tile in (("encode-tiles", encode), ("decode-tiles", decode)):
        if tile is not None:
            yield chosen(code, size=f"{tile.width}×{tile.height}")


def tile_changes(old: VaePlan, new: VaePlan) -> Iterator[Message]:
    """Differences of two plans in tiles and carries, the main one first."""
    for code, before, after in (
        ("change.decode-tiles", old.decode_tile, new.decode_tile),
        ("change.encode-tiles", old.encode_tile, new.encode_tile),
    ):
        if before != after:
            yield message(code, before=before or message("change.whole-frames"), after=after)
    if (old.encode_at_once, old.decode_at_once) != (new.encode_at_once, new.decode_at_once):
        yield message("change.one-tile-at-a-time")
    if old.warm_up != new.warm_up:
        yield message("change.early-tiles")
    if old.parks != new.parks:
        yield message("change.waiting-states")


def shot_notices(title: str, work: ShotPlan) -> Iterator[Notice]:
    """Notices for every model that takes shots."""
    if work.device == "cpu":
        yield Notice(code="slow-on-processor", severity="warning", params={"title": title})
    if work.shot_sensitivity is None:
        yield Notice(code="cuts-not-looked-for", severity="info")
