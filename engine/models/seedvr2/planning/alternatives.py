"""Plans next to a plan of SeedVR2, one step smaller or larger, and what a user is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from engine.core.messages import Message, message
from engine.core.units import memory_text
from engine.models.contracts import Step
from engine.models.planning import notices as shared
from engine.models.planning.notices import chosen, chosen_tiles
from engine.models.planning.search import next_tile, next_tiles
from engine.models.seedvr2 import files
from engine.models.seedvr2.plan import STEP, SeedVr2Plan, latents_of
from engine.models.seedvr2.planning import requirements
from engine.models.seedvr2.planning.requirements import needs, streamed_bytes
from engine.models.seedvr2.planning.search import (
    BLOCKS_STEP,
    CLIPS,
    LONGEST_SPAN,
    WARM_UP,
    decoder_tiles,
    encoder_tiles,
    most_waiting,
    with_clip,
)
from engine.models.seedvr2.vae.tiling import ENCODE_OVERLAP_PX, USUAL_SPAN
from engine.protocol.plan import Notice
from engine.tiling.grid import tile_grid

# --- the next smaller plan


def smaller(plan: SeedVr2Plan, stage: str = "") -> SeedVr2Plan | None:
    """Plan with less on the device; None at the minimum.

    The stage that ran out, or else the one that needs most, takes less in the new plan; where
    nothing can be made smaller there, fewer weights stay, and last what any other stage takes.

    Args:
        plan: Plan that needs too much.
        stage: Stage that ran out of memory: "encode", "transformer" or "decode"; "" where that
            is not known.
    """
    now = needs(plan)
    for changed in (replace(plan, encode_at_once=1, decode_at_once=1), replace(plan, parks=True)):
        if needs(changed).device < now.device:
            return changed
    first, *others = sorted(now.stages, key=lambda name: (name != stage, -now.stages[name]))
    order: list[Callable[[], SeedVr2Plan | None]] = [
        partial(_smaller_stage, plan, first),
        partial(_fewer_blocks, plan),
        *(partial(_smaller_stage, plan, name) for name in others),
    ]
    if now.weights > now.working[first]:
        order[:2] = reversed(order[:2])
    found = (step() for step in order)
    return next((one for one in found if one is not None), None)


def less_on_host(plan: SeedVr2Plan) -> SeedVr2Plan | None:
    """Plan with less RAM; None at the minimum."""
    if plan.encode_tile or plan.decode_tile:
        if not plan.warm_up:
            return replace(plan, warm_up=WARM_UP)
        if max(plan.encode_span, plan.decode_span) > USUAL_SPAN:
            encode, decode = (
                max(USUAL_SPAN, span // 2) for span in (plan.encode_span, plan.decode_span)
            )
            return replace(plan, encode_span=encode, decode_span=decode)
    return next(_shorter(plan), None)


def _smaller_stage(plan: SeedVr2Plan, stage: str) -> SeedVr2Plan | None:
    """Plan with less for one stage; None at its minimum."""
    steps = {"encode": _encoding_less, "transformer": _shorter, "decode": _decoding_less}
    now = needs(plan).stages[stage]
    less = (one for one in steps[stage](plan) if needs(one).stages[stage] < now)
    return next(less, None)


def _encoding_less(plan: SeedVr2Plan) -> Iterator[SeedVr2Plan]:
    """One tile at a time, then smaller ones."""
    plan = replace(plan, encode_at_once=1)
    yield plan
    tile = plan.encode_tile
    while (tile := next_tile(tile, plan.padded)) is not None:
        yield replace(plan, encode_tile=tile)


def _decoding_less(plan: SeedVr2Plan) -> Iterator[SeedVr2Plan]:
    """One at a time, smaller ones, then tiles that all of the decoder sees: the last resort."""
    plan = replace(plan, decode_at_once=1)
    yield plan
    tile = plan.decode_tile
    while (tile := next_tile(tile, plan.padded)) is not None:
        yield replace(plan, decode_tile=tile)
    if plan.decodes_whole_tiles:
        return
    tile = plan.decode_tile or next_tile(None, plan.padded)
    while tile is not None:
        yield replace(plan, decode_tile=tile, decodes_whole_tiles=True)
        tile = next_tile(tile, plan.padded)


def _shorter(plan: SeedVr2Plan) -> Iterator[SeedVr2Plan]:
    lengths = (clip for clip in CLIPS["cuda"] if clip < plan.latents)
    yield from (with_clip(plan, clip) for clip in lengths)


def _fewer_blocks(plan: SeedVr2Plan) -> SeedVr2Plan | None:
    """All but the text's weights, then fewer and fewer whole blocks."""
    if plan.blocks_on_device == 0:
        return None
    layers = files.configs(plan)[0].layers
    stay = plan.blocks_on_device
    fewer = layers if stay is None else min(stay, layers) * 3 // 4
    less = replace(plan, blocks_on_device=fewer)
    return less if needs(less).weights < needs(plan).weights else _fewer_blocks(less)


# --- one step to more or to less


def steps(plan: SeedVr2Plan) -> Iterator[Step]:
    """Other counts of blocks, lengths of clips, sizes of tiles."""
    config, vae = files.configs(plan)
    found: list[tuple[str, SeedVr2Plan, bool]] = []
    for more, word in ((True, "larger"), (False, "smaller")):
        clip = _next_clip(plan, more=more)
        if clip is not None:
            code = "longer-clips" if more else "shorter-clips"
            found.append((code, with_clip(plan, clip), more))
        worth = decoder_tiles(vae, plan.padded, is_whole=plan.decodes_whole_tiles)
        for tile in next_tiles(
            worth, plan.decode_tile, more=more, whole=not plan.decodes_whole_tiles
        ):
            found.append((f"{word}-decode-tiles", replace(plan, decode_tile=tile), more))
        worth = encoder_tiles(vae, plan.padded)
        for tile in next_tiles(worth, plan.encode_tile, more=more, whole=True):
            found.append((f"{word}-encode-tiles", replace(plan, encode_tile=tile), more))
        if plan.device == "cuda":
            yield from _other_blocks(plan, config.layers, more=more)
    longer = _longer_spans(plan)
    if longer is not None:
        found.append(("longer-spans", longer, True))
    yield from (_step(code, one, is_more=more) for code, one, more in found)


def _next_clip(plan: SeedVr2Plan, *, more: bool) -> int | None:
    """The next length in latents; None where there is none."""
    now, usual = plan.latents, CLIPS["cuda"]
    if more:
        return min((clip for clip in usual if clip > now), default=None)
    return max((clip for clip in usual if clip < now), default=None)


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


def _other_blocks(plan: SeedVr2Plan, layers: int, *, more: bool) -> Iterator[Step]:
    stay = plan.blocks_on_device
    if more and stay is not None:
        wanted = None if stay >= layers else min(layers, stay + BLOCKS_STEP)
        less = replace(plan, blocks_on_device=wanted, pin_bytes=0)
        less = replace(less, pin_bytes=min(plan.pin_bytes, streamed_bytes(less)))
        yield _step("more-blocks-on-card", less, is_more=True)
    if not more and stay != 0:
        wanted = layers if stay is None else max(0, min(stay, layers) - BLOCKS_STEP)
        less = replace(plan, blocks_on_device=wanted)
        yield _step("fewer-blocks-on-card", less, is_more=False)


def _step(code: str, plan: SeedVr2Plan, *, is_more: bool) -> Step:
    stay = plan.blocks_on_device
    return Step(
        code=code,
        message=_step_message(code, plan),
        work=plan,
        is_more=is_more,
        params={
            **shared.tile_edges(plan.encode_tile, plan.decode_tile),
            "clip_frames": str(plan.frames),
            "blocks_on_device": "-1" if stay is None else str(stay),
        },
    )


def _step_message(code: str, plan: SeedVr2Plan) -> Message:
    if code.endswith("-clips"):
        one_frame = plan.frames == 1
        return message("step.one-frame" if one_frame else "step.clips", frames=plan.frames)
    if code.endswith("-card"):
        whole = plan.blocks_on_device is None
        code = "step.whole-model" if whole else "step.blocks"
        return message(code, blocks=plan.blocks_on_device)
    if code == "longer-spans":
        return message("step.spans", frames=STEP * max(plan.encode_span, plan.decode_span))
    return shared.tiles_step(code, plan.encode_tile, plan.decode_tile)


def choices(plan: SeedVr2Plan, title: str) -> Iterator[Notice]:
    """File, clips, tiles and blocks, a sentence each."""
    case = "file" if plan.vae_dtype == plan.dtype else "file-and-vae"
    about = {"title": title, "name": plan.dit.path.name, "dtype": plan.dtype}
    yield chosen("model", case, **about, vae_dtype=plan.vae_dtype)
    if plan.result is not None:
        sizes = {"size": plan.size, "result": plan.result}
        yield chosen("working-size", "resized", share=plan.share, **sizes)
    case = "one-frame" if plan.frames == 1 else "shared" if plan.shared_frames else "frames"
    yield chosen("clips", case, frames=plan.frames, shared=plan.shared_frames)
    if plan.better_takes:
        case = "tile-statistics" if plan.decodes_whole_tiles else "shorter-clips"
        yield chosen("given-up", case, times=f"{plan.better_takes:.1f}")
    if plan.parks and plan.device == "cuda" and None in (plan.encode_tile, plan.decode_tile):
        yield chosen("parks")
    count = 1
    if plan.encode_tile is not None:
        count = len(tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX))
    yield chosen_tiles("encode", count, plan.encode_tile)
    tiles = "independent-tiles" if plan.decodes_whole_tiles else "tiles"
    yield chosen_tiles("decode", requirements.tiles(plan), plan.decode_tile, tiles)
    yield from shared.tiles_at_once(plan.encode_at_once, plan.decode_at_once)
    if plan.device == "cuda":
        yield from _blocks(plan)
    spans = [
        span
        for tile, span in (
            (plan.encode_tile, plan.encode_span),
            (plan.decode_tile, plan.decode_span),
        )
        if tile is not None
    ]
    yield from shared.early_tiles(plan, plan.warm_up, min(spans, default=0))


def _blocks(plan: SeedVr2Plan) -> Iterator[Notice]:
    layers, stay = files.configs(plan)[0].layers, plan.blocks_on_device
    if stay is None:
        yield chosen("blocks", "whole", blocks=layers, layers=layers)
        return
    case = "text-streamed" if stay >= layers else "some"
    yield chosen("blocks", case, blocks=stay, layers=layers)
    if plan.pin_bytes:
        yield chosen("copies", size=memory_text(plan.pin_bytes))


def changes(old: SeedVr2Plan, new: SeedVr2Plan) -> Iterator[Message]:
    """Differences between two plans, the main one first."""
    if old.vae_dtype != new.vae_dtype:
        yield message("change.dtype", before=old.vae_dtype, after=new.vae_dtype)
    if old.clip != new.clip:
        yield message("change.clips", before=old.frames, after=new.frames)
    yield from shared.tiles_change("decoding", old.decode_tile, new.decode_tile)
    yield from shared.tiles_change("encoding", old.encode_tile, new.encode_tile)
    yield from shared.at_once_change(
        (old.encode_at_once, old.decode_at_once), (new.encode_at_once, new.decode_at_once)
    )
    if old.blocks_on_device != new.blocks_on_device:
        code = "change.blocks-of-all" if old.blocks_on_device is None else "change.blocks"
        yield message(code, before=old.blocks_on_device, after=new.blocks_on_device)
    yield from shared.warm_up_change(old.warm_up, new.warm_up)
    if (old.encode_span, old.decode_span) != (new.encode_span, new.decode_span):
        yield message("change.shorter-spans")
    if old.parks < new.parks:
        yield message("change.waiting-states")
    if old.pin_bytes != new.pin_bytes:
        yield message("change.fewer-copies")


def notices(plan: SeedVr2Plan, title: str) -> Iterator[Notice]:
    """Notices that the user should read before the start."""
    yield from shared.shot_notices(title, plan)
    if plan.decodes_whole_tiles:
        yield Notice(code="decoder-in-tiles", severity="info")
