"""A shot through the VAE in one go, however long: frames in, latents out, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import NumericOverflow
from engine.geometry import Box, Size
from engine.models.seedvr2.load_vae import Vae
from engine.models.seedvr2.split_decode import parked
from engine.models.seedvr2.split_grid import split_tiles
from engine.models.seedvr2.vae_fast import FastVae
from engine.models.slicing import slices
from engine.ops.conv3d import Carry
from engine.ops.leave import TileSink
from engine.tiling.blend import Blender, shares
from engine.tiling.grid import tile_grid

_SHARED_PX = 64  # that neighbouring tiles of the encoder have in common
_SLICES_AT_A_TIME = 8  # that a tile is encoded for
_FRAMES_AT_A_TIME = 4  # that leave a finished canvas


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedTile:
    """Some frames of one tile, just decoded: for people who watch.

    Attributes:
        frame: Number of its last frame.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How frames are cut, and what tiles do when they go on in time.

    Attributes:
        tile: Most pixels computed at a time; of the decoder's large part with its halo, see
            `split_grid.split_tiles`.
        blend: Pixels that the ramp between decoded tiles is wide.
        warm_up: 0: every tile goes on where it stopped; its carry waits in host memory, some 8
            KiB for each pixel of the decoder and 4 of the encoder. Else it begins so many latents
            earlier anew, which costs their time and gives nearly the same picture: what lies
            `reach.decoder_reach` latents back has no influence at all, and little from a few
            latents on.
    """

    tile: Size
    blend: int = 32
    warm_up: int = 0


class EncodeStream:
    """Encodes the slices of one shot, tile by tile on request.

    Memory: without tiles a slice and the carry. With tiles those of one tile, and on the host some
    slices of frames in the numbers of the VAE, and the carries of all tiles (see `Tiling`).
    """

    def __init__(self, vae: Vae, frame: Size, tiling: Tiling | None = None) -> None:
        factor = vae.config.spatial_factor
        self._vae = vae
        self._factor = factor
        self._canvas = Size(frame.width // factor, frame.height // factor)
        wanted = self._canvas if tiling is None else _in_latents(tiling.tile, factor)
        self._shared = min(_SHARED_PX // factor, (min(wanted.width, wanted.height) - 1) // 2)
        self._boxes = tile_grid(self._canvas, wanted, self._shared)
        self._carries = [Carry() for _ in self._boxes]
        self._slices: list[Tensor] = []
        self._before: list[Tensor] = []  # slices that tiles warm up with
        self._warm_up = tiling.warm_up if tiling is not None and self._is_tiled else 0
        self._dropped = 0  # slices since the first of the shot that nobody needs any more

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next slice.

        Args:
            frames: [T, 3, H, W] in [-1, 1]; T = 1 + n * temporal_factor in the first slice of a
                shot, n * temporal_factor later.
            last: The shot ends with it.

        Returns:
            [t, h, w, L] float32, scaled as the transformer takes it; with tiles t is 0 until some
            slices are there.
        """
        self._slices.append(self._parked(frames) if self._is_tiled else frames)
        if self._is_tiled and not last and len(self._slices) < _SLICES_AT_A_TIME:
            shape = (0, self._canvas.height, self._canvas.width, self._vae.config.latent_channels)
            return frames.new_empty(shape, dtype=torch.float32)
        slices, fresh = self._due()
        blender = Blender(self._canvas, margin=0)
        for index, box in enumerate(self._boxes):
            latents = self._tile(index, slices, frames.device, last=last or bool(self._warm_up))
            blender.add(latents[len(latents) - fresh :], box, self._shared)
        return blender.result().mul(self._vae.config.scaling_factor).permute(0, 2, 3, 1)

    @property
    def _is_tiled(self) -> bool:
        return len(self._boxes) > 1

    def _parked(self, frames: Tensor) -> Tensor:
        """In host memory, in the numbers of the VAE."""
        return frames.to(getattr(self._vae, "dtype", frames.dtype)).cpu()

    def _due(self) -> tuple[list[Tensor], int]:
        """Slices to run, those to warm up with first, and how many latents are not known yet."""
        fresh, before = self._slices, self._before
        frames = sum(len(one) for one in fresh)
        latents = -(-frames // self._vae.config.temporal_factor)
        known = [*before, *fresh]
        unneeded = max(0, len(known) - self._warm_up)
        dropped, self._dropped = self._dropped, self._dropped + unneeded
        self._slices, self._before = [], known[unneeded:]
        if before and dropped:  # the first slice of a clip has one frame more, and a latent for it
            known[:2] = [torch.cat([known[0][-1:], known[1]])]
        return known, latents

    def _tile(
        self, index: int, slices: list[Tensor], device: torch.device, *, last: bool
    ) -> Tensor:
        """Latents [t, L, h, w] float32 of one tile."""
        box = self._boxes[index].scaled(self._factor)
        carry = self._carries[index]
        if self._warm_up:
            carry = Carry()
        elif self._is_tiled:
            carry = carry.moved(device)
        means = []
        for number, frames in enumerate(slices, 1):
            carry = carry.handed_over(last=last and number == len(slices))
            part = _cut(frames, box).to(device)
            moments, carry = self._vae.encode_slice(_clip(part), carry)
            means.append(moments[0].chunk(2)[0].movedim(0, 1).float())
        self._carries[index] = carry.moved("cpu") if self._is_tiled else carry
        return torch.cat(means)


class DecodeStream:
    """Decodes the latents of one shot; the large part of the decoder tile by tile on request.

    Memory: without tiles a slice and the carry. With tiles those of one tile, and on the host 6
    bytes for each pixel of each frame of a call, features (half a number for each of its values),
    and the carries of all tiles (see `Tiling`).
    """

    def __init__(
        self, vae: Vae, frame: Size, tiling: Tiling | None, watch: Watch, *, first: int = 0
    ) -> None:
        self._vae = vae
        self._frame = frame
        self._watch = watch
        self._carry = Carry()
        self._count = first  # frames are told by number, from this one on
        self._tiled: _TiledHigh | None = None
        if tiling is not None:
            if not isinstance(vae, FastVae):
                raise ValueError("only the fast form decodes in tiles")
            self._tiled = _TiledHigh(vae, frame, tiling)

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
            yield from self._tiled.run(expected, self._tell, last)

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

    def __init__(self, vae: FastVae, frame: Size, tiling: Tiling) -> None:
        factor = vae.config.spatial_factor
        latent = Size(frame.width // factor, frame.height // factor)
        tiles = split_tiles(vae.config, latent, tiling.tile, tiling.blend)
        self.vae = vae
        self._frame = frame
        self._boxes = tiles.boxes
        self._on_canvas = [box.scaled(tiles.factor) for box in tiles.boxes]
        self._shares = shares(tiles.canvas, self._on_canvas, blend=tiling.blend)
        self._carries = [Carry() for _ in tiles.boxes]
        self._features: list[Tensor] = []
        self._warm_up = tiling.warm_up // vae.config.slice_latents

    def take(self, features: Tensor) -> None:
        """Keep the features [T, C, y, x] of one slice until all tiles have seen them."""
        self._features.append(parked(features))

    def run(
        self, frames: int, told: Callable[[int, int, Box, Tensor], None], last: bool
    ) -> Iterator[Tensor]:
        """Frames [n, 3, H, W] float32 in [-1, 1], `frames` in all, of what was taken."""
        sink = TileSink(frames, self._frame)
        for index in range(len(self._boxes)):
            picture = self._one(index, frames, sink, last)
            told(index, len(self._boxes), self._on_canvas[index], picture)
            sink.check()
        self._features = self._features[-self._warm_up :] if self._warm_up else []
        canvas = sink.result()
        for start in range(0, frames, _FRAMES_AT_A_TIME):
            codes = canvas[start : start + _FRAMES_AT_A_TIME]
            there = codes.to(self.vae.device).to(torch.float32)
            yield there.permute(0, 3, 1, 2).mul_(2 / 65535).sub_(1)

    def _one(self, index: int, frames: int, sink: TileSink, last: bool) -> Tensor:
        """All features through one tile; its last frame [3, h, w]."""
        box, corner, share = self._boxes[index], self._on_canvas[index], self._shares[index]
        window = share.window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        weight = share.weight()
        start = frames - self._produced(index)  # below 0: frames that only warm up
        for part in self._parts(index, box, last):
            fresh = part[max(0, -start) :]
            start += len(part)
            if len(fresh):
                weight = weight if weight is None else weight.to(fresh.device)
                sink.add(_cut(fresh, inside), window, start - len(fresh), weight)
        return part[-1]

    def _produced(self, index: int) -> int:
        """Frames that the features give; of the first one of a clip comes one alone."""
        times = 1 << sum(self.vae.config.decoder_time[1:])
        begins = bool(self._warm_up) or self._carries[index].first
        return times * sum(len(f) for f in self._features) - (times - 1) * begins

    def _parts(self, index: int, box: Box, last: bool) -> Iterator[Tensor]:
        """Frames [T, 3, h, w] of one tile, slice by slice."""
        carry = Carry() if self._warm_up else self._carries[index].moved(self.vae.device)
        ends = last or bool(self._warm_up)
        for number, features in enumerate(self._features, 1):
            carry = carry.handed_over(last=ends and number == len(self._features))
            frames, carry = self.vae.decode_high(_cut(features, box), carry)
            yield frames
        if not self._warm_up:
            self._carries[index] = carry.moved("cpu") if len(self._boxes) > 1 else carry


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
