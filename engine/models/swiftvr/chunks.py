"""Chunks of a shot that the transformer of SwiftVR takes together; integers only, no torch.

Four frames are a latent, from the first frame of a shot on; of the last latent three frames are
repeated. So frame f is decoded, three frames late, from latent (f + 3) // 4 and some before it. The
first chunk has a latent more than the others, as long as a chunk without latents in front would
have to be. The last chunk is as long as the first: latents of the chunk before stand in front of
its own, or zeros where there is no chunk before. What it makes of them is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP = 4  # frames of a latent
DROPPED = STEP - 1  # frames that are decoded before the first one of a shot
REACH = 8  # latents before one that its value, or what is decoded from it, depends on


@dataclass(frozen=True, slots=True)
class Chunk:
    """Latents `start` (inside) to `stop` (outside) of a shot.

    Attributes:
        start: First of them.
        stop: First latent after them.
        front: First of the latents that stand in front of them.
        zeros: Latents of zeros that stand in front of all.
    """

    start: int
    stop: int
    front: int
    zeros: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """Place to begin inside a shot, so that a frame and all after it are the same.

    Attributes:
        encode_from: Latent that the encoder begins with.
        keep_from: First latent that is right.
        chunk: Number of the first chunk to run.
        decode_from: Latent that the decoder begins with.
        frame: First frame that is right.
    """

    encode_from: int = 0
    keep_from: int = 0
    chunk: int = 0
    decode_from: int = 0
    frame: int = 0


FROM_START = Restart()


@dataclass(frozen=True, slots=True)
class ChunkGrid:
    """The chunks of a shot of any length.

    Attributes:
        length: Latents of a chunk; the first one has one more.
    """

    length: int = 6

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"chunks of {self.length} latents")

    def start(self, number: int) -> int:
        """First latent of a chunk."""
        return number * self.length + 1 if number else 0

    def holding(self, latent: int) -> int:
        """Number of the chunk that has a latent."""
        return max(0, latent - 1) // self.length

    def ready(self, number: int, count: int, *, ended: bool) -> Chunk | None:
        """Chunk `number` if `count` latents are enough for it; None if not, or after the last one.

        Whether a chunk is the last one shows in the latent after it.

        Args:
            number: Number of the chunk, from 0.
            count: Latents available.
            ended: Whether the shot has no more than `count`.
        """
        start, stop = self.start(number), self.start(number + 1)
        if count > stop:
            return Chunk(start, stop, start)
        if not ended or count <= start:
            return None
        missing = self.length + 1 - (count - start)
        return Chunk(start, count, start - missing) if number else Chunk(0, count, 0, missing)

    def restart(self, frame: int) -> Restart:
        """Place to continue a shot at one of its frames, counted from its start."""
        decode_from = max(0, (frame + DROPPED) // STEP - REACH)
        chunk = self.holding(decode_from)
        keep_from = max(0, self.start(chunk) - self.length)  # the chunk may be the last one
        return Restart(max(0, keep_from - REACH), keep_from, chunk, decode_from, frame)


def latent_begin(frame: int) -> int:
    """First frame of those that are decoded from the same latent as a frame."""
    return max(0, (frame + DROPPED) // STEP * STEP - DROPPED)


def latents_of(frames: int) -> int:
    """Latents of a shot of n frames, so that all of them are decoded."""
    return -(-(frames - 1) // STEP) + 1
