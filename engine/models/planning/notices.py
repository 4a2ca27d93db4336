"""Notices and messages that the plans of several families share."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models.contracts import ShotPlan
from engine.protocol.plan import Notice

FRAMES_OF_LATENT = 4


def chosen(code: str, case: str = "", **params: object) -> Notice:
    """A decision of the planner; also a phrase of a summary."""
    values = {name: str(value) for name, value in params.items()}
    return Notice(code=code, case=case, severity="info", params=values)


def chosen_tiles(code: str, count: int, tile: Size | None, tiles: str = "tiles") -> Notice:
    """Notice of how frames are tiled: "Frames are decoded in 4 tiles of 512x512."."""
    whole = tile is None or count == 1
    return chosen(code, "whole" if whole else tiles, count=count, size=tile)


def tiles_at_once(*at_once: int) -> Iterator[Notice]:
    """Notice that two tiles of encoder or decoder are computed at the same time."""
    if max(at_once) > 1:
        yield chosen("at-once", count=max(at_once))


def early_tiles(work: ShotPlan, latents: int, span: int) -> Iterator[Notice]:
    """Notice that tiles begin n latents early after each span; 0: no tiles."""
    if latents and span and work.device == "cuda":
        frames = FRAMES_OF_LATENT * latents
        yield chosen("early", frames=frames, span=FRAMES_OF_LATENT * span)


def tiles_phrases(encode: Size | None, decode: Size | None) -> Iterator[Notice]:
    """Tiles in a summary; whole frames are not mentioned."""
    for code, tile in (("encode-tiles", encode), ("decode-tiles", decode)):
        if tile is not None:
            yield chosen(code, size=f"{tile.width}×{tile.height}")


def tiles_part(verb: str, tile: Size | None) -> str:
    """Tiles in a line for a terminal: "decodes tiles of 512x512"."""
    return f"{verb} whole frames" if tile is None else f"{verb} tiles of {tile}"


def tiles_step(code: str, encode: Size | None, decode: Size | None) -> Message:
    """A step to other tiles, or to tiles with a carry."""
    if code == "tiles-that-remember":
        return message("step.carry")
    side, tile = ("decode", decode) if code.endswith("-decode-tiles") else ("encode", encode)
    return message(f"step.{side}-{'whole' if tile is None else 'tiles'}", size=tile)


def tile_edges(encode: Size | None, decode: Size | None) -> dict[str, str]:
    """Values of the settings for these tiles."""
    edges = {"encode_tile": encode, "decode_tile": decode}
    return {
        name: "0" if tile is None else str(max(tile.width, tile.height))
        for name, tile in edges.items()
    }


def tiles_change(doing: str, old: Size | None, new: Size | None) -> Iterator[Message]:
    """Other tiles.

    Args:
        doing: "encoding" or "decoding".
        old: None for whole frames.
        new: Tile of the new plan.
    """
    if old != new:
        code = "change.decode-tiles" if doing == "decoding" else "change.encode-tiles"
        yield message(code, before=old or message("change.whole-frames"), after=new)


def at_once_change(old: tuple[int, int], new: tuple[int, int]) -> Iterator[Message]:
    """Fewer tiles at a time, of encoder and decoder."""
    if old != new:
        yield message("change.one-tile-at-a-time")


def warm_up_change(old: int, new: int) -> Iterator[Message]:
    """Tiles that begin early from now on."""
    if old != new:
        yield message("change.early-tiles")


def shot_notices(title: str, work: ShotPlan) -> Iterator[Notice]:
    """Notices for every model that takes shots."""
    if work.device == "cpu":
        yield Notice(code="slow-on-processor", severity="warning", params={"title": title})
    if work.shot_sensitivity is None:
        yield Notice(code="cuts-not-looked-for", severity="info")
