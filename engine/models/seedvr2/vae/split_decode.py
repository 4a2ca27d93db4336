"""Decode large frames: the small part of the decoder at once, the large part tile by tile.

Attention and most channels are where the frame is small, so they see the whole frame and leave no
seams. Tiles of the rest share what their convolutions can see; what is left are the norms:

- `tile`: every tile uses its own statistics, and a ramp of `blend` pixels hides what differs. One
  run over the tiles.
- `frame`: first runs take the statistics over all tiles, each pixel once, and merge them; the last
  run applies them. All tiles then compute the same function and no seam is left, with any number
  of first runs. With one, the statistics of the first norm are exact and those of later ones come
  from tiles that still went by themselves; every further run makes one more norm exact. With as
  many as there are norms the result is that of the whole frame. A run applies only what is exact
  by then: statistics of later norms, taken from tiles that went by themselves, do not fit to what
  an exact norm makes, and applied early they lead away from the result.

What that leaves, on the published depth with random weights, 16 to 32 channels, four tiles of a
frame of 448 x 80, noise and noise that grows from left to right; in multiples of the deviation of
the frames:

| | neighbours differ where they overlap | error against the whole frame |
|---|---|---|
| `tile`, hard cuts or a ramp of 32 px | 0.12 to 0.74 | 0.08 to 0.65 |
| `frame`, one first run | 0, bit for bit | 0.006 to 0.40 |
| `frame`, two, three | 0, bit for bit | 0.004 to 0.44 |
| `frame`, 13 | 0, bit for bit | rounding |

Cost of the large part in multiples of a decode without tiles, `work` being computed pixels for
each of the frame (tiling.SplitTiles.work): `tile`: work, `frame`: (1 + passes) * work. On the
processor, in that frame (work 1.32), the whole decode took 1.3 to 1.8 and, with one first run, 2.4
to 3.0 times as long as without tiles; by this rule 1.3 and 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.norm_statistics import Book, Statistics
from engine.models.seedvr2.vae.tiling import SplitTiles, split_tiles
from engine.models.video_vae.slicing import slices
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.tile_canvas import Sink
from engine.tiling.blend import tile_weights
from engine.tiling.grid import cells

TileStatistics = Literal["tile", "frame"]


class SplitVae(Protocol):
    """A VAE whose decoder can be run in two parts; the fast variant."""

    @property
    def config(self) -> VaeConfig:
        """Sizes of the model."""
        ...

    def decode_low(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Features [T', C, y, x] of one slice [1, L, t, h, w], and the next carry."""
        ...

    def decode_high(
        self, features: Tensor, carry: Carry, statistics: Statistics | None
    ) -> tuple[Tensor, Carry]:
        """Frames [T, 3, factor*y, factor*x] of the features of one slice, and the next carry.

        Features may lie in host memory, and be a box of larger ones.
        """
        ...


def split_decode(
    vae: SplitVae,
    latent: Tensor,
    *,
    tile: Size,
    blend: int,
    tile_statistics: TileStatistics,
    sink: Sink,
    passes: int = 1,
    park: bool = False,
) -> None:
    """Decode one clip into a sink, always slice by slice.

    Args:
        vae: The fast variant.
        latent: [1, L, t, h, w], unscaled.
        tile: Most pixels computed at a time, see `tiling.split_tiles`.
        blend: Pixels that the ramp across a seam is wide; 0 cuts hard, as suits `frame`.
        tile_statistics: What the norms of a tile go by, see above.
        sink: Takes the finished parts: tile after tile, each from its first frame to its last.
            May raise to stop in between.
        passes: First runs of `frame`; one frame in one tile needs none.
        park: Keep the features in host memory.

    Raises:
        ValueError: A clip that is not alone, or a tile that does not fit (see `split_tiles`).
        NumericOverflow: From the sink.
        torch.OutOfMemoryError: The device refused; the caller takes smaller tiles.

    Memory: the carry and the buffers of one tile, and the features of the whole clip: in the
    published model 32 values for each pixel and pair of frames, so 66 MB a frame of 1920 x 1080
    in half precision.
    """
    if len(latent) != 1:
        raise ValueError(f"{len(latent)} clips at a time")
    height, width = latent.shape[-2:]
    tiles = split_tiles(vae.config, Size(width, height), tile, blend)
    run = _TileRuns(vae, _features(vae, latent, park=park), tiles)
    known = _known(run, passes) if tile_statistics == "frame" else None
    for index, share in enumerate(tile_weights(tiles.canvas, run.on_canvas, blend=blend)):
        corner, window = run.on_canvas[index], share.window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        weight = share.weight()
        start = 0
        for frames in run.frames(index, known):
            weight = weight if weight is None else weight.to(frames.device)
            sink.add(_cut(frames, inside), window, start, weight)
            start += len(frames)
        sink.check()


def _features(vae: SplitVae, latent: Tensor, *, park: bool) -> list[Tensor]:
    """The small part of the decoder over the whole frame: features of each slice."""
    length = latent.shape[2]
    carry = Carry()
    features = []
    for start, end in slices(length, vae.config.slice_latents):
        carry = carry.handed_over(last=end == length)
        part, carry = vae.decode_low(latent[:, :, start:end], carry)
        features.append(parked(part) if park else part)
    return features


def parked(features: Tensor) -> Tensor:
    """The same in host memory, channels last for the tiles.

    Not pinned: those of a span are a large part of main memory, and a slice takes a hundred times
    as long to compute as to copy (estimated).
    """
    host = torch.empty(features.shape, dtype=features.dtype, memory_format=torch.channels_last)
    return host.copy_(features)


def _known(run: _TileRuns, passes: int) -> Book | None:
    """Statistics of the norms over the whole frame; None where a tile is the whole frame anyway."""
    known: Book | None = None
    for exact in range(passes if len(run.on_canvas) > 1 else 0):
        applied, record = known and known.first(exact), Book()
        for index in range(len(run.on_canvas)):
            for _frames in run.frames(index, applied, record):
                pass
        known = record
    return known


class _TileRuns:
    """The large part of the decoder over one tile at a time."""

    def __init__(self, vae: SplitVae, features: list[Tensor], tiles: SplitTiles) -> None:
        self._vae = vae
        self._features = features
        self._tiles = tiles
        self._cells = cells(tiles.features, tiles.boxes)
        self.on_canvas = [box.scaled(tiles.factor) for box in tiles.boxes]

    def frames(
        self, index: int, known: Book | None, record: Book | None = None
    ) -> Iterator[Tensor]:
        """Frames [T, 3, H, W] of one tile, slice by slice, halo included."""
        box = self._tiles.boxes[index]
        statistics = self._statistics(index, known, record)
        carry = Carry()
        for number, features in enumerate(self._features, 1):
            carry = carry.handed_over(last=number == len(self._features))
            frames, carry = self._vae.decode_high(_cut(features, box), carry, statistics)
            yield frames

    def _statistics(self, index: int, known: Book | None, record: Book | None) -> Statistics | None:
        if known is None and record is None:
            return None
        box, cell = self._tiles.boxes[index], self._cells[index]
        own = Box(cell.x - box.x, cell.y - box.y, cell.width, cell.height)
        return Statistics(known, record, own, box.size)


def _cut(frames: Tensor, box: Box) -> Tensor:
    return frames[..., box.y : box.bottom, box.x : box.right]
