"""Case `flicker`: how much films change from frame to frame where their source stands still."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.accuracy import Flicker, Picture, psnr
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.core import paths
from engine.core.errors import SettingsError
from engine.models.lite import files
from engine.models.lite.upscaler import upscaler
from engine.pipeline.stages.restore import SourceColours
from engine.pipeline.stages.steady import EnlargedClip, Steadying
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe

_SCALE = 2
_FRAMES, _QUICK_FRAMES = 24, 6
_NOISE, _QUICK_NOISE = (2.0, 5.0), (5.0,)  # standard deviation, 8-bit levels
_SEED = 20260101


def flicker_rows(options: BenchOptions) -> Iterator[Row]:
    """Of a result that exists, next to its source; without one, of Lite on the sample film.

    Raises:
        SettingsError: A result without its source.
        InputError: One of the files cannot be read.
    """
    if options.result is None:
        yield from _lite_rows(options)
        return
    if options.clip is None:
        raise SettingsError("no-clip")
    source, result = Flicker(), Flicker()
    frames = 0
    with torch.inference_mode():
        for before, after in zip(_frames(options.clip), _frames(options.result), strict=False):
            source.add(before, before)
            result.add(after, before)
            frames += 1
    still = f"{source.still:.0%}"
    for name, found in (("source", source), ("result", result)):
        yield {"film": name, "frames": frames, "still": still, "flicker": found.levels}


def _frames(path: Path) -> Iterator[Tensor]:
    """Frames of a film as [3, H, W] float32, nominally 0 to 1, one by one."""
    media = probe(path)
    colours = SourceColours(media.video, "cpu")
    with FrameReader(media) as reader:
        for frame in reader:
            yield colours.rgb([frame])[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shot:
    """Frames of half the size with noise, and what they were before both.

    Attributes:
        original: [T, 3, H, W] float32, 0 to 1.
        source: [T, 3, H / 2, W / 2].
        frames: As they were read.
    """

    original: Tensor
    source: Tensor
    frames: tuple[PlanarFrame, ...]


def _lite_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each shot, noise, treatment and steadiness."""
    for noise in _QUICK_NOISE if options.quick else _NOISE:
        for name, shot in _shots(noise, _QUICK_FRAMES if options.quick else _FRAMES):
            source = _flicker(shot.source, shot.source)
            about: Row = {"shot": name, "noise": noise, "still": f"{source.still:.0%}"}
            about["source flicker"] = source.levels
            for treatment in files.TREATMENTS:
                large = upscaler(_SCALE, treatment=treatment).upscale(shot.source)
                for steadiness in ("off", "mild"):
                    row: Row = {"treatment": treatment, "steadiness": steadiness}
                    yield about | row | _result(shot, large, steadiness)


def _shots(noise: float, frames: int) -> Iterator[tuple[str, _Shot]]:
    """The first frame of the sample film again and again, and its first frames."""
    media = probe(paths.resource("samples", "upreel_sample.mp4"))
    with FrameReader(media) as reader:
        found = tuple(islice(reader, frames))
    film = SourceColours(media.video, "cpu").rgb(found)[0].clamp(0, 1)
    for name, original in (("still", film[:1].expand_as(film)), ("moving", film)):
        random = torch.Generator().manual_seed(_SEED)
        small = F.avg_pool2d(original, _SCALE)
        grain = torch.randn(small.shape, generator=random) * noise
        noisy = (small * 255 + grain).round_().clamp_(0, 255).div_(255)
        yield name, _Shot(original=original, source=noisy, frames=found)


def _result(shot: _Shot, large: Tensor, steadiness: str) -> Row:
    """Flicker and PSNR of a result, and what its steadiness took."""
    row: Row = {}
    if steadiness != "off":
        timing = measure(lambda: _steadied(shot, large), runs=3, warm_ups=1)
        row["cpu_ms_a_frame"] = 1000 * timing.seconds / len(large)
        large = _steadied(shot, large)
    pairs = zip(map(_picture, shot.original), map(_picture, large), strict=True)
    found: Row = {"flicker": _flicker(large, shot.source).levels}
    found["psnr_db"] = float(np.mean([psnr(*pair) for pair in pairs]))
    return found | row


def _steadied(shot: _Shot, large: Tensor) -> Tensor:
    """The same frames blended with their neighbours."""
    steadying = Steadying()
    clip = EnlargedClip(
        first=0, frames=shot.frames, rgb=shot.source, alpha=None, large=large.clone()
    )
    return torch.cat([part.large for part in (*steadying.add(clip), *steadying.end())])


def _flicker(frames: Tensor, sources: Tensor) -> Flicker:
    found = Flicker()
    for frame, source in zip(frames, sources, strict=True):
        found.add(frame, source)
    return found


def _picture(frame: Tensor) -> Picture:
    """[3, H, W], 0 to 1, as uint8 [H, W, 3]."""
    return frame.mul(255).round_().clamp_(0, 255).byte().permute(1, 2, 0).contiguous().numpy()
