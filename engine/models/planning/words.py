"""Sentences that the plans of several families share."""

from __future__ import annotations

from collections.abc import Iterator

from engine.core.geometry import Size
from engine.models.contracts import ShotPlan
from engine.protocol.plan import Notice

FRAMES_OF_LATENT = 4


def chosen(code: str, message: str, **params: object) -> Notice:
    """Something that was decided; also a phrase of a summary."""
    values = {name: str(value) for name, value in params.items()}
    return Notice(code=code, severity="info", message=message, params=values)


def tiles_sentence(what: str, count: int, tile: Size | None) -> str:
    """How frames are cut: "Frames are decoded in 4 tiles of 512x512."."""
    return f"{what} whole." if tile is None or count == 1 else f"{what} in {count} tiles of {tile}."


def early_tiles(work: ShotPlan, latents: int, tile: Size | None) -> Iterator[Notice]:
    """That tiles begin so many latents early, where they do."""
    if latents and tile is not None and work.device == "cuda":
        frames = FRAMES_OF_LATENT * latents
        yield chosen(
            "early",
            f"Tiles begin {frames} frames early: main memory has no room for what they would have "
            "to remember.",
            frames=frames,
        )


def tiles_phrases(encode: Size | None, decode: Size | None) -> Iterator[Notice]:
    """Tiles in a summary; whole frames need no words."""
    for code, verb, tile in (("encode", "encoded", encode), ("decode", "decoded", decode)):
        if tile is not None:
            size = f"{tile.width}×{tile.height}"
            yield chosen(f"{code}-tiles", f"{verb} in tiles of {size}", size=size)


def tiles_part(verb: str, tile: Size | None) -> str:
    """Tiles in a line for a terminal: "decodes tiles of 512x512"."""
    return f"{verb} whole frames" if tile is None else f"{verb} tiles of {tile}"


def tiles_step(code: str, encode: Size | None, decode: Size | None) -> str:
    """A step to other tiles, or to tiles with a carry, as a sentence."""
    if code == "tiles-that-remember":
        return "Tiles that go on where they ended"
    verb, tile = ("Decoded", decode) if code.endswith("-decode-tiles") else ("Encoded", encode)
    return f"{verb} as whole frames" if tile is None else f"{verb} in tiles of {tile}"


def tile_edges(encode: Size | None, decode: Size | None) -> dict[str, str]:
    """Values of the settings for these tiles."""
    edges = {"encode_tile": encode, "decode_tile": decode}
    return {
        name: "0" if tile is None else str(max(tile.width, tile.height))
        for name, tile in edges.items()
    }


def tiles_change(doing: str, old: Size | None, new: Size | None) -> Iterator[str]:
    """Other tiles."""
    if old != new:
        yield f"{doing} in tiles of {new} instead of {old or 'whole frames'}"


def warm_up_change(old: int, new: int) -> Iterator[str]:
    """Tiles that begin early from now on."""
    if old != new:
        yield "tiles that begin early instead of keeping their state"


def shot_notices(title: str, work: ShotPlan) -> Iterator[Notice]:
    """What holds for every model that takes shots."""
    if work.device == "cpu":
        yield Notice(
            code="slow-on-processor",
            severity="warning",
            message=f"{title} is made for NVIDIA cards: on the processor this takes very long.",
            hint="Try a short part first, or choose Lite.",
        )
    if work.shot_sensitivity is None:
        yield Notice(
            code="cuts-not-looked-for",
            severity="info",
            message="Cuts are not looked for: behind a cut the old picture may shine through.",
        )
