"""The best plan of SeedVR2 that fits, and the plans next to it: blocks, clips, tiles, spans.

Within a class of quality the least time decides; a class is given up for a poorer one that is
`PRICES` times as fast (`Quality`).

Stages take turns on the GPU, so in addition to the weights that stay there each has the rest of the
memory for itself: tiles of encoder and decoder do not depend on each other there. In main memory
frames wait for the encoder while features wait for the decoder, so spans do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models.contracts import Step
from engine.models.planning.candidates import (
    Axis,
    first_fit,
    less_tiled,
    next_smaller,
    pairs_within,
    step_to,
    steps_of,
    tile_axis,
    with_two_at_once,
)
from engine.models.planning.memory import Room
from engine.models.planning.transformers import blocks_axis, format_steps, with_copies
from engine.models.seedvr2 import files, requirements
from engine.models.seedvr2.plan import STEP, SeedVr2Plan, latents_of, with_clip
from engine.models.seedvr2.requirements import needs, streamed_bytes
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.tiling import (
    BLEND_PX,
    ENCODE_OVERLAP_PX,
    USUAL_SPAN,
    halo,
    pixels_per_feature,
    whole_shared,
)
from engine.settings.requirements import MATMUL

WARM_UP = 6  # latents, where the carries of tiles do not fit into main memory
# Latents of the longest span: a job that is killed loses at most a span, so one that takes longer
# than this is only tried as far as it saves much.
LONGEST_SPAN, LONGEST_SLOW_SPAN = 121, 61
_MOST_LOST_S = 1800.0
CLIPS = {"cuda": (21, 17, 13, 9, 6, 4, 3, 2, 1), "cpu": (6, 4, 3, 2, 1)}  # latents
_AS_FAST = 1.01  # times as long, at most, takes a plan that is as fast as another
# Of main memory, without weights, for what waits there: other programs need the rest. The second
# one is for frames of more than `_LARGE` px.
_WAITING_BYTES, _WAITING_BYTES_OF_LARGE, _LARGE = 20 * 10**9, 24 * 10**9, 4 * 10**6
_SHORTER = 0.9  # of a span, at most, has the next one that is worth trying
_BLOCKS_STEP = 12  # fewer that stay, from one plan to the next


def most_waiting(plan: SeedVr2Plan) -> int:
    """Bytes of main memory, without weights, that long spans may take."""
    return _WAITING_BYTES_OF_LARGE if plan.padded.pixels > _LARGE else _WAITING_BYTES


def fitted(plan: SeedVr2Plan, room: Room) -> SeedVr2Plan:
    """The fastest plan that the room holds; the smallest one where it holds none.

    Args:
        plan: The largest; what the user chose is the largest there.
        room: Available memory.
    """
    search = _Search(plan, room)
    found = search.best() or search.smallest()
    return with_two_at_once(found, room, requirements.tiles(found))


def _decoder_tiles(vae: VaeConfig, frame: Size, *, is_whole: bool) -> Axis[SeedVr2Plan]:
    """Tiles of all of the decoder, or of its large part."""
    if is_whole:
        each = vae.spatial_factor
        return tile_axis("decode", frame, whole_shared(vae) * each, each, whole=False)
    each = pixels_per_feature(vae)
    return tile_axis("decode", frame, 2 * halo(vae) * each + BLEND_PX, each)


@dataclass(frozen=True, slots=True, order=True)
class Quality:
    """Class of plans of equal quality, the best one first.

    Attributes:
        clips: 0: of 33 frames and more, or of the whole video; 1: of 17 and more; 2: shorter
            ones that still share frames with their neighbours; 3: those that share none.
        tile_statistics: All of the decoder works in tiles: attention and norms of its small part
            see a tile in the place of the frame.
    """

    clips: int
    tile_statistics: bool


_LENGTHS = (range(9, 1 << 30), range(5, 9), range(3, 5), range(1, 3))
# A poorer class is taken if the better one takes longer by these factors: one of other clips, and
# one of the same clips with statistics of tiles.
PRICES = {"clips": 2.0, "tile-statistics": 1.1}


def quality_of(plan: SeedVr2Plan) -> Quality:
    """The class of a plan."""
    clip = plan.latents
    is_all = plan.film > 0 and clip == latents_of(plan.film)
    kind = next(i for i, lengths in enumerate(_LENGTHS) if clip in lengths)
    return Quality(0 if is_all else kind, plan.decodes_whole_tiles)


class _Search:
    """Plans of one model, and their needs."""

    def __init__(self, plan: SeedVr2Plan, room: Room) -> None:
        self.room, self.plan = room, plan
        self.on_gpu = plan.device == "cuda"
        _, self.vae = files.configs(plan)
        axes, wanted = _axes(plan), plan.latents
        # what is tried, the wanted value first
        self.clips = wanted, *(clip for clip in CLIPS[plan.device] if clip < wanted)
        self.classes = {clip: quality_of(with_clip(plan, clip)).clips for clip in self.clips}
        self.blocks: tuple[int | None, ...] = axes["blocks"].down(plan)
        self.encode: tuple[Size | None, ...] = axes["encode"].down(plan)
        self.decode = {is_whole: self._decoder_tiles(is_whole) for is_whole in (False, True)}
        self.near: dict[str, int] = {}  # place of the tile that fitted last, by direction

    def best(self) -> SeedVr2Plan | None:
        """The fastest of the best class that is not given up; None where nothing fits."""
        found: dict[Quality, tuple[float, SeedVr2Plan]] = {}
        for quality in self._qualities():
            prices = {q: "tile-statistics" if q.clips == quality.clips else "clips" for q in found}
            most = min((s / PRICES[prices[q]] for q, (s, _) in found.items()), default=None)
            plan = self._best_of(quality, most)
            if plan is not None:
                found[quality] = self.room.seconds(plan), plan
        if not found:
            return None
        (first, _), (seconds, plan) = (list(found.values())[i] for i in (0, -1))
        return replace(plan, better_takes=first / seconds if len(found) > 1 else 0.0)

    def smallest(self) -> SeedVr2Plan:
        """The plan that takes least, whether it fits or not."""
        is_whole = bool(self.decode[True])
        base = replace(with_clip(self.plan, self.clips[-1]), blocks_on_device=self.blocks[-1])
        return self._smallest(replace(base, warm_up=WARM_UP, decodes_whole_tiles=is_whole))

    def _decoder_tiles(self, is_whole: bool) -> tuple[Size | None, ...]:
        """Tiles of all of the decoder, or of its large part, the largest first."""
        found = _decoder_tiles(self.vae, self.plan.padded, is_whole=is_whole).down(self.plan)
        return tuple(tile for tile in found if tile is not None or not is_whole)

    def _qualities(self) -> Iterator[Quality]:
        """Classes of the lengths that are tried, the best first."""
        classes = {*self.classes.values()}
        every = (Quality(clips, tiles) for clips in classes for tiles in (False, True))
        return (one for one in sorted(every) if self.decode[one.tile_statistics])

    # --- the fastest of a class

    def _best_of(self, quality: Quality, most_seconds: float | None) -> SeedVr2Plan | None:
        """The fastest plan of a class that fits; None where there is none below some seconds."""
        found: list[tuple[float, SeedVr2Plan]] = []
        least = most_seconds
        for base in self._bases(quality):
            if least is not None and self._least_seconds(base) >= least:
                continue
            for plan in self._filled(base):
                seconds = self.room.seconds(plan)
                if least is None or seconds < _AS_FAST * least:
                    found.append((seconds, plan))
                    least = seconds if least is None else min(seconds, least)
            if found and not self.on_gpu:
                break  # a CPU reads blocks that do not stay from the file, for every clip
        if not found:
            return None
        most = _AS_FAST * min(seconds for seconds, _ in found)
        fast = [plan for seconds, plan in found if seconds <= most]
        return self._with_more_blocks(min(fast, key=self._burden))

    def _burden(self, plan: SeedVr2Plan) -> tuple[int, int]:
        """Order of plans that are equally fast: tiles, then RAM."""
        tiled = sum(tile is not None for tile in (plan.encode_tile, plan.decode_tile))
        return tiled, self._waiting(plan)

    def _bases(self, quality: Quality) -> Iterator[SeedVr2Plan]:
        """Plans of a class without tiles and spans, the fastest first."""
        clips = [clip for clip in self.clips if self.classes[clip] == quality.clips]
        blocks = dict.fromkeys((self.blocks[0], self.blocks[-1])) if self.on_gpu else self.blocks
        for stay in blocks:
            ends = (self._usable(some, quality, stay) for some in (clips, reversed(clips)))
            for plan in dict.fromkeys(one for end in ends for one in islice(end, 1)):
                for warm_up in (0, WARM_UP) if self.on_gpu else (self.plan.warm_up,):
                    yield replace(plan, warm_up=warm_up)

    def _usable(
        self, clips: Iterable[int], quality: Quality, blocks: int | None
    ) -> Iterator[SeedVr2Plan]:
        """Plans of lengths that leave room for the smallest tiles."""
        for clip in clips:
            plan = replace(
                with_clip(self.plan, clip),
                blocks_on_device=blocks,
                decodes_whole_tiles=quality.tile_statistics,
                warm_up=WARM_UP if self.on_gpu else self.plan.warm_up,
            )
            if self.room.holds_on_device(self._smallest(plan)):
                yield plan

    def _least_seconds(self, base: SeedVr2Plan) -> float:
        """Least seconds of a plan: whole frames in one span, no streamed blocks."""
        span = latents_of(self.room.frames)
        whole = replace(
            base,
            encode_tile=None,
            decode_tile=None,
            encode_span=span,
            decodes_whole_tiles=False,
            blocks_on_device=None,
            warm_up=0,
        )
        return self.room.seconds(whole)

    def _filled(self, base: SeedVr2Plan) -> Iterator[SeedVr2Plan]:
        """Plans with the tiles and spans that take least time among those that fit, if any do."""
        small, longest = self._smallest(base), self._longest_span(base)
        encode = self._tiles("encode", self.encode, small, longest)
        if not encode:
            return
        decode = self._tiles("decode", self.decode[base.decodes_whole_tiles], small, longest)
        for first in encode:
            for second in decode:
                plan = replace(base, encode_tile=first, decode_tile=second)
                if self.on_gpu and None in (first, second):
                    yield from self._spanned(replace(plan, parks=False), longest)
                yield from self._spanned(plan, longest)

    def _tiles(
        self, direction: str, tiles: Sequence[Size | None], small: SeedVr2Plan, longest: int
    ) -> dict[Size | None, None]:
        """Tiles worth trying: whole frames, and the largest that fit for short and long spans.

        Args:
            direction: "encode" or "decode".
            tiles: Sizes, the largest first.
            small: Plan with the smallest tiles.
            longest: Latents of the longest span.
        """

        def fits(span: int, tile: Size | None) -> bool:
            some: dict[str, Any] = {f"{direction}_tile": tile, f"{direction}_span": span}
            return self.room.holds_on_device(replace(small, **some))

        found: dict[Size | None, None] = {}
        if None in tiles and fits(USUAL_SPAN, None):
            found[None] = None
        cut = [tile for tile in tiles if tile is not None]
        near = self.near.get(direction, 0)
        for span in dict.fromkeys((longest, USUAL_SPAN)):
            largest = first_fit(cut, partial(fits, span), near)[:1]
            found |= dict.fromkeys(largest)
            if largest:  # smaller ones are not the largest for a shorter span either
                cut = cut[: cut.index(largest[0])]
            if span == longest:
                self.near[direction] = len(cut)
            near = len(cut) - 1
        return found

    def _spanned(self, plan: SeedVr2Plan, longest: int) -> Iterator[SeedVr2Plan]:
        """Plans with pairs of spans that fit, of which none is longer than another."""
        encode = self._spans(longest)
        decode = (USUAL_SPAN,) if plan.decode_tile is None else encode

        @cache
        def fits(first: int, second: int) -> bool:
            one = replace(plan, encode_span=first, decode_span=second)
            return self.room.holds_on_device(one) and self._waiting(one) <= self._most_waiting(one)

        for first, second in pairs_within(encode, decode, fits):
            if fits(first, second):
                yield self._pinned(replace(plan, encode_span=first, decode_span=second))

    def _waiting(self, plan: SeedVr2Plan) -> int:
        """Main memory of the program without copies of weights."""
        return self.room.peak(plan).host - self.room.processes * plan.pin_bytes

    def _most_waiting(self, plan: SeedVr2Plan) -> int:
        """RAM that it may take; long spans leave some to other programs."""
        most = self.room.most_ram(plan)
        if not self.on_gpu or plan.encode_span == plan.decode_span == USUAL_SPAN:
            return most
        return min(most, most_waiting(plan))

    def _longest_span(self, plan: SeedVr2Plan) -> int:
        frames = self.room.frames
        at_risk = int(_MOST_LOST_S * frames / self._least_seconds(plan)) // STEP
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

    def _with_more_blocks(self, plan: SeedVr2Plan) -> SeedVr2Plan:
        """Plan with as many blocks on the GPU as fit next to its tiles."""
        for blocks in self.blocks:
            if blocks == plan.blocks_on_device:
                break
            more = self._pinned(replace(plan, blocks_on_device=blocks, pin_bytes=0))
            if self.room.holds(more) and self.room.seconds(more) <= self.room.seconds(plan):
                return more
        return plan

    def _pinned(self, plan: SeedVr2Plan) -> SeedVr2Plan:
        """Plan with copies of streamed weights in RAM, as far as they fit.

        What else may be pinned is for carries, which pass less often.
        """
        plan, most = with_copies(plan, self.room, streamed_bytes(plan)), self.room.most_pinned
        return replace(plan, park_pin_bytes=most - plan.pin_bytes) if self.on_gpu else plan

    def _smallest(self, base: SeedVr2Plan) -> SeedVr2Plan:
        """Plan with the smallest tiles; whole frames where they are too small to be cut."""
        tiles = self.decode[base.decodes_whole_tiles]
        return replace(base, encode_tile=self.encode[-1], decode_tile=tiles[-1])


# --- the plans next to a plan


def smaller(plan: SeedVr2Plan, stage: str = "") -> SeedVr2Plan | None:
    """Plan with less on the device; None at the minimum.

    The stage that ran out, or else the one that needs most, takes less in the new plan; where
    nothing can be made smaller there, fewer weights stay, and last what any other stage takes.

    Args:
        plan: Plan that needs too much.
        stage: Stage that ran out of memory: "encode", "transformer" or "decode"; "" where that
            is not known.
    """
    now, axes = needs(plan), _axes(plan)
    first, *others = sorted(now.stages, key=lambda name: (name != stage, -now.stages[name]))
    order = [first, "weights", *others]
    if now.weights > now.working[first]:
        order[:2] = reversed(order[:2])
    less = {
        "encode": less_tiled(plan, axes["encode"]),
        "transformer": axes["clips"].less(plan),
        "decode": _decoding_less(plan, axes["decode"]),
        "weights": axes["blocks"].less(plan),
    }
    kept = replace(plan, encode_at_once=1, decode_at_once=1), replace(plan, parks=True)
    return next_smaller(plan, [("", kept), *((name, less[name]) for name in order)], _bytes_of)


def gentler(plan: SeedVr2Plan, than: SeedVr2Plan) -> SeedVr2Plan:
    """A plan in half the tiles of another one, and no longer clips or more blocks."""
    axes, plan = _axes(than), with_clip(plan, than.latents)
    return replace(
        plan,
        blocks_on_device=than.blocks_on_device,
        encode_tile=axes["encode"].half(than),
        decode_tile=axes["decode"].half(than),
    )


def less_on_host(plan: SeedVr2Plan) -> SeedVr2Plan | None:
    """Plan with less RAM; None at the minimum."""
    if plan.is_tiled:
        if not plan.warm_up:
            return replace(plan, warm_up=WARM_UP)
        if max(plan.encode_span, plan.decode_span) > USUAL_SPAN:
            encode, decode = (
                max(USUAL_SPAN, span // 2) for span in (plan.encode_span, plan.decode_span)
            )
            return replace(plan, encode_span=encode, decode_span=decode)
    return next(_axes(plan)["clips"].less(plan), None)


def steps(plan: SeedVr2Plan) -> Iterator[Step]:
    """Other blocks, clips and tiles, longer spans, and other formats of matrix products."""
    axes = _axes(plan)
    if plan.device != "cuda":
        del axes["blocks"]
    yield from steps_of(plan, axes.values())
    longer = _longer_spans(plan)
    if longer is not None:
        text = message("step.spans", frames=STEP * max(longer.encode_span, longer.decode_span))
        yield step_to(longer, "longer-spans", text, is_more=True)
    if plan.device == "cuda":
        yield from format_steps(plan, MATMUL)


def _axes(plan: SeedVr2Plan) -> dict[str, Axis[SeedVr2Plan]]:
    """Blocks, clips and tiles, in the order in which the window offers others."""
    config, vae = files.configs(plan)
    return {
        "blocks": blocks_axis(
            _block_counts(plan.blocks_on_device, config.layers), config.layers, streamed_bytes
        ),
        "clips": Axis(
            field="latents",
            values=CLIPS["cuda"],
            more_code="longer-clips",
            less_code="shorter-clips",
            text=_clips_text,
            put=with_clip,
        ),
        "decode": _decoder_tiles(vae, plan.padded, is_whole=plan.decodes_whole_tiles),
        "encode": tile_axis("encode", plan.padded, ENCODE_OVERLAP_PX, vae.spatial_factor),
    }


def _block_counts(stay: int | None, layers: int) -> tuple[int | None, ...]:
    """Numbers of blocks on the device, most first; None: all, and the text's weights too."""
    most = layers if stay is None else min(stay, layers)
    more = min(most + _BLOCKS_STEP, layers)
    return tuple(dict.fromkeys((None, more, *range(most, -1, -_BLOCKS_STEP), 0)))


def _clips_text(plan: SeedVr2Plan) -> Message:
    return message("step.one-frame" if plan.frames == 1 else "step.clips", frames=plan.frames)


def _decoding_less(plan: SeedVr2Plan, axis: Axis[SeedVr2Plan]) -> Iterator[SeedVr2Plan]:
    """One at a time, smaller ones, then tiles that all of the decoder sees: the last resort."""
    yield from less_tiled(plan, axis)
    if not plan.decodes_whole_tiles:
        _, vae = files.configs(plan)
        last = replace(plan, decode_at_once=1, decodes_whole_tiles=True)
        yield last
        yield from _decoder_tiles(vae, plan.padded, is_whole=True).less(last)


def _bytes_of(plan: SeedVr2Plan) -> dict[str, int]:
    """Bytes on the device: of each stage, of weights, and "" the most at once."""
    found = needs(plan)
    return {**found.stages, "weights": found.weights, "": found.device}


def _longer_spans(plan: SeedVr2Plan) -> SeedVr2Plan | None:
    """Plan with spans at most twice as long; None where none may be longer or none begins again.

    No search takes a plan beyond those limits however much main memory there is.
    """
    most = min(LONGEST_SPAN, latents_of(plan.film)) if plan.film else LONGEST_SPAN
    encode, decode = (
        span if tile is None else max(span, min(2 * span, most))
        for tile, span in (
            (plan.encode_tile, plan.encode_span),
            (plan.decode_tile, plan.decode_span),
        )
    )
    longer = replace(plan, encode_span=encode, decode_span=decode)
    if not plan.warm_up or plan.device != "cuda" or longer == plan:
        return None
    return longer if needs(longer).host - longer.pin_bytes <= most_waiting(longer) else None
