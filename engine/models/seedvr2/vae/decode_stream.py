"""Decoder stream: latents of a shot of any length to frames."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import Vae
from engine.models.seedvr2.vae.tiling import (
    WHOLE_BLEND,
    SplitTiles,
    Tiling,
    split_tiles,
    whole_tiles,
)
from engine.models.upscalers import Advance, DecodedTile, Watch, no_advance
from engine.models.video_vae.frame_slices import as_clip, as_frames, check_finite, cut
from engine.models.video_vae.slicing import slices
from engine.ops.conv.causal_conv import Carry
from engine.ops.lanes import Lanes
from engine.ops.transfer.parking import Parking
from engine.ops.transfer.tile_canvas import TileSink
from engine.tiling.blend import tile_weights

_FRAMES_AT_A_TIME = 4  # that leave a finished canvas


class SeedVr2DecodeStream:
    """Decodes the latents of one shot; the large part of the decoder, or all, in tiles on request.

    Args:
        vae: Its decoder.
        frame: Size of the frames.
        tiling: Tiling of the frames; None for whole ones.
        watch: Called with every decoded tile.
        parking: Store in RAM for waiting carries; None for one of its own.
        first: Number of the first frame.
        begin: Latent of the shot that is decoded first.
        end: Latents of the shot that are wanted: a span ends as soon as they are there; None: all.
        advance: Called after each slice of a tile.

    Memory: without tiles a slice and the carry, which waits on the host between calls. With tiles
    those of one tile and of the part before it, and on the host 6 bytes for each pixel of each
    frame of a span, its features (half a value for each of its values), and the carries of all
    tiles (see `Tiling`).
    """

    def __init__(
        self,
        vae: Vae,
        frame: Size,
        tiling: Tiling | None,
        watch: Watch,
        parking: Parking | None = None,
        *,
        first: int = 0,
        begin: int = 0,
        end: int | None = None,
        advance: Advance = no_advance,
    ) -> None:
        self._advance = advance
        self._vae = vae
        self._frame = frame
        self._watch = watch
        self._parking = parking or Parking()
        self._carry = Carry()
        self._count = first  # frames are counted, from this one on
        self._tiled: _Tiled | None = None
        if tiling is not None:
            fast = FastVae.of(vae)
            part: _All | _HighPart = _All(fast) if tiling.is_whole else _HighPart(fast)
            self._tiled = _Tiled(part, frame, tiling, self._parking, begin, end, advance)

    def push(self, latents: Tensor, *, last: bool) -> Iterator[Tensor]:
        """Decode the next latents.

        Args:
            latents: [t, h, w, L], scaled.
            last: The shot ends with them.

        Yields:
            Frames [T, 3, H, W] float32 in [-1, 1], not clipped (with tiles: clipped, of 16 bits,
            and only once a span has ended).

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        clip = as_clip(latents.permute(0, 3, 1, 2)) / self._vae.config.scaling_factor
        for piece, ends in self._pieces(clip, last):
            there = self._carry.handed_over().moved(latents.device)
            carry = there.handed_over(last=ends)
            if self._tiled is None:
                frames, self._carry = self._vae.decode_slice(piece, carry)
                self._advance("decode", frames.shape[2])
                yield self._finished(frames[0].movedim(0, 1))
            else:
                features, self._carry = self._tiled.part.before(piece, carry)
                self._tiled.take(features, piece.shape[2])
                if ends or self._tiled.span_ends:
                    self.park()
                    self._count += self._tiled.frames
                    yield from self._tiled.run(self._tell, ends)

    def park(self) -> None:
        """Move the carry of whole frames to host memory while others need the device."""
        self._carry = self._carry.handed_over().parked(self._parking, "decode")

    def _pieces(self, clip: Tensor, last: bool) -> Iterator[tuple[Tensor, bool]]:
        """Slices of [1, L, t, h, w], and whether the shot ends with it."""
        size, length = self._vae.config.slice_latents, clip.shape[2]
        for start, end in slices(length, size, begins=self._carry.first):
            yield clip[:, :, start:end], last and end == length

    def _finished(self, frames: Tensor) -> Tensor:
        check_finite(frames)
        self._count += len(frames)
        self._tell(0, 1, Box(0, 0, self._frame.width, self._frame.height), frames[-1])
        return frames.float()

    def _tell(self, index: int, tiles: int, box: Box, picture: Tensor) -> None:
        frame = self._count - 1
        tile = DecodedTile(frame=frame, index=index, tiles=tiles, box=box, picture=picture.float())
        self._watch(tile)


class _Part(Protocol):
    """The part of the decoder that tiles go through; before it whole frames."""

    @property
    def vae(self) -> FastVae:
        """Its decoder."""
        ...

    def apart(self, count: int) -> list[_Part]:
        """Decoders that work at the same time, see `FastSlicedVae.apart`."""
        ...

    def tiles(self, latent: Size, tiling: Tiling) -> SplitTiles:
        """Tiles of a frame of n latent positions."""
        ...

    def times(self) -> int:
        """Frames for each feature in time, the first one apart, of which comes one alone."""
        ...

    def before(self, latents: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Features [T, C, y, x] of one slice [1, L, t, h, w] of whole frames; the next carry."""
        ...

    def frames(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Frames [T, 3, h, w] of one slice of a tile's features; the next carry."""
        ...


@dataclass(frozen=True, slots=True)
class _HighPart:
    """The part after the low-resolution one, which sees whole frames."""

    vae: FastVae

    def apart(self, count: int) -> list[_Part]:
        return [replace(self, vae=vae) for vae in self.vae.apart(count)]

    def tiles(self, latent: Size, tiling: Tiling) -> SplitTiles:
        return split_tiles(self.vae.config, latent, tiling.tile, tiling.blend)

    def times(self) -> int:
        return 1 << sum(self.vae.config.decoder_time[1:])

    def before(self, latents: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        return self.vae.decode_low(latents, carry)

    def frames(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        return self.vae.decode_high(features, carry)


@dataclass(frozen=True, slots=True)
class _All:
    """All of the decoder: features are the latents themselves."""

    vae: FastVae

    def apart(self, count: int) -> list[_Part]:
        return [replace(self, vae=vae) for vae in self.vae.apart(count)]

    def tiles(self, latent: Size, tiling: Tiling) -> SplitTiles:
        return whole_tiles(self.vae.config, latent, tiling.tile)

    def times(self) -> int:
        return self.vae.config.temporal_factor

    def before(self, latents: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        return as_frames(latents), carry.begin().done()

    def frames(self, features: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        frames, after = self.vae.decode_slice(as_clip(features.to(self.vae.device)), carry)
        return as_frames(frames), after


class _Tiled:
    """A part of the decoder over tiles, each with a carry of its own."""

    def __init__(
        self,
        part: _Part,
        frame: Size,
        tiling: Tiling,
        parking: Parking,
        begin: int,
        end: int | None,
        advance: Advance,
    ) -> None:
        self._advance, config, device = advance, part.vae.config, part.vae.device
        factor = config.spatial_factor
        tiles = part.tiles(Size(frame.width // factor, frame.height // factor), tiling)
        blend = WHOLE_BLEND if tiling.is_whole else tiling.blend
        self.part = part
        self._device = device
        self._lanes = Lanes(device, min(tiling.at_once, len(tiles.boxes)))
        self._frame = frame
        self._boxes = tiles.boxes
        self._on_canvas = [box.scaled(tiles.factor) for box in tiles.boxes]
        self._shares = tile_weights(tiles.canvas, self._on_canvas, blend=blend)
        self._parking = parking
        self._carries = [Carry() for _ in tiles.boxes]
        self._features: list[Tensor] = []
        self._warm_up = tiling.warm_up // config.slice_latents
        self._step = config.temporal_factor
        self._span = tiling.span
        self._next, self._end = begin, end  # latent of the shot that is taken next
        self._fresh = 0  # latents that tiles have not seen
        self._begins = True

    def take(self, features: Tensor, latents: int) -> None:
        """Keep the features [T, C, y, x] of some latents until all tiles have seen them."""
        self._features.append(_parked(features))
        self._next += latents
        self._fresh += latents

    @property
    def span_ends(self) -> bool:
        """Whether a span ends with what was taken last."""
        has_enough = self._end is not None and self._next >= self._end
        return has_enough or self._next % self._span == 0

    @property
    def frames(self) -> int:
        """Frames that the next run makes."""
        return self._step * self._fresh - (self._step - 1) * self._begins

    def run(self, done: Callable[[int, int, Box, Tensor], None], last: bool) -> Iterator[Tensor]:
        """Frames [n, 3, H, W] float32 in [-1, 1] of what was taken since the last run."""
        frames = self.frames
        sink = TileSink(frames, self._frame)
        for index, picture in enumerate(self._visited(sink, last)):
            done(index, len(self._boxes), self._on_canvas[index], picture)
        del picture
        self._features = self._features[-self._warm_up :] if self._warm_up and not last else []
        self._fresh, self._begins = 0, False
        canvas = sink.result()
        for start in range(0, frames, _FRAMES_AT_A_TIME):
            codes = canvas[start : start + _FRAMES_AT_A_TIME]
            there = codes.to(self._device).to(torch.float32)
            yield there.permute(0, 3, 1, 2).mul_(2 / 65535).sub_(1)

    def _visited(self, sink: TileSink, last: bool) -> Iterator[Tensor]:
        """All features through each tile; the last frame of each [3, h, w]."""
        parts = self.part.apart(self._lanes.count)

        def one(index: int, lane: int) -> Generator[None, None, Tensor]:
            return self._one(index, parts[lane], sink, last)

        return self._lanes.run([partial(one, index) for index in range(len(self._boxes))])

    def _one(
        self, index: int, through: _Part, sink: TileSink, last: bool
    ) -> Generator[None, None, Tensor]:
        """All features through one tile, a slice up to each `yield`; its last frame [3, h, w]."""
        corner, share = self._on_canvas[index], self._shares[index]
        window = share.window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        weight = share.weight()
        weight = weight if weight is None else weight.to(self._device)
        start = self.frames - self._produced(index)  # below 0: frames that only warm up
        for part in self._parts(index, through, last):
            fresh = part[max(0, -start) :]
            start += len(part)
            if len(fresh):
                sink.add(cut(fresh, inside), window, start - len(fresh), weight)
            yield
        return part[-1]

    def _produced(self, index: int) -> int:
        """Frames that the features give; of the first one of a clip comes one alone."""
        times = self.part.times()
        begins = bool(self._warm_up) or self._carries[index].first
        return times * sum(len(f) for f in self._features) - (times - 1) * begins

    def _parts(self, index: int, through: _Part, last: bool) -> Iterator[Tensor]:
        """Frames [T, 3, h, w] of one tile, slice by slice."""
        box = self._boxes[index]
        carry = Carry() if self._warm_up else self._taken(index)
        ends = last or bool(self._warm_up)
        for number, features in enumerate(self._features, 1):
            carry = carry.handed_over(last=ends and number == len(self._features))
            frames, carry = through.frames(cut(features, box), carry)
            self._advance("decode", len(frames) / len(self._boxes))
            yield frames
        if not self._warm_up:
            if len(self._boxes) > 1:
                carry = carry.parked(self._parking, ("decode", index))
            self._carries[index] = carry

    def _taken(self, index: int) -> Carry:
        """A tile's carry on the device, which alone holds its frames: they go one by one."""
        return self._carries[index].handed_over().moved(self._device)


def _parked(features: Tensor) -> Tensor:
    """Copy features to host memory, channels last for the tiles.

    Not pinned: those of a span are a large part of main memory, and a slice takes a hundred times
    as long to compute as to copy (estimated).
    """
    host = torch.empty(features.shape, dtype=features.dtype, memory_format=torch.channels_last)
    return host.copy_(features)
