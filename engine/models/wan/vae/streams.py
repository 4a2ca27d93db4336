"""Shots through a Wan VAE: its halves, of which the high one is given tiles.

Tiles are exact (see `split`), so nothing is blended: each shows its own part of the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.upscalers import Watch
from engine.models.video_vae.frame_slices import as_clip, as_frames, check_finite, cut
from engine.models.video_vae.tile_stream import (
    About,
    DecodeStream,
    EncodeStream,
    TiledPart,
)
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.load import Wan
from engine.models.wan.vae.receptive_field import decode_warm_up, encode_warm_up
from engine.models.wan.vae.split import (
    LATENTS_PER_VISIT,
    TileBox,
    decode_cut,
    decode_tiles,
    encode_cut,
    encode_tiles,
)
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.parking import Parking


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """Slices and tiles of a shot.

    Attributes:
        tile: Most px of a frame (encoder) or of a result (decoder) computed at a time, halo
            included; None for whole frames. Only the fast variant takes tiles.
        warm_up: 0: every tile continues with its carry, which waits in host memory. Else it begins
            that many latents earlier, which costs their time; exact from `encode_warm_up` and
            `decode_warm_up` on.
        parks: Whether, with tiles, the carry of the low half waits on the host.
        slice_latents: Latents worked on at a time; at the start of a shot one more.
        parking: Store in RAM for waiting carries.
        at_once: Tiles that are in work at a time, on a stream each.
    """

    tile: Size | None = None
    warm_up: int = 0
    parks: bool = False
    slice_latents: int = 1
    parking: Parking = field(default_factory=Parking)
    at_once: int = 1


WHOLE_FRAMES = Streaming()


class WanEncodeStream(EncodeStream):
    """Encodes one shot; see `EncodeStream`. Latents are raw, in the dtype of the VAE.

    Args:
        vae: Either variant; for tiles the fast one.
        frame: Size in px, a multiple of `config.spatial_factor`.
        streaming: Slices and tiles.
        between: Called after each slice of a tile or of whole frames; may wait or raise.
    """

    def __init__(
        self,
        vae: Wan,
        frame: Size,
        streaming: Streaming = WHOLE_FRAMES,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        boxes = encode_tiles(vae.config, frame, streaming.tile)
        channels, part = vae.config.latent_channels, None
        if len(boxes) > 1:
            part = _encoder_part(FastWanVae.of(vae), boxes, streaming)

        def step(entries: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
            if part is None:
                posterior, carry = vae.encode_slice(as_clip(entries), carry)
            else:
                posterior, carry = part.vae.encode_low(entries, carry)
            return posterior[:, :channels], carry

        super().__init__(
            vae,
            frame,
            step,
            size=streaming.slice_latents * vae.config.temporal_factor,
            tiles=part,
            about=_about(streaming, part, lambda _frames: between()),
        )


class WanDecodeStream(DecodeStream):
    """Decodes one shot; see `DecodeStream`. Latents are raw.

    Frames leave one by one, in float32 or wider, not clipped, `config.upscale` times as large as
    those that were encoded.

    Args:
        vae: Either variant; for tiles the fast one.
        frame: Size in px as it would be encoded, a multiple of `config.spatial_factor`.
        streaming: Slices and tiles.
        watch: Called with every decoded tile; a whole frame is one.
        first: Number of the shot's first frame, for `watch`.
    """

    def __init__(
        self,
        vae: Wan,
        frame: Size,
        streaming: Streaming = WHOLE_FRAMES,
        watch: Watch = lambda _tile: None,
        *,
        first: int = 0,
    ) -> None:
        boxes = decode_tiles(vae.config, frame, streaming.tile)
        step, part = vae.decode_slice, None
        if len(boxes) > 1:
            fast = FastWanVae.of(vae)
            step, part = fast.decode_low, _decoder_part(fast, boxes, streaming)
        super().__init__(
            step,
            size=streaming.slice_latents,
            canvas=frame.scaled(vae.config.upscale),
            tiles=part,
            watch=watch,
            first=first,
            about=_about(streaming, part, lambda _frames: None),
        )

    def whole_frames(self, frames: Tensor) -> Iterator[Tensor]:
        """The frames one by one."""
        yield from map(_wide, torch.split(frames, 1))

    def tiled_frames(self, result: Tensor, device: torch.device) -> Iterator[Tensor]:
        """The frames one by one, each brought to the device."""
        for frame in torch.split(result, 1):
            yield _wide(frame.to(device)).contiguous()


def encoded_in_tiles(vae: FastWanVae, frames: Tensor, tile: Size) -> Tensor:
    """Latent [1, L, t, h, w], raw, of a clip [1, 3, T, H, W]; exact."""
    size = Size(*frames.shape[:-3:-1])
    return WanEncodeStream(vae, size, Streaming(tile=tile)).push(as_frames(frames), last=True)


def decoded_in_tiles(vae: FastWanVae, latent: Tensor, tile: Size) -> Iterator[Tensor]:
    """Frames [1, 3, H, W] one by one, not clipped, of a latent [1, L, t, h, w]; exact."""
    frame = Size(*latent.shape[:-3:-1]).scaled(vae.config.spatial_factor)
    yield from WanDecodeStream(vae, frame, Streaming(tile=tile)).push(latent, last=True)


def _encoder_part(vae: FastWanVae, tiles: Sequence[TileBox], streaming: Streaming) -> TiledPart:
    """The encoder's local half: frames to features; a longer warm-up than needed is cut short."""
    cut, step = encode_cut(vae.config), vae.config.temporal_factor
    early = min(streaming.warm_up, encode_warm_up(vae.config))
    return TiledPart(
        vae=vae,
        run=FastWanVae.encode_high,
        canvas=partial(_PastedCanvas, "encoder"),
        boxes=[tile.outer for tile in tiles],
        shown=[tile.inner for tile in tiles],
        entry=cut.factor,
        result=1,
        entry_frames=1,
        result_frames=cut.time,
        each=step,
        slice_latents=streaming.slice_latents,
        early=step * early + 1 if early else 0,  # begins with the last frame of a latent
        pins=True,
    )


def _decoder_part(vae: FastWanVae, tiles: Sequence[TileBox], streaming: Streaming) -> TiledPart:
    """The decoder's local half: features to frames; as `_encoder_part`."""
    cut = decode_cut(vae.config)
    each = vae.config.temporal_factor // cut.time
    return TiledPart(
        vae=vae,
        run=FastWanVae.decode_high,
        canvas=partial(_PastedCanvas, "decoder"),
        boxes=[tile.outer for tile in tiles],
        shown=[tile.inner for tile in tiles],
        entry=1,
        result=cut.factor * vae.config.upscale,
        entry_frames=cut.time,
        result_frames=1,
        each=each,
        slice_latents=streaming.slice_latents,
        early=each * min(streaming.warm_up, decode_warm_up(vae.config)),
        pins=True,
    )


def _about(streaming: Streaming, part: TiledPart | None, worked: Callable[[float], None]) -> About:
    return About(
        span=1 if part is None else LATENTS_PER_VISIT,
        parks=streaming.parks and part is not None,
        parking=streaming.parking,
        at_once=streaming.at_once,
        worked=worked,
    )


def _wide(frames: Tensor) -> Tensor:
    """Frames in float32 at least."""
    return frames.to(torch.promote_types(frames.dtype, torch.float32))


class _PastedCanvas:
    """Results put together from what tiles show, in the dtype of the results, channels last.

    Args:
        name: "encoder" or "decoder", for the error where a value is NaN or infinite.
        due: Number of results.
        shown: Part of the frame that each tile shows.
    """

    def __init__(self, name: str, due: int, shown: Sequence[Box]) -> None:
        self._name, self._due, self._shown = name, due, shown
        self._whole: Tensor | None = None

    def add(self, index: int, start: int, part: Tensor) -> None:
        """Copy a part to its place.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        check_finite(part, self._name)
        if self._whole is None:
            last = self._shown[-1]
            shape = (self._due, part.shape[1], last.bottom, last.right)
            layout = torch.channels_last
            self._whole = torch.empty(shape, dtype=part.dtype, memory_format=layout)
        cut(self._whole, self._shown[index])[start : start + len(part)] = part.cpu()

    def end(self, index: int) -> None:
        """Nothing is left to do."""

    def result(self) -> Tensor:
        """All results [due, C, H, W]."""
        if self._whole is None:
            raise ValueError("nothing is due")
        return self._whole
