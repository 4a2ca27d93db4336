"""The fastest way of running SeedVR2 that fits: which blocks stay, how long clips, which tiles.

Stages take turns on the GPU, so in addition to the weights that stay there each has the rest of the
memory for itself: for every number of blocks the best tiles of encoder and decoder and the length
of clips can be distinguished. Clips that share more with their neighbours come first, because seams
in time are what is seen most; within those, the least time decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

from engine.core.geometry import Size
from engine.models.planning.search import Room, pairs_within, smaller_tiles, tilings
from engine.models.seedvr2 import files
from engine.models.seedvr2.plan import STEP, SeedVr2Plan, latents_of
from engine.models.seedvr2.planning import requirements as bytes_of
from engine.models.seedvr2.planning.vae_memory import BLEND_PX, ENCODE_OVERLAP_PX
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.tiling import (
    USUAL_SPAN,
    halo,
    pixels_per_feature,
    whole_shared,
)

WARM_UP = 6  # latents, where the carries of tiles do not fit into main memory
# Latents of the longest span: a job that is killed loses at most a span, so one that takes longer
# than this is only tried as far as it saves much.
LONGEST_SPAN, LONGEST_SLOW_SPAN = 121, 61
_MOST_LOST_S = 1800.0
CLIPS = {"cuda": (21, 17, 13, 9, 6, 4, 3, 2, 1), "cpu": (6, 4, 3, 2, 1)}  # latents
_SHORTER = 0.9  # of a span, at most, has the next one that is worth trying
BLOCKS_STEP = 12  # fewer that stay, from one way to the next
_STILLS = 2  # latents: clips this short share nothing and are taken last


def fitted(plan: SeedVr2Plan, room: Room) -> SeedVr2Plan:
    """The fastest plan that the room holds; the smallest one where it holds none.

    Args:
        plan: The largest; what the user chose is the largest there.
        room: What there is.
    """
    search = _Search(plan, room)
    return search.best() or search.smallest()


def encoder_tiles(vae: VaeConfig, frame: Size) -> tuple[Size, ...]:
    """Tiles of the encoder that are worth trying, the largest first."""
    return tilings(frame, ENCODE_OVERLAP_PX, vae.spatial_factor)


def decoder_tiles(vae: VaeConfig, frame: Size, *, is_whole: bool) -> tuple[Size, ...]:
    """The same of the decoder, of all of it or of its large part."""
    if is_whole:
        return tilings(frame, whole_shared(vae) * vae.spatial_factor, vae.spatial_factor)
    each = pixels_per_feature(vae)
    return tilings(frame, 2 * halo(vae) * each + BLEND_PX, each)


def shared_of(clip: int) -> int:
    """Latents that clips share: two, or as many as are less than half of them."""
    return min(2, (clip - 1) // 2)


def with_clip(plan: SeedVr2Plan, latents: int) -> SeedVr2Plan:
    """The same with clips of so many latents."""
    if latents == plan.latents:
        return plan
    if plan.join == "latents":
        return replace(plan, clip=latents, shared=shared_of(latents))
    frames = 1 + (latents - 1) * STEP
    return replace(plan, clip=frames, shared=min(plan.shared, (frames - 1) // 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DitRun:
    """What is decided before tiles are."""

    blocks: int | None
    clip: int  # latents
    warm_up: int
    is_whole: bool  # all of the decoder goes through tiles


@dataclass(frozen=True, slots=True)
class _Kind:
    """Ways of equal worth."""

    is_whole: bool
    clips: Sequence[int]
    blocks: Sequence[int | None]


class _Search:
    """Ways of running one model, and their needs."""

    def __init__(self, plan: SeedVr2Plan, room: Room) -> None:
        self.room, self.plan = room, plan
        self.on_gpu = plan.device == "cuda"
        self.config, self.vae = files.configs(plan)
        self._loads: dict[SeedVr2Plan, int] = {}
        self._weights: dict[int | None, int] = {}

    def best(self) -> SeedVr2Plan | None:
        """The fastest of the best kind that fits; None where nothing does."""
        for kind in self._kinds():
            found = self._fastest(self._fitting(kind))
            if found is not None:
                return found
        return None

    def smallest(self) -> SeedVr2Plan:
        """The way that takes least, whether it fits or not."""
        way = _DitRun(blocks=self.blocks[-1], clip=self.clips[-1], warm_up=WARM_UP, is_whole=True)
        return replace(self._smallest(way), blocks_on_device=way.blocks)

    # --- what is tried

    @cached_property
    def clips(self) -> tuple[int, ...]:
        """Lengths in latents, the wanted one first."""
        wanted = self.plan.latents
        usual = CLIPS["cuda" if self.on_gpu else "cpu"]
        return wanted, *(clip for clip in usual if clip < wanted)

    @cached_property
    def blocks(self) -> tuple[int | None, ...]:
        """How many stay on the device, most first; None are all, and the text's weights too."""
        first, layers = self.plan.blocks_on_device, self.config.layers
        fewer = range(layers if first is None else min(first, layers), -1, -BLOCKS_STEP)
        found = dict.fromkeys([first, *fewer, 0])
        return tuple(found)

    @cached_property
    def encode(self) -> tuple[Size | None, ...]:
        """Tiles of the encoder, the largest first."""
        return smaller_tiles(self.plan.encode_tile, encoder_tiles(self.vae, self.plan.padded))

    def _decode(self, way: _DitRun) -> tuple[Size | None, ...]:
        """Tiles of the decoder, the largest first."""
        worth = decoder_tiles(self.vae, self.plan.padded, is_whole=way.is_whole)
        found = smaller_tiles(self.plan.decode_tile, worth)
        return tuple(tile for tile in found if tile is not None or not way.is_whole)

    def _kinds(self) -> Iterator[_Kind]:
        """Ways of equal worth, the best ones first."""
        every = [tuple(some) for _, some in groupby(self.clips, self._shared)]
        joined = [some for some in every if some[0] > _STILLS]
        stills = [some for some in every if some[0] <= _STILLS]
        # a processor reads blocks that do not stay from the file, for every clip
        split = [self.blocks] if self.on_gpu else [self.blocks[:1], self.blocks[1:]]
        for blocks in split:
            for clips in (joined, stills):
                for is_whole in (False, True):
                    yield from (_Kind(is_whole, one, blocks) for one in clips)

    def _shared(self, clip: int) -> int:
        """Clips that share equally much are of equal worth; those joined in no way are not."""
        return clip if self.plan.join == "none" else with_clip(self.plan, clip).shared

    # --- what fits

    def _fitting(self, kind: _Kind) -> Iterator[SeedVr2Plan]:
        """The best for each number of blocks: the longest clips, in the largest tiles."""
        for warm_up in (0, WARM_UP) if self.on_gpu else (self.plan.warm_up,):
            for blocks in kind.blocks:
                ways = (
                    _DitRun(blocks=blocks, clip=clip, warm_up=warm_up, is_whole=kind.is_whole)
                    for clip in kind.clips
                )
                found = (one for way in ways for one in self._filled(way))
                # in the memory of a GPU tiles do not depend on the length of clips
                best = next(found, None) if self.on_gpu else self._fastest(found)
                if best is None:
                    continue
                yield best
                if self._is_untouched(best, kind.clips[0]) and not self._parks(best):
                    return  # fewer blocks and an early begin make nothing faster

    def _fastest(self, plans: Iterable[SeedVr2Plan]) -> SeedVr2Plan | None:
        return min(plans, key=self.room.seconds, default=None)

    def _is_untouched(self, plan: SeedVr2Plan, clip: int) -> bool:
        """Whether no lack of memory made tiles smaller or clips shorter."""
        wanted = self.plan.encode_tile, self.plan.decode_tile
        return (plan.encode_tile, plan.decode_tile) == wanted and plan.latents == clip

    def _parks(self, plan: SeedVr2Plan) -> bool:
        """Whether carries have to leave the device and come back."""
        passed, _ = bytes_of.parked_bytes(plan, self.room.frames)
        return any(passed.values())

    def _filled(self, way: _DitRun) -> Iterator[SeedVr2Plan]:
        """A way with the tiles that take least time among those that fit, if any do."""
        limit = self._limit(way)
        tiled = list(self._tiled(way, limit))
        plans = [plan for plan in tiled if self._fits_host(plan)]
        if len(plans) < len(tiled):  # the GPU has room where main memory has none
            plans += self._tiled(way, limit, with_host=True)
        if self.on_gpu:  # smaller tiles may leave main memory for longer spans
            longest = self._longest_span(self.plan)
            for span in (longest, longest // 2):
                plans += self._tiled(way, limit, with_host=True, span=span)
        spanned = (one for plan in dict.fromkeys(plans) for one in self._spanned(plan, limit))
        found = self._fastest(self._pinned(one, way) for one in spanned)
        if found is not None:
            yield found

    def _tiled(
        self, way: _DitRun, limit: int, *, with_host: bool = False, span: int = USUAL_SPAN
    ) -> Iterator[SeedVr2Plan]:
        """In pairs of tiles of encoder and decoder that fit, of which none beats another.

        What one of them keeps may wait while the other works, so that both bear on each other.
        """
        base, encode, decode = self._base(way), self.encode, self._decode(way)

        def tiled(first: int, second: int) -> SeedVr2Plan:
            return replace(base, encode_tile=encode[first], decode_tile=decode[second])

        def fits(first: int, second: int) -> bool:
            plan = replace(tiled(first, second), encode_span=span, decode_span=span)
            return self._load(plan) <= limit and (not with_host or self._fits_host(plan))

        for pair in pairs_within(len(encode), len(decode), fits):
            if fits(*pair):
                yield tiled(*pair)

    def _limit(self, way: _DitRun) -> int:
        """Bytes that a job may take with as many weights as in `_base`."""
        if way.blocks not in self._weights:
            one = self._smallest(way)
            usual, stay = (
                bytes_of.needs(plan).weights
                for plan in (one, replace(one, blocks_on_device=way.blocks))
            )
            self._weights[way.blocks] = stay - usual
        budget = self.room.budget
        return (budget.vram_bytes if self.on_gpu else budget.ram_bytes) - self._weights[way.blocks]

    def _load(self, plan: SeedVr2Plan) -> int:
        """Bytes that are to stay within the limit."""
        found = self._loads.get(plan)
        if found is None:
            found = self.room.device(plan) if self.on_gpu else self.room.ram(plan)
            self._loads[plan] = found
        return found

    def _fits_host(self, plan: SeedVr2Plan) -> bool:
        return not self.on_gpu or self.room.holds_ram(plan)

    def _spanned(self, plan: SeedVr2Plan, limit: int) -> Iterator[SeedVr2Plan]:
        """With pairs of spans that there is room for, of which none is longer than another.

        Frames wait for the encoder while features wait for the decoder: both bear on each other.
        """
        longest = self._longest_span(plan)
        encode = self._spans(longest)
        decode = (USUAL_SPAN,) if plan.decode_tile is None else encode

        def spanned(first: int, second: int) -> SeedVr2Plan:
            return replace(plan, encode_span=encode[first], decode_span=decode[second])

        def fits(first: int, second: int) -> bool:
            one = spanned(first, second)
            return self._load(one) <= limit and self._fits_host(one)

        for pair in pairs_within(len(encode), len(decode), fits):
            yield spanned(*pair)

    def _longest_span(self, plan: SeedVr2Plan) -> int:
        frames = self.room.frames
        at_risk = int(_MOST_LOST_S * frames / self.room.seconds(plan)) // STEP
        longest = min(LONGEST_SPAN, max(LONGEST_SLOW_SPAN, at_risk), latents_of(frames))
        return max(USUAL_SPAN, longest)

    def _spans(self, longest: int) -> tuple[int, ...]:
        """Spans that are worth trying, the longest first: each the shortest for its visits."""
        found, latents = [longest], latents_of(self.room.frames)
        for visits in range(-(-latents // longest), latents):
            span = -(-latents // visits)
            if span <= USUAL_SPAN:
                break
            if span < _SHORTER * found[-1]:
                found.append(span)
        return tuple(dict.fromkeys((*found, USUAL_SPAN)))

    def _pinned(self, plan: SeedVr2Plan, way: _DitRun) -> SeedVr2Plan:
        """With copies of streamed weights in main memory, as far as there is room for them.

        What else may be pinned is for carries, which pass less often.
        """
        plan, most = replace(plan, blocks_on_device=way.blocks), self.room.most_pinned
        streamed = bytes_of.streamed_bytes(plan)
        if streamed:
            copies = min(streamed, self.room.budget.ram_bytes - self.room.ram(plan), most)
            plan = replace(plan, pin_bytes=max(0, copies))
        return replace(plan, park_pin_bytes=most - plan.pin_bytes) if self.on_gpu else plan

    def _smallest(self, way: _DitRun) -> SeedVr2Plan:
        """The way in its smallest tiles; whole frames where they are too small to be cut."""
        decode = self._decode(way)
        base = self._base(way) if decode else self._base(replace(way, is_whole=False))
        tile = decode[-1] if decode else None
        return replace(base, encode_tile=self.encode[-1], decode_tile=tile)

    def _base(self, way: _DitRun) -> SeedVr2Plan:
        """The way without its blocks: what else is needed does not depend on them."""
        plan = replace(self.plan, warm_up=way.warm_up, decodes_whole_tiles=way.is_whole)
        return with_clip(plan, way.clip)
