"""What a user is shown of a plan of SeedVR2."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.messages import Message, message
from engine.core.units import memory_text
from engine.hardware import devices
from engine.hardware.budget import Budget
from engine.models.planning import notices as shared
from engine.models.planning.notices import chosen, chosen_tiles
from engine.models.seedvr2 import files
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.planning import requirements
from engine.models.seedvr2.planning.vae_memory import ENCODE_OVERLAP_PX
from engine.protocol.plan import Notice
from engine.tiling.grid import tile_grid


def choices(plan: SeedVr2Plan, title: str) -> Iterator[Notice]:
    """File, clips, tiles and blocks, a sentence each."""
    case = "file" if plan.vae_dtype == plan.dtype else "file-and-vae"
    about = {"title": title, "name": plan.dit.path.name, "dtype": plan.dtype}
    yield chosen("model", case, **about, vae_dtype=plan.vae_dtype)
    case = "one-frame" if plan.frames == 1 else "shared" if plan.shared_frames else "frames"
    yield chosen("clips", case, frames=plan.frames, shared=plan.shared_frames)
    count = 1
    if plan.encode_tile is not None:
        count = len(tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX))
    yield chosen_tiles("encode", count, plan.encode_tile)
    tiles = "independent-tiles" if plan.decodes_whole_tiles else "tiles"
    yield chosen_tiles("decode", requirements.tiles(plan), plan.decode_tile, tiles)
    if plan.device == "cuda":
        yield from _blocks(plan)
    yield from shared.early_tiles(plan, plan.warm_up, plan.encode_tile or plan.decode_tile)


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
    """What differs between two plans, the main thing first."""
    if old.vae_dtype != new.vae_dtype:
        yield message("change.dtype", before=old.vae_dtype, after=new.vae_dtype)
    if old.clip != new.clip:
        yield message("change.clips", before=old.frames, after=new.frames)
    yield from shared.tiles_change("decoding", old.decode_tile, new.decode_tile)
    yield from shared.tiles_change("encoding", old.encode_tile, new.encode_tile)
    if old.blocks_on_device != new.blocks_on_device:
        code = "change.blocks-of-all" if old.blocks_on_device is None else "change.blocks"
        yield message(code, before=old.blocks_on_device, after=new.blocks_on_device)
    yield from shared.warm_up_change(old.warm_up, new.warm_up)
    if old.pin_bytes != new.pin_bytes:
        yield message("change.fewer-copies")


def notices(plan: SeedVr2Plan, title: str, budget: Budget) -> Iterator[Notice]:
    """What the user should know before the start."""
    yield from shared.shot_notices(title, plan)
    offered = devices.matmul_dtypes(budget.capability)
    if plan.device == "cuda" and plan.products not in ("none", *offered):
        nearest = offered[0] if offered else "none"
        yield Notice(
            code="feature-missing",
            case="matmul",
            severity="refusal",
            params={"feature": plan.products, "nearest": nearest},
        )
    if plan.decodes_whole_tiles:
        yield Notice(code="decoder-in-tiles", severity="info")
