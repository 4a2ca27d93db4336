"""How frames are cut where a whole one does not fit, and what a tile does as time goes on."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.geometry import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How frames are cut, and what tiles do when they go on in time.

    Attributes:
        tile: Most pixels computed at a time; of the decoder's large part with its halo, see
            `split_grid.split_tiles`.
        blend: Pixels that the ramp between decoded tiles is wide.
        warm_up: 0: every tile goes on where it stopped; its carry waits in host memory, some 8
            KiB for each pixel of the decoder and 4 of the encoder. Else it begins so many latents
            earlier, which costs their time and gives nearly the same picture: what lies
            `reach.decoder_reach` latents back has no influence at all, and little from a few
            latents on.
        is_whole: Tiles go through all of the decoder: less memory, and neighbours differ a
            little. `blend` is that of `split_grid` then.
    """

    tile: Size
    blend: int = 32
    warm_up: int = 0
    is_whole: bool = False
