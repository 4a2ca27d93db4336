"""One shot through SwiftVR: encoder, transformer and decoder, each with what it knows of the past.

Encoder and decoder go through the shot latent by latent, with their carries; the transformer takes
chunks of latents and remembers nothing but the last latents before the last chunk. So memory does
not grow with the length of a shot, and results do not depend on how its frames come in.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from engine.models.swiftvr.chunks import (
    DROPPED,
    FROM_START,
    STEP,
    Chunk,
    ChunkGrid,
    Restart,
    latents_of,
)
from engine.models.swiftvr.dit.fast import FastSwiftDit
from engine.models.swiftvr.load import AnyReae, AnySwiftDit
from engine.models.upscalers import Advance, Restored, no_advance
from engine.models.video_vae.frame_slices import FiniteCheck, as_clip, as_frames
from engine.ops.conv.causal_conv import Carry


class Shot:
    """Restores one shot; frames go in with `push` and come out in order, a little later.

    Args:
        vae: Autoencoder, in either variant.
        dit: Transformer, in either variant.
        grid: Chunks.
        restart: Place in the shot to begin at, when its beginning was done before.
        advance: Called after each latent and each chunk, and between layers of the fast
            transformer.

    Memory: frames of a latent, latents of two chunks, and what the models take.
    """

    def __init__(
        self,
        vae: AnyReae,
        dit: AnySwiftDit,
        grid: ChunkGrid,
        restart: Restart = FROM_START,
        advance: Advance = no_advance,
    ) -> None:
        self._vae, self._dit, self._grid = vae, dit, grid
        self._restart, self._advance = restart, advance
        if isinstance(dit, FastSwiftDit):
            dit.between = lambda: advance("transformer", 0)
        self._encoding, self._decoding = Carry(), Carry()
        self._finite = FiniteCheck()  # asked with each frames of the decoder: the host waits once
        self._waiting: list[Tensor] = []  # frames [3, H, W] that are no whole latent yet
        self._latents: list[Tensor] = []  # [1, L, 1, h, w] each, from number _kept on
        self._kept = restart.keep_from
        self._next = restart.encode_from  # latent that is encoded next
        self._chunk = restart.chunk
        self._count = self.first  # frames so far

    @property
    def first(self) -> int:
        """Number of the frame that `push` begins with, counted from the start of the shot."""
        return STEP * self._restart.encode_from

    def push(self, frames: Tensor, *, last: bool) -> Iterator[Restored]:
        """Take the next frames.

        Args:
            frames: [T, 3, H, W] in [0, 1] in the type of the models, padded; T as you like.
            last: The shot ends with them; it has one frame at least.

        Yields:
            Final frames in [-1, 1], not clipped, without those before that of the restart.

        Raises:
            NumericOverflow: The planner takes a wider format.
        """
        self._count += len(frames)
        self._waiting += frames.unbind()
        del frames
        if last:
            missing = STEP * latents_of(self._count) - self._count
            self._waiting += [self._waiting[-1]] * missing
        # One frame stays at least: the last one may have to be repeated.
        while len(self._waiting) > STEP or (last and self._waiting):
            some, self._waiting = self._waiting[:STEP], self._waiting[STEP:]
            ended = last and not self._waiting
            self._encode(torch.stack(some), last=ended)
            del some
            encoded = self._kept + len(self._latents)
            while (chunk := self._grid.ready(self._chunk, encoded, ended=ended)) is not None:
                self._chunk += 1
                is_last = ended and chunk.stop == encoded
                yield from self._decoded(chunk, self._restored(chunk), is_last=is_last)
        self._waiting = [frame.clone() for frame in self._waiting]  # the others' memory is free

    def _encode(self, frames: Tensor, *, last: bool) -> None:
        carry = self._encoding.handed_over(last=last)
        latent, self._encoding = self._vae.encode_slice(as_clip(frames), carry)
        self._finite.note(latent, "encoder")
        if self._next >= self._restart.keep_from:
            self._latents.append(latent)
        self._next += 1
        self._advance("encode", STEP)

    def _restored(self, chunk: Chunk) -> Tensor:
        """Restored latents [1, L, n, h, w] of a chunk."""
        given = self._latents[chunk.front - self._kept : chunk.stop - self._kept]
        latents = torch.cat([torch.zeros_like(given[0])] * chunk.zeros + given, dim=2)
        del given
        self._vae.release()  # its buffers and those of the transformer take turns
        velocity: Tensor = self._dit(latents.to(self._dit.proj_out.bias.dtype))
        count = chunk.stop - chunk.start
        restored = latents[:, :, -count:] - velocity[:, :, -count:].to(latents.dtype)
        self._finite.note(restored, "transformer", velocity.dtype)
        self._dit.release()
        known = max(0, chunk.stop - self._grid.length - self._kept)
        del self._latents[:known]
        self._kept += known
        self._advance("transformer", STEP * count)
        return restored

    def _decoded(self, chunk: Chunk, restored: Tensor, *, is_last: bool) -> Iterator[Restored]:
        """Frames of a chunk, those of one latent after the other."""
        begin = self._restart.decode_from
        for number in range(max(chunk.start, begin), chunk.stop):
            place = number - chunk.start
            carry = self._decoding.handed_over(last=is_last and number == chunk.stop - 1)
            latent = restored[:, :, place : place + 1]
            clip, self._decoding = self._vae.decode_slice(latent, carry)
            frames, first = as_frames(clip), max(STEP * number - DROPPED, STEP * begin)
            self._finite.note(frames, "decoder")
            self._finite.check()
            self._advance("decode", len(frames))
            end = len(frames) if not is_last else max(0, self._count - first)
            skipped = max(0, self._restart.frame - first)
            shown = frames[skipped:end]
            if len(shown):
                wide = shown.to(torch.promote_types(shown.dtype, torch.float32), copy=True)
                del clip, frames, shown
                yield Restored(first=first + skipped, frames=wide.mul_(2).sub_(1))
                del wide  # before the next latent is decoded
