"""SwiftVR as the published program uses it: frames before and after, files and streams.

The program itself keeps all frames and all of their pixels; only golden files are made like this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.core.geometry import Size
from engine.models.swiftvr.chunks import STEP, ChunkGrid
from engine.models.swiftvr.load import AnyReae, AnySwiftDit
from engine.models.swiftvr.shot import Shot
from engine.models.video_vae.frame_slices import as_clip, as_frames
from engine.ops.conv.causal_conv import Carry

_CROP, _PAD = 8, 32  # px that sides are multiples of


@dataclass(frozen=True)
class Models:
    """The models, and what they were given and gave: latents [1, L, n, h, w] of each call."""

    vae: AnyReae
    dit: AnySwiftDit
    encoded: list[Tensor] = field(default_factory=list)
    restored: list[Tensor] = field(default_factory=list)

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Encode a slice."""
        latent, carry = self.vae.encode_slice(frames, carry)
        self.encoded.append(latent)
        return latent, carry

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Decode a slice."""
        self.restored.append(latent)
        return self.vae.decode_slice(latent, carry)

    def release(self) -> None:
        """Give buffers back."""
        self.vae.release()


def finished_size(frames: Tensor, size: Size | None, factor: int) -> Size:
    """Size of finished frames [T, H, W, 3]: the given one, or that of cropped frames, enlarged."""
    height, width = cropped(frames).shape[1:3]
    return size or Size(width * factor, height * factor)


def cropped(frames: Tensor) -> Tensor:
    """Frames [T, H, W, 3] without columns and rows beyond whole steps."""
    height, width = (side // _CROP * _CROP for side in frames.shape[1:3])
    return frames[:, :height, :width]


def prepared(frames: Tensor, size: Size) -> Tensor:
    """Frames uint8 [T, H, W, 3] as the encoder takes them: [T, 3, H', W'] in [0, 1], padded."""
    pictures = frames.movedim(-1, 1).float()
    if pictures.shape[-2:] != (size.height, size.width):
        sides = size.height, size.width
        pictures = F.interpolate(pictures, sides, mode="bilinear", align_corners=False)
    right, below = (-side % _PAD for side in (size.width, size.height))
    return F.pad(pictures / 255, (0, right, 0, below))


def whole_latents(frames: Tensor) -> Tensor:
    """Frames without those at the end that are no 4n + 1."""
    return frames[: (len(frames) - 1) // STEP * STEP + 1]


def to_bytes(video: Tensor) -> Tensor:
    """[1, T, 3, H, W] in [0, 1] -> uint8 [T, H, W, 3], cut off and not rounded."""
    return (video[0] * 255).clamp(0, 255).to(torch.uint8).movedim(1, -1)


def restored_file(
    models: Models,
    frames: Tensor,
    size: Size,
    grid: ChunkGrid,
    pieces: Sequence[int] = (),
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """A whole file: frames uint8 [T, H, W, 3] -> video [1, T', 3, height, width] in [0, 1].

    Args:
        models: Its models.
        frames: Frames of the file.
        size: Size of the finished ones.
        grid: Chunks.
        pieces: Frames that are pushed at a time, again and again; none: all at once.
        dtype: Type of the models.
    """
    shown = prepared(cropped(whole_latents(frames)), size).to(dtype)
    shot = Shot(models, models.dit, grid)  # type: ignore[arg-type]  # stands in for both VAEs, to record their calls
    parts = []
    for start, end in _cut(len(shown), pieces):
        parts += [one.frames for one in shot.push(shown[start:end], last=end == len(shown))]
    return _video(torch.cat(parts) / 2 + 0.5, size)


def restored_stream(
    models: Models, frames: Tensor, size: Size, steps: Sequence[int], overlap: int
) -> tuple[Tensor, list[int]]:
    """The other mode: some frames at a time, of which each step restores whole latents.

    Returns:
        The video as of `restored_file`; the frames that each step, and the end, gave.
    """
    shown = prepared(cropped(frames), size)
    encoding, decoding = Carry(), Carry()
    older, waiting = None, shown[:0]
    parts: list[Tensor] = []
    for step in [*shown.split(list(steps)), None]:
        if step is None and len(waiting):
            step = waiting[-1:].expand(-len(waiting) % STEP, -1, -1, -1)
        waiting = waiting if step is None else torch.cat([waiting, step])
        whole = len(waiting) // STEP * STEP
        some, waiting = waiting[:whole], waiting[whole:]
        if not len(some):
            parts.append(some)
            continue
        latents, encoding = models.vae.encode_slice(as_clip(some), encoding)
        given = latents if older is None else torch.cat([older, latents], dim=2)
        older = latents[:, :, latents.shape[2] - overlap :]
        restored = (given - models.dit(given))[:, :, -latents.shape[2] :]
        clip, decoding = models.vae.decode_slice(restored, decoding)
        parts.append(as_frames(clip))
    counts = [len(part) for part in parts]
    return _video(torch.cat([part for part in parts if len(part)]), size), counts


def _cut(length: int, pieces: Sequence[int]) -> Iterator[tuple[int, int]]:
    start, number = 0, 0
    while start < length:
        end = min(length, start + pieces[number % len(pieces)]) if pieces else length
        yield start, end
        start, number = end, number + 1


def _video(frames: Tensor, size: Size) -> Tensor:
    return frames[None, ..., : size.height, : size.width].clamp(0, 1)
