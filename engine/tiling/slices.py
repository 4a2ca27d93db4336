"""A shot cut in time: clips of latents that share some with their neighbours; integers only.

A latent is what a video VAE makes of a few frames: latent 0 of a shot is its first frame alone,
latent j the frames `step * (j - 1) + 1` to `step * j`. Clips are what the transformer takes at
once. All but the last one have the same length and lie on a regular grid; the last one ends with
the shot and reaches back as far as it is long, so that it never sees less than the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatentClip:
    """Latents `start` (inside) to `stop` (outside) of a shot.

    Attributes:
        start: First latent that the model sees.
        stop: First latent behind.
        fresh: First latent that no clip before it had.
        done: First latent that a later clip may still change; all before are final.
    """

    start: int
    stop: int
    fresh: int
    done: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Where to begin again inside a shot so that everything from a latent on comes out the same.

    Attributes:
        encode_from: Latent whose last frame the encoder takes for the first one of a clip.
        keep_from: First latent of the encoder that is right.
        clip: Number of the first clip to run.
        decode_from: Latent that the decoder takes for the first one of a clip.
        block: First latent that has to come out the same; what is made before it is thrown away.
    """

    encode_from: int
    keep_from: int
    clip: int
    decode_from: int
    block: int


FROM_START = Restart(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ClipGrid:
    """How a shot of any length is cut.

    Attributes:
        length: Latents of a clip.
        shared: Latents that it has in common with the one before; less than half of `length`.
    """

    length: int
    shared: int

    def __post_init__(self) -> None:
        if self.shared < 0 or self.length < 1 or (self.shared and 2 * self.shared >= self.length):
            raise ValueError(f"clips of {self.length} latents cannot share {self.shared}")

    @property
    def step(self) -> int:
        """Latents from the start of a clip to that of the next."""
        return self.length - self.shared

    def ready(self, number: int, count: int, *, ended: bool) -> LatentClip | None:
        """Clip `number` as far as `count` latents are there; None when it has to wait or is none.

        Args:
            number: Of the clip, from 0.
            count: Latents that are there.
            ended: The shot has no more than `count`.
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

    def restart(self, latent: int, *, encoder_reach: int, decoder_reach: int) -> Restart:
        """Where to begin so that `latent` and all behind it come out as in one go.

        Args:
            latent: First one that is wanted.
            encoder_reach: Latents before one that the encoder's result for it depends on.
            decoder_reach: The same of the decoder.
        """
        block = latent // self.step * self.step
        decode_from = max(0, block - decoder_reach)
        clip = max(0, -(-(decode_from + 1 - self.length) // self.step))
        keep_from = max(0, (clip - 1) * self.step)  # a short shot's last clip reaches back so far
        encode_from = max(0, keep_from - encoder_reach)
        return Restart(encode_from, keep_from, clip, decode_from, block)


def latent_of(frame: int, step: int) -> int:
    """The latent that holds a frame, both counted from the start of their shot."""
    return -(-frame // step)


def first_frame(latent: int, step: int) -> int:
    """First frame of a latent, counted from the start of its shot."""
    return 0 if latent == 0 else step * (latent - 1) + 1


def padded_length(frames: int, step: int) -> int:
    """The next number of frames that whole latents hold: 1 + n * step."""
    return 1 + -(-(frames - 1) // step) * step


def appended(frames: int, count: int) -> list[int]:
    """Numbers of the frames of a clip made longer: mirrored at its end.

    The last frame is not shown twice. A clip that is not longer than `count` goes back to frame 1
    and then, as the reference, stays on its last frame.
    """
    mirrored = [frames - 1 - i for i in range(1, frames)]
    if count >= frames:
        mirrored = [frames - i for i in range(1, frames)]
    longer = [*mirrored, *[frames - 1] * count]
    return [*range(frames), *longer[:count]]
