"""Clips of latents: a shot cut in time, with latents shared by neighbouring clips; integers only.

A video VAE encodes a few frames as one latent: latent 0 of a shot is its first frame alone, latent
j the frames `step * (j - 1) + 1` to `step * j`. A clip is the input of one pass of the transformer.
All clips but the last one have the same length and lie on a regular grid; the last one ends with
the shot and has the same length too, so that it never has less context than the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentClip:
    """Latents `start` (inside) to `stop` (outside) of a shot."""

    start: int  # first latent of the clip
    stop: int  # first latent after it
    fresh: int  # first latent that was in no clip before
    done: int  # first latent that a later clip may still change; all before are final


@dataclass(frozen=True, slots=True)
class Restart:
    """Finds where to begin inside a shot so that all from one latent on is as from its start."""

    encode_from: int  # latent whose last frame is the encoder's first frame
    keep_from: int  # first latent of the encoder that is right
    clip: int  # number of the first clip to run
    decode_from: int  # the decoder's first latent
    block: int  # first latent that has to be the same; the ones before it are discarded


FROM_START = Restart(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Lookback:
    """Lead that a network needs before a latent for that latent to be the same.

    Attributes:
        latents: Before it, or before its span.
        span: Latents that are computed together, on a grid that the shot's first latent begins;
            1 where the result does not depend on that.
    """

    latents: int
    span: int = 1

    def begin(self, latent: int) -> int:
        """The latent to begin at."""
        return max(0, latent // self.span * self.span - self.latents)


@dataclass(frozen=True, slots=True)
class ClipGrid:
    """The clips of a shot of any length."""

    length: int  # latents of a clip
    shared: int  # latents that it shares with the one before; less than half of `length`

    def __post_init__(self) -> None:
        if self.shared < 0 or self.length < 1 or (self.shared and 2 * self.shared >= self.length):
            raise ValueError(f"clips of {self.length} latents cannot share {self.shared}")

    @property
    def step(self) -> int:
        """Latents from the start of a clip to that of the next."""
        return self.length - self.shared

    def ready(self, number: int, count: int, *, ended: bool) -> LatentClip | None:
        """Clip `number` if `count` latents are enough for it; None if not, or after the last clip.

        Args:
            number: Number of the clip, from 0.
            count: Latents available.
            ended: Whether the shot has no more than `count`.
        """
        start = number * self.step
        stop = start + self.length
        fresh = start + self.shared if number else 0
        if stop < count or (stop == count and not ended):
            return LatentClip(start, stop, fresh, start + self.step)
        if not ended or fresh >= count:
            return None
        return LatentClip(max(0, count - self.length), count, fresh, count)

    def clips(self, count: int) -> Iterator[LatentClip]:
        """All clips of a shot of `count` latents."""
        number = 0
        while (clip := self.ready(number, count, ended=True)) is not None:
            yield clip
            number += 1

    def clip_that_ends(self, latent: int) -> int:
        """Number of the clip after which a latent is final."""
        return latent // self.step

    def enough_for(self, number: int) -> int:
        """Latents with which a clip is `ready`."""
        return number * self.step + self.length

    def restart(self, latent: int, *, encoder: Lookback, decoder: Lookback) -> Restart:
        """Finds where to begin so that `latent` and all after it are as without interruption.

        Args:
            latent: First one that is needed.
            encoder: Lookback of the encoder.
            decoder: Lookback of the decoder.
        """
        block = latent // self.step * self.step
        decode_from = decoder.begin(block)
        clip = max(0, -(-(decode_from + 1 - self.length) // self.step))
        keep_from = max(0, (clip - 1) * self.step)  # start of a short shot's last clip
        return Restart(encoder.begin(keep_from), keep_from, clip, decode_from, block)


def latent_of(frame: int, step: int) -> int:
    """The latent that holds a frame, both counted from the start of their shot."""
    return -(-frame // step)


def first_frame(latent: int, step: int) -> int:
    """First frame of a latent, counted from the start of its shot."""
    return 0 if latent == 0 else step * (latent - 1) + 1


def padded_length(frames: int, step: int) -> int:
    """The next number of frames that fills whole latents: 1 + n * step."""
    return 1 + -(-(frames - 1) // step) * step


def mirrored_indices(count: int, extra: int) -> list[int]:
    """Indices 0 to `count` - 1 and `extra` more, mirrored at the end: of frames, rows or columns.

    The last index is not repeated at once. Where `extra` is not smaller than `count`, the mirror
    ends at index 1 and then, as in the reference, the last index is repeated.
    """
    mirrored = [count - 1 - i for i in range(1, count)]
    if extra >= count:
        mirrored = [count - i for i in range(1, count)]
    return [*range(count), *[*mirrored, *[count - 1] * extra][:extra]]
