"""The frames of one shot to latents and back in one go, however long it is.

Slices handed on by a carry equal the whole shot. Frames are worked on whole or, where that does
not fit, in tiles, which give the same values but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.core.geometry import Box, Size
from engine.models.upscalers import DecodedTile, Watch
from engine.models.video_vae.frame_slices import as_clip, as_frames, check_finite
from engine.models.video_vae.slicing import slices
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.load import Wan
from engine.models.wan.vae.split import decode_tiles, encode_tiles
from engine.models.wan.vae.tiled import TiledHalf, decode_pass, encode_pass
from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.parking import Parking

Step = Callable[[Tensor, Carry], tuple[Tensor, Carry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """Slices and tiles of a shot.

    Attributes:
        tile: Most px of a frame (encoder) or of a result (decoder) computed at a time, halo
            included; None for whole frames. Only the fast variant takes tiles.
        warm_up: 0: every tile continues with its carry, which waits in host memory. Else it begins
            so many latents earlier, which costs their time; exact from `encode_warm_up` and
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


class WanEncodeStream:
    """Encodes one shot.

    Args:
        vae: Either variant; for tiles the fast one.
        frame: Size in px, a multiple of `config.spatial_factor`.
        streaming: Slices and tiles.
        between: Called between slices and tiles; may wait or raise.

    Memory: without tiles a slice and the carry. With tiles those of one tile or of the low half,
    and unless it is parked the low half's carry; for the host see `TiledHalf`.
    """

    def __init__(
        self,
        vae: Wan,
        frame: Size,
        streaming: Streaming = WHOLE_FRAMES,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        factor = vae.config.spatial_factor
        self._channels = vae.config.latent_channels
        self._none = torch.empty(
            1, self._channels, 0, frame.height // factor, frame.width // factor
        )
        self._between = between
        self._carry = Carry()
        self._parking = streaming.parking
        self._home: torch.device | None = None  # of a carry that waits on the host
        self._high: TiledHalf | None = None
        self._step: Step = lambda frames, carry: vae.encode_slice(as_clip(frames), carry)
        self._size = streaming.slice_latents * vae.config.temporal_factor
        tiles = encode_tiles(vae.config, frame, streaming.tile)
        if len(tiles) > 1:
            fast = FastWanVae.of(vae)
            tiled = encode_pass(fast, streaming.slice_latents, streaming.warm_up)
            self._high = TiledHalf(tiled, tiles, streaming.parking, streaming.at_once)
            self._step = fast.encode_low
            self._size = tiled.given(self._size)
            self._none = self._none.to(fast.device, fast.dtype)
            self._home = fast.device if streaming.parks else None

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next frames.

        Args:
            frames: [T, 3, H, W] in [-1, 1]; T = 1 + n * temporal_factor at the start of a shot,
                n * temporal_factor later.
            last: The shot ends with them.

        Returns:
            Raw latents [1, L, t, h, w], the mean, in the dtype of the VAE; with tiles t is 0
            until `split.LATENTS_PER_VISIT` are there.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        if self._high is None:
            return self._means(frames, last)
        self._high.take(frames)
        if not last and not self._high.is_due:
            return self._none
        return self._means(self._high.visit(lambda _index, _last: self._between(), last=last), last)

    def _means(self, entries: Tensor, last: bool) -> Tensor:
        """Latents of frames, or of features where those come from tiles."""
        means = []
        if self._home is not None:
            self._carry = self._carry.moved(self._home)
        for start, end in slices(len(entries), self._size, begins=self._carry.first):
            self._between()
            carry = self._carry.handed_over(last=last and end == len(entries))
            posterior, self._carry = self._step(entries[start:end], carry)
            means.append(posterior[:, : self._channels])
        if self._home is not None:
            self._carry = self._carry.parked(self._parking, "encoder")
        latents = torch.cat(means, dim=2)
        check_finite(latents, "encoder")
        return latents


class WanDecodeStream:
    """Decodes one shot.

    Args:
        vae: Either variant; for tiles the fast one.
        frame: Size in px as it would be encoded, a multiple of `config.spatial_factor`.
        streaming: Slices and tiles.
        watch: Called with every decoded tile; a whole frame is one.
        first: Number of the shot's first frame, for `watch`.

    Memory: as of `WanEncodeStream`. Frames in float32 exist one at a time.
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
        self._size = streaming.slice_latents
        self._watch = watch
        self._count = first
        self._carry = Carry()
        self._parking, self._parks = streaming.parking, False
        self._high: TiledHalf | None = None
        self._step: Step = vae.decode_slice
        canvas = frame.scaled(vae.config.upscale)
        self._boxes = [Box(0, 0, canvas.width, canvas.height)]
        tiles = decode_tiles(vae.config, frame, streaming.tile)
        if len(tiles) > 1:
            fast = FastWanVae.of(vae)
            tiled = decode_pass(fast, streaming.slice_latents, streaming.warm_up)
            self._high = TiledHalf(tiled, tiles, streaming.parking, streaming.at_once)
            self._step = fast.decode_low
            self._boxes, self._device = self._high.shown, fast.device
            self._parks = streaming.parks

    def push(self, latents: Tensor, *, last: bool) -> Iterator[Tensor]:
        """Decode the next latents.

        Args:
            latents: [1, L, t, h, w], raw; t may be 0, but not where the shot ends.
            last: The shot ends with them.

        Yields:
            Frames [n, 3, H, W] in [-1, 1], not clipped, `config.upscale` times as large as those
            that were encoded, float32 or wider; one at a time. With tiles nothing until
            `split.LATENTS_PER_VISIT` latents are there.

        Raises:
            NumericOverflow: A value is NaN or infinite.
        """
        length = latents.shape[2]
        if self._parks and length:
            self._carry = self._carry.moved(self._device)
        for start, end in slices(length, self._size, begins=self._carry.first):
            carry = self._carry.handed_over(last=last and end == length)
            found, self._carry = self._step(latents[:, :, start:end], carry)
            if self._high is None:
                yield from self._whole(as_frames(found))
            else:
                self._high.take(found)
        if self._high is not None and (last or self._high.is_due):
            self._count += self._high.due
            if self._parks:
                self._carry = self._carry.parked(self._parking, "decoder")
            for frame in torch.split(self._high.visit(self._tell, last=last), 1):
                yield _wide(frame.to(self._device)).contiguous()

    def _whole(self, frames: Tensor) -> Iterator[Tensor]:
        check_finite(frames)
        self._count += len(frames)
        self._tell(0, frames[-1])
        yield from map(_wide, torch.split(frames, 1))

    def _tell(self, index: int, picture: Tensor) -> None:
        self._watch(
            DecodedTile(
                frame=self._count - 1,
                index=index,
                tiles=len(self._boxes),
                box=self._boxes[index],
                picture=picture.float(),
            )
        )


def _wide(frames: Tensor) -> Tensor:
    """In float32 at least."""
    return frames.to(torch.promote_types(frames.dtype, torch.float32))
