"""Decode large frames: the small part of the decoder at once, the large part tile by tile.

Attention and most channels are where the frame is small, so they see the whole frame and leave no
seams. Tiles of the rest share what their convolutions can see; what is left are the norms:

- `tile`: every tile goes by its own numbers, and a ramp of `blend` pixels hides what differs. One
  run over the tiles.
- `frame`: first runs take the numbers over all tiles, each pixel once, and merge them; the last
  run applies them. All tiles then compute the same function and no seam is left, with any number
  of first runs. With one, the numbers of the first norm are exact and those of later ones come
  from tiles that still went by themselves; every further run makes one more norm exact. With as
  many as there are norms the result is that of the whole frame. A run applies only what is exact
  by then: numbers of later norms, taken from tiles that went by themselves, do not fit to what
  an exact norm makes, and applied early they lead away from the result.

On small models with random weights, three tiles (error against the whole frame, relative to its
deviation): `tile` 0.08 to 0.6, `frame` 0.005 to 0.17 with one first run, 0.004 to 0.10 with three;
more of them are for comparisons.

Cost of the large part in multiples of a decode without tiles, `work` being computed pixels for
each of the frame (split_grid.SplitTiles.work): `tile`: work, `frame`: (1 + passes) * work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

import torch
from torch import Tensor

from engine.geometry import Box, Size
from engine.models.seedvr2.config import VaeConfig
from engine.models.seedvr2.fast_statistics import Book, Statistics
from engine.models.seedvr2.split_grid import SplitTiles, split_tiles
from engine.models.slicing import slices
from engine.ops.conv3d import Carry
from engine.ops.leave import Sink
from engine.tiling.blend import cells, shares

TileStatistics = Literal["tile", "frame"]


class SplitVae(Protocol):
    """A VAE whose decoder can be run in two parts; the fast form."""

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
        """Frames [T, 3, factor*y, factor*x] of the features of one slice, and the next carry."""
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
        vae: The fast form.
        latent: [1, L, t, h, w], unscaled.
        tile: Most pixels computed at a time, see `split_grid.split_tiles`.
        blend: Pixels that the ramp across a seam is wide; 0 cuts hard, as suits `frame`.
        tile_statistics: What the norms of a tile go by, see above.
        sink: Takes the finished parts: tile after tile, each from its first frame to its last.
            May raise to stop in between.
        passes: First runs of `frame`; one frame in one tile needs none.
        park: Keep the features in host memory (pinned where the device is a card).

    Raises:
        ValueError: A clip that is not alone, or a tile that does not fit (see `split_tiles`).
        NumericOverflow: From the sink.
        torch.OutOfMemoryError: The device refused; the caller takes smaller tiles.

    Memory: the carry and the buffers of one tile, and the features of the whole clip: in the
    published model 32 numbers for each pixel and pair of frames, so 66 MB a frame of 1920 x 1080
    in half precision.
    """
    if len(latent) != 1:
        raise ValueError(f"{len(latent)} clips at a time")
    height, width = latent.shape[-2:]
    tiles = split_tiles(vae.config, Size(width, height), tile, blend)
    run = _HighPart(vae, _features(vae, latent, park=park), tiles, latent.device)
    known = _known(run, passes) if tile_statistics == "frame" else None
    for index, share in enumerate(shares(tiles.canvas, run.on_canvas, blend=blend)):
        corner, window = run.on_canvas[index], share.window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        weight = share.weight()
        weight = weight if weight is None else weight.to(latent.device)
        start = 0
        for frames in run.frames(index, known):
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
        features.append(_parked(part) if park else part)
    return features


def _parked(features: Tensor) -> Tensor:
    """The same in host memory, pixels side by side as the tiles will want them."""
    host = torch.empty(
        features.shape,
        dtype=features.dtype,
        memory_format=torch.channels_last,
        pin_memory=features.device.type == "cuda",
    )
    return host.copy_(features)


def _known(run: _HighPart, passes: int) -> Book | None:
    """Numbers of the norms over the whole frame; None where a tile is the whole frame anyway."""
    known: Book | None = None
    for exact in range(passes if len(run.on_canvas) > 1 else 0):
        applied, record = known and known.first(exact), Book()
        for index in range(len(run.on_canvas)):
            for _frames in run.frames(index, applied, record):
                pass
        known = record
    return known


class _HighPart:
    """The large part of the decoder over one tile at a time."""

    def __init__(
        self, vae: SplitVae, features: list[Tensor], tiles: SplitTiles, device: torch.device
    ) -> None:
        self._vae = vae
        self._features = features
        self._tiles = tiles
        self._cells = cells(tiles.features, tiles.boxes)
        self._device = device
        self.on_canvas = [box.scaled(tiles.factor) for box in tiles.boxes]

    def frames(
        self, index: int, known: Book | None, record: Book | None = None
    ) -> Iterator[Tensor]:
        """Frames [T, 3, H, W] of one tile, slice by slice, halo included."""
        box = self._tiles.boxes[index]
        statistics = self._statistics(index, known, record)
        carry = Carry()
        for number, features in enumerate(self._features, 1):
            part = _cut(features, box).to(self._device)
            carry = carry.handed_over(last=number == len(self._features))
            frames, carry = self._vae.decode_high(part, carry, statistics)
            yield frames

    def _statistics(self, index: int, known: Book | None, record: Book | None) -> Statistics | None:
        if known is None and record is None:
            return None
        box, cell = self._tiles.boxes[index], self._cells[index]
        own = Box(cell.x - box.x, cell.y - box.y, cell.width, cell.height)
        return Statistics(known, record, own, box.size)


def _cut(frames: Tensor, box: Box) -> Tensor:
    return frames[..., box.y : box.bottom, box.x : box.right]
