"""Encoder stream: frames of a shot of any length to latents."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.load import Vae
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.upscalers import Advance, no_advance
from engine.models.video_vae.frame_slices import as_clip, cut
from engine.ops.conv.causal_conv import Carry
from engine.ops.lanes import Lanes
from engine.ops.transfer.parking import Parking
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid

_SHARED_PX = 64  # that neighbouring tiles have in common


class SeedVr2EncodeStream:
    """Encodes the slices of one shot, tile by tile on request.

    Args:
        vae: Its encoder.
        frame: Size of the frames.
        tiling: Tiling of the frames; None for whole ones.
        parking: Store in RAM for waiting carries; None for one of its own.
        begin: Latent of the shot that the first frame is the last one of.
        end: Latents of the shot that are wanted: a span ends as soon as they are there; None: all.
        advance: Called after each slice of a tile.

    Memory: without tiles a slice and the carry, which may be parked. With tiles those of one
    tile, and on the host a span of frames in the dtype of the VAE, and the carries of all tiles
    (see `Tiling`).
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
        self._advance = advance
        factor = vae.config.spatial_factor
        self._vae = vae
        self._factor = factor
        self._canvas = Size(frame.width // factor, frame.height // factor)
        wanted = self._canvas if tiling is None else _in_latents(tiling.tile, factor)
        self._shared = min(_SHARED_PX // factor, (min(wanted.width, wanted.height) - 1) // 2)
        self._boxes = tile_grid(self._canvas, wanted, self._shared)
        self._parking = parking or Parking()
        self._carries = [Carry() for _ in self._boxes]
        self._means: list[Tensor] = []  # latents of a span that has not ended
        self._slices: list[Tensor] = []
        self._before: list[Tensor] = []  # slices that tiles warm up with
        self._warm_up = tiling.warm_up if tiling is not None and self._is_tiled else 0
        self._dropped = 0  # slices since the first of the shot that are not needed any more
        self._span = tiling.span if tiling is not None else 1
        self._at_once = tiling.at_once if tiling is not None else 1
        self._next, self._end = begin, end  # latent of the next frames

    def push(self, frames: Tensor, *, last: bool) -> Tensor:
        """Encode the next slice.

        Args:
            frames: [T, 3, H, W] in [-1, 1]; T = 1 + n * temporal_factor in the first slice of a
                shot, n * temporal_factor later.
            last: The shot ends with it.

        Returns:
            [t, h, w, L] float32 in host memory, scaled as the transformer takes it; t is 0 until a
            span ends.
        """
        self._next += -(-len(frames) // self._vae.config.temporal_factor)
        has_enough = self._end is not None and self._next >= self._end
        ends = last or has_enough or self._next % self._span == 0
        if not self._is_tiled:
            self._means += self._visited([frames], frames.device, last=last)
        else:
            self._slices.append(self._parked(frames))
            if ends:
                self._means.append(self._blended(frames.device, last=last))
        if not ends:
            shape = (0, self._canvas.height, self._canvas.width, self._vae.config.latent_channels)
            return torch.empty(shape)
        means, self._means = torch.cat(self._means).cpu(), []
        return means.mul_(self._vae.config.scaling_factor).permute(0, 2, 3, 1)

    def _blended(self, device: torch.device, *, last: bool) -> Tensor:
        """Latents [t, L, h, w] of all tiles, on the host."""
        slices, fresh = self._due(last=last)
        blender = Blender(self._canvas, margin=0)
        found = self._visited(slices, device, last=last or bool(self._warm_up))
        for box, latents in zip(self._boxes, found, strict=True):
            blender.add(latents[len(latents) - fresh :].cpu(), box, self._shared)
        return blender.result()

    def _visited(
        self, slices: list[Tensor], device: torch.device, *, last: bool
    ) -> Iterator[Tensor]:
        """Latents [t, L, h, w] float32 of each tile."""
        lanes = Lanes(device, min(self._at_once, len(self._boxes)))
        vaes = [self._vae] if lanes.count == 1 else FastVae.of(self._vae).apart(lanes.count)

        def one(index: int, lane: int) -> Generator[None, None, Tensor]:
            return self._tile(index, vaes[lane], slices, device, last)

        return lanes.run([partial(one, index) for index in range(len(self._boxes))])

    def park(self) -> None:
        """Move the carries to host memory while others need the device."""
        for index, carry in enumerate(self._carries):
            self._carries[index] = self._waiting(index, carry.handed_over())

    @property
    def _is_tiled(self) -> bool:
        return len(self._boxes) > 1

    def _parked(self, frames: Tensor) -> Tensor:
        """In host memory, in the dtype of the VAE."""
        return frames.to(getattr(self._vae, "dtype", frames.dtype)).cpu()

    def _due(self, *, last: bool) -> tuple[list[Tensor], int]:
        """Slices to run, those to warm up with first, and how many latents are not known yet."""
        fresh, before = self._slices, self._before
        frames = sum(len(one) for one in fresh)
        latents = -(-frames // self._vae.config.temporal_factor)
        known = [*before, *fresh]
        unneeded = max(0, len(known) - self._warm_up)
        dropped, self._dropped = self._dropped, self._dropped + unneeded
        self._slices, self._before = [], [] if last else known[unneeded:]
        if before and dropped:  # the first slice of a clip has one frame more, and a latent for it
            known[:2] = [torch.cat([known[0][-1:], known[1]])]
        return known, latents

    def _tile(
        self, index: int, vae: Vae, slices: list[Tensor], device: torch.device, last: bool
    ) -> Generator[None, None, Tensor]:
        """Latents [t, L, h, w] float32 of one tile, a slice up to each `yield`."""
        box = self._boxes[index].scaled(self._factor)
        # what a carry keeps leaves its old place, so that its frames go as others come
        carry = Carry() if self._warm_up else self._carries[index].handed_over().moved(device)
        means = []
        for number, frames in enumerate(slices, 1):
            carry = carry.handed_over(last=last and number == len(slices))
            part = cut(frames, box).to(device)
            posterior, carry = vae.encode_slice(as_clip(part), carry)
            means.append(posterior[0].chunk(2)[0].movedim(0, 1).float())
            self._advance("encode", len(frames) / len(self._boxes))
            yield
        if not self._warm_up:  # else it is not continued
            self._carries[index] = self._waiting(index, carry) if self._is_tiled else carry
        return torch.cat(means)

    def _waiting(self, index: int, carry: Carry) -> Carry:
        return carry.parked(self._parking, ("encode", index))


def _in_latents(tile: Size, factor: int) -> Size:
    return Size(max(1, tile.width // factor), max(1, tile.height // factor))
