"""The first frames of a real clip, as a video VAE takes them. Needs PyAV."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from engine.core.errors import InputError
from engine.core.geometry import Size
from engine.pipeline.stages.source import SourceColours
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe


def film_clip(path: Path, frames: int, step: int) -> Tensor:
    """The first frames of a film, [T, 3, H, W] float32 in [-1, 1].

    Args:
        path: The film.
        frames: Most that are taken.
        step: T is 1 + n * step.

    Raises:
        InputError: It cannot be read, or has no frames.
    """
    media = probe(path)
    with FrameReader(media) as reader:
        found = list(islice(reader, frames))
    if not found:
        raise InputError(f"{path.name} has no frames.", path=str(path))
    rgb, _ = SourceColours(media.video, "cpu").rgb(found[: 1 + (len(found) - 1) // step * step])
    return rgb.to(torch.float32).clamp(0, 1).mul(2).sub(1)


def middle(frames: Tensor, most: Size | None, factor: int) -> Tensor:
    """The middle of frames [T, C, H, W], no larger than `most`, both sides multiples of `factor`.

    Raises:
        InputError: They are smaller than one such multiple.
    """
    height, width = frames.shape[2:]
    most = most or Size(width, height)
    h, w = (min(pair) // factor * factor for pair in ((height, most.height), (width, most.width)))
    if not h or not w:
        raise InputError(
            f"Frames of {width}x{height} are too small to be encoded.",
            hint=f"Take a clip of at least {factor}x{factor} pixels.",
        )
    y, x = (height - h) // 2, (width - w) // 2
    return frames[:, :, y : y + h, x : x + w]
