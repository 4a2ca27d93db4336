"""What a user is shown of a plan of SeedVR2."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.units import memory_text
from engine.hardware import devices
from engine.hardware.budget import Budget
from engine.models.planning import words
from engine.models.planning.words import chosen
from engine.models.seedvr2 import files
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.planning import requirements
from engine.models.seedvr2.planning.vae_memory import ENCODE_OVERLAP_PX
from engine.protocol.plan import Notice
from engine.tiling.grid import tile_grid


def choices(plan: SeedVr2Plan, title: str) -> Iterator[Notice]:
    """File, clips, tiles and blocks, a sentence each."""
    vae = "" if plan.vae_dtype == plan.dtype else f", its VAE in {plan.vae_dtype}"
    yield chosen("model", f"{title} from {plan.dit.path.name}, computed in {plan.dtype}{vae}.")
    yield chosen("clips", _clips(plan), frames=plan.frames, shared=plan.shared_frames)
    count = 1
    if plan.encode_tile is not None:
        count = len(tile_grid(plan.padded, plan.encode_tile, ENCODE_OVERLAP_PX))
    yield chosen("encode", words.tiles_sentence("Frames are encoded", count, plan.encode_tile))
    count = requirements.tiles(plan)
    sentence = words.tiles_sentence("Frames are decoded", count, plan.decode_tile)
    if plan.decodes_whole_tiles:
        sentence = sentence.removesuffix(".") + ", each by itself, and blended."
    yield chosen("decode", sentence)
    if plan.device == "cuda":
        yield from _blocks(plan)
    yield from words.early_tiles(plan, plan.warm_up, plan.encode_tile or plan.decode_tile)


def _clips(plan: SeedVr2Plan) -> str:
    if plan.frames == 1:
        return "Every frame by itself."
    if plan.shared_frames:
        return (
            f"Clips of {plan.frames} frames, {plan.shared_frames} of them shared with the next "
            "clip."
        )
    return f"Clips of {plan.frames} frames."


def _blocks(plan: SeedVr2Plan) -> Iterator[Notice]:
    layers, stay = files.configs(plan)[0].layers, plan.blocks_on_device
    if stay is None:
        yield chosen("blocks", "The whole model stays on the card.", blocks=layers, layers=layers)
        return
    rest = "its text part comes" if stay >= layers else "the others come"
    yield chosen(
        "blocks",
        f"{stay} of {layers} blocks of the model stay on the card; {rest} from main memory for "
        "every clip.",
        blocks=stay,
        layers=layers,
    )
    if plan.pin_bytes:
        size = memory_text(plan.pin_bytes)
        yield chosen("copies", f"{size} of main memory hold copies that come fast.", size=size)


def changes(old: SeedVr2Plan, new: SeedVr2Plan) -> Iterator[str]:
    """What differs between two plans, the most telling first."""
    if old.vae_dtype != new.vae_dtype:
        yield f"numbers of {new.vae_dtype} instead of {old.vae_dtype}"
    if old.clip != new.clip:
        yield f"clips of {new.frames} instead of {old.frames} frames"
    yield from words.tiles_change("decoding", old.decode_tile, new.decode_tile)
    yield from words.tiles_change("encoding", old.encode_tile, new.encode_tile)
    if old.blocks_on_device != new.blocks_on_device:
        whole = old.blocks_on_device is None
        before = "" if whole else f" instead of {old.blocks_on_device}"
        after = " instead of all of it" if whole else ""
        yield f"{new.blocks_on_device}{before} blocks of the model kept loaded{after}"
    yield from words.warm_up_change(old.warm_up, new.warm_up)
    if old.pin_bytes != new.pin_bytes:
        yield "fewer copies of the model in main memory"


def notices(plan: SeedVr2Plan, title: str, budget: Budget) -> Iterator[Notice]:
    """What the user should know before the start."""
    yield from words.shot_notices(title, plan)
    offered = devices.matmul_dtypes(budget.capability)
    if plan.device == "cuda" and plan.products not in ("none", *offered):
        nearest = offered[0] if offered else "none"
        yield Notice(
            code="feature-missing",
            severity="refusal",
            message=f"This card cannot multiply {plan.products} numbers.",
            hint=f"Choose matmul={nearest}.",
            params={"feature": plan.products, "nearest": nearest},
        )
    if plan.decodes_whole_tiles:
        yield Notice(
            code="decoder-in-tiles",
            severity="info",
            message="Frames of this size do not fit through the decoder whole: it works in tiles "
            "that know nothing of each other, which may differ slightly before they are blended.",
            hint="A smaller result, or a card with more memory, needs no such tiles.",
        )
