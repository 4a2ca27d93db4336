"""One shot from frames to restored frames: one pass of the VAE, clips of the transformer between.

The encoder runs once over the shot and hands its latents on. The transformer takes clips of them
that share some latents with their neighbours; what both made of the shared ones is mixed by a
raised cosine. The decoder runs once over the result. So there is no visible seam in time,
and memory does not grow with the length of the shot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import cos, pi
from typing import Protocol

import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.seedvr2.preprocess import join, overlap_weights
from engine.models.seedvr2.vae.load import Vae
from engine.models.seedvr2.vae.streams import SeedVr2DecodeStream, SeedVr2EncodeStream
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.upscalers import Advance, Restored, Watch, no_advance
from engine.models.video_vae.frame_slices import Ending
from engine.models.video_vae.slicing import slices
from engine.ops.transfer.parking import Parking
from engine.tiling.latent_clips import (
    FROM_START,
    ClipGrid,
    LatentClip,
    Restart,
    first_frame,
    latent_of,
    mirrored_indices,
    padded_length,
)


class RestoreClip(Protocol):
    """Restores a clip by the transformer, with its own sampler, noise and text."""

    def __call__(self, latents: Tensor, first: int) -> Tensor:
        """Restored latents [t, h, w, L] float32 of [t, h, w, L]; `first` is the index of the first.

        Counted from the start of the shot, so that noise can be drawn once for all of it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShotOptions:
    """Options of processing shots.

    Attributes:
        frame: Size of the padded frames.
        grid: Clips of the transformer.
        encode: Tiling of frames to be encoded; None for whole ones.
        decode: Tiling of frames to be decoded; None for whole ones.
        parks: Carries of whole frames leave the device while other stages work.
        parking: Store in RAM for waiting carries; one for all shots.
    """

    frame: Size
    grid: ClipGrid
    encode: Tiling | None = None
    decode: Tiling | None = None
    parks: bool = True
    parking: Parking = field(default_factory=Parking)


class LatentJoin:
    """Puts restored clips together; latents that two clips share are mixed.

    Memory: the shared latents of the last clip.
    """

    def __init__(self, shared: int) -> None:
        self._tail: Tensor | None = None
        self._next = 0  # first latent that is not final
        # weight of the newer clip, between 0 and 1 without reaching them
        rising = [0.5 - 0.5 * cos(pi * (i + 1) / (shared + 1)) for i in range(shared)]
        self._rising = torch.tensor(rising).view(-1, 1, 1, 1)

    def add(self, clip: LatentClip, restored: Tensor) -> tuple[int, Tensor]:
        """The latents that are final now, and the number of the first of them.

        The first clip that is added starts the result where it starts itself.
        """
        start = clip.start if self._tail is None else self._next
        fresh = restored[start - clip.start :]
        if self._tail is not None and len(self._tail):
            shared = fresh[: len(self._tail)]
            mixed = torch.lerp(self._tail, shared, self._rising.to(shared.device))
            fresh = torch.cat([mixed, fresh[len(self._tail) :]])
        self._next = clip.done
        self._tail = fresh[clip.done - start :].clone()
        return start, fresh[: clip.done - start]


class Shot:
    """Restores one shot; frames go in with `push` and come out in order, a little later.

    Args:
        vae: Encoder and decoder.
        restore: The transformer.
        options: Sizes and clips.
        watch: Called with every decoded tile; frames are counted from the start of the shot.
        restart: Place in the shot to begin at, when its beginning was done before.
        stop: First frame that is not wanted: nothing is computed that only it and later ones need;
            None for all.
        advance: Called after each slice of a tile.

    Memory: latents of one clip and of what is shared, and those of the VAE's streams.
    """

    def __init__(
        self,
        vae: Vae,
        restore: RestoreClip,
        options: ShotOptions,
        watch: Watch,
        restart: Restart = FROM_START,
        advance: Advance = no_advance,
        *,
        stop: int | None = None,
    ) -> None:
        self._restore = restore
        self._grid, self._parks = options.grid, options.parks
        self._step = vae.config.temporal_factor
        last_clip = self._last_clip = self._clip_before(stop)
        self._encode = SeedVr2EncodeStream(
            vae,
            options.frame,
            options.encode,
            options.parking,
            begin=restart.encode_from,
            end=None if last_clip is None else self._grid.enough_for(last_clip),
            advance=advance,
        )
        self._frame = self._step * restart.decode_from  # number of the next decoded one
        self._decode = SeedVr2DecodeStream(
            vae,
            options.frame,
            options.decode,
            watch,
            options.parking,
            first=self._frame,
            begin=restart.decode_from,
            end=None if last_clip is None else (last_clip + 1) * self._grid.step,
            advance=advance,
        )
        self._join = LatentJoin(options.grid.shared)
        self._restart = restart
        self._latents: list[Tensor] = []  # [h, w, L] each, from number _kept on
        self._kept = restart.encode_from
        self._clip = restart.clip
        self._decoded = restart.decode_from  # first latent that the decoder has not seen
        self._ending = Ending(self._step, self.first)

    @property
    def first(self) -> int:
        """Number of the frame that `push` begins with, counted from the start of the shot."""
        return self._step * self._restart.encode_from

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames.

        Args:
            frames: [T, 3, H, W] in [-1, 1], padded; T = 1 + n * temporal_factor at first and
                n * temporal_factor later. The last ones may be fewer.
            last: The shot ends with them.

        Yields:
            Final frames, without those that a restart makes for the decoder's sake alone. After
            `stop` none may follow.

        Raises:
            NumericOverflow: Raised by the decoder.
        """
        frames, device = self._ending.filled(frames, last=last), frames.device
        self._latents += self._encode.push(frames, last=last).unbind()
        del frames  # they would wait for what is decoded
        encoded = self._kept + len(self._latents)
        parts: list[tuple[int, Tensor]] = []
        while (clip := self._ready(encoded, last=last)) is not None:
            self._clip += 1
            if self._parks:
                self._encode.park()
            start, final = self._join.add(clip, self._restored(clip, device))
            parts.append((start, final.cpu()))
        for number, (start, final) in enumerate(parts, 1):
            ended = last and number == len(parts)
            yield from self._shown(start, final.to(device), ended=ended)
        if parts and self._parks:
            self._decode.park()

    def _clip_before(self, stop: int | None) -> int | None:
        """Number of the last clip that frames before `stop` need."""
        if stop is None:
            return None
        return self._grid.clip_that_ends(latent_of(stop - 1, self._step))

    def _ready(self, encoded: int, *, last: bool) -> LatentClip | None:
        """The next clip, if it is wanted and there are enough latents for it."""
        if self._last_clip is not None and self._clip > self._last_clip:
            return None
        return self._grid.ready(self._clip, encoded, ended=last)

    def _restored(self, clip: LatentClip, device: torch.device) -> Tensor:
        del self._latents[: max(0, clip.start - self._kept)]
        self._kept = max(self._kept, clip.start)
        latents = torch.stack(self._latents[: clip.stop - clip.start])
        return self._restore(latents.to(device), clip.start)

    def _shown(self, start: int, final: Tensor, *, ended: bool) -> Iterator[Restored]:
        """Decode latents from index `start` on; frames in blocks of the clips' grid."""
        known = max(0, self._decoded - start)
        if known >= len(final):
            return
        self._decoded = start + len(final)
        wanted = first_frame(self._restart.block, self._step)
        for frames in self._decode.push(final[known:], last=ended):
            first, self._frame = self._frame, self._frame + len(frames)
            shown = frames[: max(0, self._ending.count - first)] if ended else frames
            shown = shown[max(0, wanted - first) :]
            first = max(first, wanted)
            while len(shown):
                left = self._block_end(first) - first
                is_end = len(shown) >= left or (ended and first + len(shown) == self._ending.count)
                yield Restored(first=first, frames=shown[:left], ends_block=is_end)
                shown, first = shown[left:], first + left
            del frames, shown  # before others are decoded

    def _block_end(self, frame: int) -> int:
        """The first frame of the next block of latents."""
        grid = self._grid.step
        block = latent_of(frame, self._step) // grid
        return first_frame((block + 1) * grid, self._step)


class ClippedShot:
    """Restores one shot in clips that are encoded and decoded each by itself.

    Clips share frames with their neighbours, over which one fades into the other; or none, and
    then each begins with a jump. Worse than `Shot`, which has no such seams; other programs do
    it this way.

    Args:
        vae: Encoder and decoder.
        restore: The transformer; given the clip's first frame in place of a latent.
        options: Sizes; the grid counts frames here.
        watch: Called with every decoded tile; frames are counted from the start of the shot.
        frame: First frame that is wanted.
        advance: Called after each slice of a tile.

    Memory: one clip of frames, before and after.
    """

    def __init__(
        self,
        vae: Vae,
        restore: RestoreClip,
        options: ShotOptions,
        watch: Watch,
        frame: int = 0,
        advance: Advance = no_advance,
    ) -> None:
        self._vae, self._restore, self._options, self._watch = vae, restore, options, watch
        self._advance = advance
        self._grid = options.grid
        self._wanted = max(0, frame - self._grid.shared) // self._grid.step * self._grid.step
        self.first = self._start = self._wanted
        self._waiting: list[Tensor] = []
        self._tail: Tensor | None = None

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Push frames, as `Shot.push` does."""
        self._waiting += frames.unbind()
        while len(self._waiting) > self._grid.length or (last and self._waiting):
            clip = torch.stack(self._waiting[: self._grid.length])
            ended = last and len(self._waiting) <= self._grid.length
            yield self._joined(self._run(clip), ended=ended)
            del self._waiting[: len(self._waiting) if ended else self._grid.step]
            self._start += self._grid.step

    def _run(self, clip: Tensor) -> Tensor:
        """Frames [T, 3, H, W] of one clip, restored."""
        options, count = self._options, len(clip)
        step = self._vae.config.temporal_factor
        missing = padded_length(count, step) - count
        if missing:
            clip = clip[mirrored_indices(count, missing)]
        advance = self._advance
        encode = SeedVr2EncodeStream(
            self._vae, options.frame, options.encode, options.parking, advance=advance
        )
        decode = SeedVr2DecodeStream(
            self._vae,
            options.frame,
            options.decode,
            self._watch,
            options.parking,
            first=self._start,
            advance=advance,
        )
        size = self._vae.config.slice_latents * step
        cuts = list(slices(len(clip), size))
        latents = [encode.push(clip[a:b], last=b == len(clip)) for a, b in cuts]
        restored = self._restore(torch.cat(latents).to(clip.device), self._start)
        return torch.cat(list(decode.push(restored, last=True)))[:count]

    def _joined(self, frames: Tensor, *, ended: bool) -> Restored:
        start = self._start
        if self._tail is not None:
            shared = min(len(self._tail), len(frames))
            mixed = join(self._tail[:shared], frames[:shared], overlap_weights(shared))
            frames = torch.cat([mixed, frames[shared:]])
        final = len(frames) if ended else self._grid.step
        self._tail = None if ended or not self._grid.shared else frames[final:].clone()
        return Restored(first=start, frames=frames[:final], ends_block=True)
