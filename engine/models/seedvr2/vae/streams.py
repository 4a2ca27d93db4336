"""Shots through SeedVR2's VAE: its parts that are given tiles, and the blending of tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import Vae
from engine.models.seedvr2.vae.tiling import (
    WHOLE_BLEND,
    FrameTiles,
    Tiling,
    decode_tiles,
    encode_tiles,
)
from engine.models.upscalers import Advance, Watch, no_advance
from engine.models.video_vae.frame_slices import as_clip, as_frames, cut
from engine.models.video_vae.slicing import Step
from engine.models.video_vae.tile_stream import (
    About,
    DecodeStream,
    EncodeStream,
    TiledPart,
)
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.parking import Parking
from engine.ops.transfer.tile_canvas import TileSink
from engine.tiling.blend import Blender, TileWeights, tile_weights

_FRAMES_AT_A_TIME = 4  # that leave a finished canvas


class SeedVr2EncodeStream(EncodeStream):
    """Encodes the slices of one shot, tile by tile on request.

    Args:
        vae: Its encoder.
        frame: Size of the frames.
        tiling: Tiling of the frames; None for whole ones.
        parking: Store in RAM for waiting carries; None for one of its own.
        begin: Latent of the shot that the first frame is the last one of.
        end: Latents of the shot that are wanted: a span ends as soon as they are there; None: all.
        advance: Called after each slice of a tile.

    Memory: see `EncodeStream`.
    """

    def __init__(
        self,
        vae: Vae,
        frame: Size,
        tiling: Tiling | None = None,
        parking: Parking | None = None,
        *,
        begin: int = 0,
        end: int | None = None,
        advance: Advance = no_advance,
    ) -> None:
        self._scale = vae.config.scaling_factor
        tiles = None
        if tiling is not None:
            found = encode_tiles(vae.config, frame, tiling.tile)
            tiles = _encoder_tiles(vae, found, tiling) if len(found.boxes) > 1 else None
        super().__init__(
            vae,
            frame,
            partial(_means, vae) if tiles is None else None,
            size=vae.usual_slice_frames,
            tiles=tiles,
            about=_about("encode", tiling, parking, (begin, end), advance),
        )

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next frames; see `EncodeStream.push`.

        Returns:
            [t, h, w, L] float32 in host memory, scaled as the transformer takes it; t is 0 until a
            span ends.
        """
        latents = super().push(frames, last=last)[0]
        return latents.mul_(self._scale).permute(1, 2, 3, 0)

    def given_latents(self, latents: Tensor) -> Tensor:
        """The latents in host memory, in float32."""
        return latents.float().cpu()


class SeedVr2DecodeStream(DecodeStream):
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

    Memory: see `DecodeStream`; with tiles also 6 bytes on the host for each pixel of each frame of
    a span.
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
        config, tiles = vae.config, None
        step: Step = vae.decode_slice
        self._scale = config.scaling_factor
        if tiling is not None:
            fast = FastVae.of(vae)
            step = _latents_alone if tiling.is_whole else fast.decode_low
            tiles = _decoder_tiles(fast, frame, tiling)
        super().__init__(
            step,
            size=config.slice_latents,
            canvas=frame,
            tiles=tiles,
            watch=watch,
            first=first,
            about=_about("decode", tiling, parking, (begin, end), advance),
        )

    def push(self, latents: Tensor, *, last: bool) -> Iterator[Tensor]:
        """Decode the next latents; see `DecodeStream.push`.

        Args:
            latents: [t, h, w, L], scaled.
            last: The shot ends with them.

        Yields:
            Frames [n, 3, H, W] float32 in [-1, 1], not clipped (with tiles: clipped, of 16 bits).
        """
        clip = as_clip(latents.permute(0, 3, 1, 2)) / self._scale
        yield from super().push(clip, last=last)

    def whole_frames(self, frames: Tensor) -> Iterator[Tensor]:
        """The frames of a slice together, in float32."""
        yield frames.float()

    def tiled_frames(self, result: Tensor, device: torch.device) -> Iterator[Tensor]:
        """Frames of a canvas of 16 bits, a few at a time, in float32."""
        for codes in torch.split(result, _FRAMES_AT_A_TIME):
            there = codes.to(device).to(torch.float32)
            yield there.permute(0, 3, 1, 2).mul_(2 / 65535).sub_(1)


def _about(
    direction: str,
    tiling: Tiling | None,
    parking: Parking | None,
    wanted: tuple[int, int | None],
    advance: Advance,
) -> About:
    begin, end = wanted
    return About(
        span=1 if tiling is None else tiling.span,
        begin=begin,
        wanted=None if end is None else end - begin,
        parks=direction == "decode" and tiling is not None,
        parking=parking or Parking(),
        at_once=1 if tiling is None else tiling.at_once,
        worked=partial(advance, direction),
    )


# --- a clip in tiles


def encoded_in_tiles(vae: FastVae, frames: Tensor, tile: Size) -> Tensor:
    """Latent [1, L, t, h, w] float32 in host memory, unscaled, of a clip [1, 3, T, H, W]."""
    stream = SeedVr2EncodeStream(vae, Size(*frames.shape[:-3:-1]), Tiling(tile=tile))
    latents = stream.push(as_frames(frames), last=True)
    return as_clip(latents.permute(0, 3, 1, 2)) / vae.config.scaling_factor


def decoded_in_tiles(vae: FastVae, latent: Tensor, tile: Size) -> Iterator[Tensor]:
    """Frames [n, 3, H, W] float32 in [-1, 1], of 16 bits, of a latent [1, L, t, h, w]."""
    frame = Size(*latent.shape[:-3:-1]).scaled(vae.config.spatial_factor)
    stream = SeedVr2DecodeStream(vae, frame, Tiling(tile=tile), lambda _tile: None)
    scaled = as_frames(latent).permute(0, 2, 3, 1) * vae.config.scaling_factor
    yield from stream.push(scaled, last=True)


# --- the encoder in tiles


def _encoder_tiles(vae: Vae, tiles: FrameTiles, tiling: Tiling) -> TiledPart:
    step = vae.config.temporal_factor
    return TiledPart(
        vae=FastVae.of(vae),
        run=_encoded_tile,
        canvas=lambda _due, _shown: _BlendedLatents(tiles),
        boxes=tiles.boxes,
        shown=tiles.boxes,  # as a whole: the canvas blends them
        entry=tiles.factor,
        result=1,
        entry_frames=1,
        result_frames=step,
        each=step,
        slice_latents=vae.config.slice_latents,
        early=step * (tiling.warm_up - 1) + 1 if tiling.warm_up else 0,
        early_of_shot=step * tiling.warm_up + 1 if tiling.warm_up else 0,
    )


def _encoded_tile(vae: FastVae, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    means, carry = _means(vae, frames.to(vae.device), carry)
    return as_frames(means), carry


def _means(vae: Vae, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    """Means [1, L, t, h, w] float32 of frames [T, 3, H, W]; the next carry."""
    posterior, carry = vae.encode_slice(as_clip(frames), carry)
    return posterior.chunk(2, dim=1)[0].float(), carry


class _BlendedLatents:
    """Latents of all tiles with ramps where they overlap; those of a tile are added together."""

    def __init__(self, tiles: FrameTiles) -> None:
        self._tiles, self._blender = tiles, Blender(tiles.features, margin=0)
        self._parts: dict[int, list[Tensor]] = {}

    def add(self, index: int, start: int, part: Tensor) -> None:
        self._parts.setdefault(index, []).append(part)

    def end(self, index: int) -> None:
        latents = torch.cat(self._parts.pop(index)).cpu()
        self._blender.add(latents, self._tiles.boxes[index], self._tiles.shared)

    def result(self) -> Tensor:
        return self._blender.result()


# --- the decoder in tiles


def _decoder_tiles(vae: FastVae, frame: Size, tiling: Tiling) -> TiledPart:
    config = vae.config
    tiles = decode_tiles(config, frame, tiling)
    times = config.temporal_factor if tiling.is_whole else 1 << sum(config.decoder_time[1:])
    each = config.temporal_factor // times
    boxes = [box.scaled(tiles.factor) for box in tiles.boxes]
    blend = WHOLE_BLEND if tiling.is_whole else tiling.blend
    shares = tile_weights(tiles.canvas, boxes, blend=blend)
    return TiledPart(
        vae=vae,
        run=_decoded_tile if tiling.is_whole else FastVae.decode_high,
        canvas=lambda due, boxes: _BlendedFrames(due, frame, boxes, shares, vae.device),
        boxes=tiles.boxes,
        shown=tiles.boxes,
        entry=1,
        result=tiles.factor,
        entry_frames=times,
        result_frames=1,
        each=each,
        slice_latents=config.slice_latents,
        early=each * tiling.warm_up,
        early_of_shot=each * tiling.warm_up + 1 if tiling.warm_up else 0,
        early_is_longer=False,
    )


def _decoded_tile(vae: FastVae, latents: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    frames, carry = vae.decode_slice(as_clip(latents.to(vae.device)), carry)
    return as_frames(frames), carry


def _latents_alone(latents: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
    """Latents of whole frames, which nothing is done to before tiles take them."""
    return as_frames(latents), carry.begin().done()


class _BlendedFrames:
    """Frames of all tiles in 16 bits, with ramps where they overlap."""

    def __init__(
        self,
        due: int,
        frame: Size,
        boxes: Sequence[Box],
        shares: list[TileWeights],
        device: torch.device,
    ) -> None:
        self._sink = TileSink(due, frame)
        self._boxes, self._shares, self._device = boxes, shares, device
        self._weights: dict[int, Tensor | None] = {}  # of tiles in work

    def add(self, index: int, start: int, part: Tensor) -> None:
        corner, window = self._boxes[index], self._shares[index].window
        inside = Box(window.x - corner.x, window.y - corner.y, window.width, window.height)
        if index not in self._weights:
            weight = self._shares[index].weight()
            self._weights[index] = None if weight is None else weight.to(self._device)
        self._sink.add(cut(part, inside), window, start, self._weights[index])

    def end(self, index: int) -> None:
        del self._weights[index]

    def result(self) -> Tensor:
        return self._sink.result()
