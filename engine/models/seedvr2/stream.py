"""A shot through the VAE in one go, however long: frames in, latents out, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import NumericOverflow
from engine.geometry import Box, Size
from engine.models.seedvr2.load_vae import Vae
from engine.models.seedvr2.split_grid import split_tiles
from engine.models.seedvr2.vae_fast import FastVae
from engine.models.slicing import slices
from engine.ops.conv3d import Carry
from engine.ops.leave import TileSink
from engine.tiling.blend import Blender, shares
from engine.tiling.grid import tile_grid

_SHARED_PX = 64  # that neighbouring tiles of the encoder have in common


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedTile:
    """Some frames of one tile, just decoded: for people who watch.

    Attributes:
        frame: Number of its last frame, counted from the first one that was decoded.
        index: Of the tile.
        tiles: How many a frame has.
        box: Where it lies on the padded frame.
        picture: Its last frame [3, h, w], in [-1, 1].
    """

    frame: int
    index: int
    tiles: int
    box: Box
    picture: Tensor


Watch = Callable[[DecodedTile], None]


class EncodeStream:
    """Encodes the slices of one shot, tile by tile where `tile` is smaller than a frame.

    Memory: the carry of each tile, and what one slice of one tile takes.
    """

    def __init__(self, vae: Vae, frame: Size, tile: Size | None = None) -> None:
        factor = vae.config.spatial_factor
        self._vae = vae
        self._factor = factor
        self._canvas = Size(frame.width // factor, frame.height // factor)
        wanted = self._canvas if tile is None else _in_latents(tile, factor)
        self._shared = min(_SHARED_PX // factor, (min(wanted.width, wanted.height) - 1) // 2)
        self._boxes = tile_grid(self._canvas, wanted, self._shared)
        self._carries = [Carry() for _ in self._boxes]

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next slice.

        Args:
            frames: [T, 3, H, W] in [-1, 1]; T = 1 + n * temporal_factor in the first slice of a
                shot, n * temporal_factor later.
            last: The shot ends with it.

        Returns:
            [t, h, w, L] float32, scaled as the transformer takes it.
        """
        blender = Blender(self._canvas, margin=0)
        for index, box in enumerate(self._boxes):
            part = _cut(frames, box.scaled(self._factor))
            carry = self._carries[index].handed_over(last=last)
            moments, self._carries[index] = self._vae.encode_slice(_clip(part), carry)
            mean = moments[0].chunk(2)[0].movedim(0, 1).float()
            blender.add(mean, box, self._shared)
        return blender.result().mul(self._vae.config.scaling_factor).permute(0, 2, 3, 1)


class DecodeStream:
    """Decodes the latents of one shot; the large part of the decoder tile by tile on request.

    Without tiles frames come slice by slice. With tiles they come for all latents of a call at
    once, and the carries of tiles wait in host memory.

    Memory: without tiles a slice and the carry. With tiles those of one tile, and on the host the
    carries of all and 6 bytes for each pixel of each frame.
    """

    def __init__(
        self, vae: Vae, frame: Size, tile: Size | None = None, *, blend: int, watch: Watch
    ) -> None:
        self._vae = vae
        self._frame = frame
        self._watch = watch
        self._carry = Carry()
        self._count = 0
        self._tiled: _TiledHigh | None = None
        if tile is not None:
            if not isinstance(vae, FastVae):
                raise ValueError("only the fast form decodes in tiles")
            self._tiled = _TiledHigh(vae, frame, tile, blend)

    def push(self, latents: Tensor, *, last: bool) -> Iterator[Tensor]:
        """Decode the next latents.

        Args:
            latents: [t, h, w, L], scaled.
            last: The shot ends with them.

        Yields:
            Frames [T, 3, H, W] float32 in [-1, 1], not clipped (with tiles: clipped, of 16 bits).

        Raises:
            NumericOverflow: A number is infinite or none.
        """
        clip = _clip(latents.permute(0, 3, 1, 2)) / self._vae.config.scaling_factor
        step = self._vae.config.temporal_factor
        expected = step * len(latents) - (step - 1) * self._carry.first
        for piece, ends in self._pieces(clip, last):
            carry = self._carry.handed_over(last=ends)
            if self._tiled is None:
                frames, self._carry = self._vae.decode_slice(piece, carry)
                yield self._finished(frames[0].movedim(0, 1))
            else:
                features, self._carry = self._tiled.vae.decode_low(piece, carry)
                self._tiled.take(features)
        if self._tiled is not None:
            self._count += expected
            yield self._tiled.run(expected, self._tell, last)

    def _pieces(self, clip: Tensor, last: bool) -> Iterator[tuple[Tensor, bool]]:
        """Slices of [1, L, t, h, w], and whether the shot ends with it."""
        size, length = self._vae.config.slice_latents, clip.shape[2]
        if self._carry.first:
            cuts = list(slices(length, size))
        else:
            cuts = [(start, min(start + size, length)) for start in range(0, length, size)]
        for start, end in cuts:
            yield clip[:, :, start:end], last and end == length

    def _finished(self, frames: Tensor) -> Tensor:
        check_finite(frames)
        self._count += len(frames)
        self._tell(0, 1, Box(0, 0, self._frame.width, self._frame.height), frames[-1])
        return frames.float()

    def _tell(self, index: int, tiles: int, box: Box, picture: Tensor) -> None:
        frame = self._count - 1
        told = DecodedTile(frame=frame, index=index, tiles=tiles, box=box, picture=picture.float())
        self._watch(told)


class _TiledHigh:
    """The large part of the decoder over tiles, each with a carry of its own."""

    def __init__(self, vae: FastVae, frame: Size, tile: Size, blend: int) -> None:
        factor = vae.config.spatial_factor
        latent = Size(frame.width // factor, frame.height // factor)
        tiles = split_tiles(vae.config, latent, tile, blend)
        self.vae = vae
        self._frame = frame
        self._boxes = tiles.boxes
        self._on_canvas = [box.scaled(tiles.factor) for box in tiles.boxes]
        self._shares = shares(tiles.canvas, self._on_canvas, blend=blend)
        self._carries = [Carry() for _ in tiles.boxes]
        self._features: list[Tensor] = []

    def take(self, features: Tensor) -> None:
        """Keep the features [T, C, y, x] of one slice until all tiles have seen them."""
        self._features.append(features)

    def run(self, frames: int, told: Callable[[int, int, Box, Tensor], None], last: bool) -> Tensor:
        """Frames [frames, 3, H, W] float32 in [-1, 1] of all features that were taken."""
        sink = TileSink(frames, self._frame)
        for index in range(len(self._boxes)):
            picture = self._one(index, sink, last)
            told(index, len(self._boxes), self._on_canvas[index], picture)
            sink.check()
        self._features.clear()
        codes = sink.result().to(torch.float32).permute(0, 3, 1, 2)
        return codes.mul_(2 / 65535).sub_(1).to(self.vae.device)

    def _one(self, index: int, sink: TileSink, last: bool) -> Tensor:
        """All features through one tile; its last frame [3, h, w]."""
        box, corner, share = self._boxes[index], self._on_canvas[index], self._shares[index]
        window = share.window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        weight = share.weight()
        carry = self._carries[index].moved(self.vae.device)
        start = 0
        for number, features in enumerate(self._features, 1):
            carry = carry.handed_over(last=last and number == len(self._features))
            frames, carry = self.vae.decode_high(_cut(features, box), carry)
            weight = weight if weight is None else weight.to(frames.device)
            sink.add(_cut(frames, inside), window, start, weight)
            start += len(frames)
        self._carries[index] = carry.moved("cpu") if len(self._boxes) > 1 else carry
        return frames[-1]


def check_finite(frames: Tensor) -> None:
    """Refuse numbers that are infinite or none.

    Raises:
        NumericOverflow: The planner takes a wider format.
    """
    if bool(torch.isfinite(torch.stack(torch.aminmax(frames))).all()):
        return
    narrow = str(frames.dtype).removeprefix("torch.")
    raise NumericOverflow(
        f"The decoder's numbers grew too large for {narrow}.",
        hint="Choose bfloat16 or float32 for the decoder.",
        dtype=narrow,
    )


def _clip(frames: Tensor) -> Tensor:
    """[T, C, H, W] as a clip [1, C, T, H, W]."""
    return frames.movedim(0, 1).unsqueeze(0)


def _cut(frames: Tensor, box: Box) -> Tensor:
    return frames[..., box.y : box.bottom, box.x : box.right]


def _in_latents(tile: Size, factor: int) -> Size:
    return Size(max(1, tile.width // factor), max(1, tile.height // factor))
