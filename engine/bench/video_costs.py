"""Costs of reading, Lite, colours, encoders and verification on this CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine.bench.jobs import SyntheticClip, decode_all, encode, make_clip, run_once
from engine.bench.timing import Costs, Step, cost_of
from engine.core.geometry import FrameSpan, Size
from engine.core.messages import message
from engine.hardware import devices
from engine.hardware.budget import Budget
from engine.models.lite import files
from engine.models.lite.upscaler import upscaler
from engine.pipeline.stages.restore import Restore, SourceColours
from engine.pipeline.stages.steady import EnlargedClip, Steadying
from engine.planner.plan_job import Request, plan_job
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo
from engine.protocol.plan import PicturePlan, Plan
from engine.settings.schema import CODECS, JobSettings
from engine.video.colour import colour_spec, from_rgb
from engine.video.read.frame_reader import FrameReader
from engine.video.read.probe import probe

SIZE = Size(480, 270)  # of the video; results have 2x the size
_FRAMES = 24
_SMALL = Size(96, 64)
_FEW, _MANY = 8, 104  # frames of the two small jobs
_BRIEF = 3  # frames of a segment that costs hardly more than opening it
_CLIP = 2  # frames in one call of Lite, as the planner has it at this size
_CODECS = CODECS[1:]  # all but "auto"


def plan_on_cpu(
    media: MediaInfo, settings: JobSettings, output: Path, rates: Rates | None = None
) -> Plan:
    """The plan of a job on a computer without a GPU."""
    _, free = devices.ram()
    budget = Budget(
        ram_bytes=free,
        threads=torch.get_num_threads(),
        has_fast_bf16=devices.cpu_has_bf16(),
        free_output_bytes=2**40,
        free_jobs_bytes=2**40,
    )
    request = Request(media=media, settings=settings, output=output)
    return plan_job(request, budget, rates or Rates())


def steps(folder: Path) -> Iterator[Step]:
    """Names of the steps, and work that returns costs by their names in `rates.COSTS`."""
    clip = SyntheticClip(folder, SIZE, _FRAMES)
    yield message("bench.step.read"), partial(_read, clip)
    for scale in files.SCALES:
        yield message("bench.step.lite-at-scale", scale=scale), partial(_lite, clip, scale)
    yield message("bench.step.restore"), partial(_restore, clip)
    for codec in _CODECS:
        yield message("bench.step.write", codec=codec), partial(_write, clip, codec)
    yield message("bench.step.pictures"), partial(_write_pictures, clip)
    yield message("bench.step.small-jobs"), partial(_small_jobs, clip)


def _read(clip: SyntheticClip) -> Costs:
    colours = SourceColours(clip.media.video, "cpu")

    def work() -> None:
        with FrameReader(clip.media) as reader:
            for frame in reader:
                colours.rgb([frame])

    return {"read": cost_of(work, _megapixels(SIZE, _FRAMES))}


def _lite(clip: SyntheticClip, scale: int) -> Costs:
    dtype = "bfloat16" if devices.cpu_has_bf16() else "float32"
    file = files.WeightsFile("lite", scale, "faithful")
    model, frames = upscaler(file, dtype=dtype), _rgb(clip, _CLIP)
    cost = cost_of(lambda: model.upscale(frames), _megapixels(SIZE, _CLIP))
    return {f"lite-{scale}-{dtype}": cost}


def _restore(clip: SyntheticClip) -> Costs:
    """RGB to code values alone, the additional costs of other sizes, then blending of frames."""
    small = _rgb(clip, _CLIP)
    large, units = _enlarged(small), _megapixels(SIZE.scaled(2), _CLIP)
    same, enlarged, reduced = (
        cost_of(partial(_restore_to(clip, scale).run, frames, None), units)
        for scale, frames in ((2, large), (2, small), (1, large))
    )
    return {
        "restore": same,
        "resize": max(enlarged - same, same / 100),
        "reduce": max(reduced - same / 4, same / 100),
        "steady": _steady(clip, small, large),
    }


def _restore_to(clip: SyntheticClip, scale: int) -> Restore:
    settings = JobSettings(model="none", height=scale * SIZE.height)
    return Restore(clip.media.video, plan_on_cpu(clip.media, settings, clip.folder / "result.mp4"))


def _steady(clip: SyntheticClip, small: torch.Tensor, large: torch.Tensor) -> float:
    """Two neighbours, of which one result waits for the next frame."""
    frames = tuple(clip.frames(_CLIP))
    pair = EnlargedClip(first=0, frames=frames, rgb=small, alpha=None, large=large)
    return cost_of(lambda: Steadying().add(pair), _megapixels(SIZE.scaled(2), _CLIP - 1))


def _write(clip: SyntheticClip, codec: str) -> Costs:
    """Opening a segment, encoding, and decoding the result again for verification."""
    picture, path = clip.picture(codec), clip.folder / f"{codec}.mkv"
    frames = _planes(clip, picture)
    brief = min(cost_of(partial(encode, path, picture, frames[:_BRIEF]), 1, runs=1) for _ in "ab")
    whole = cost_of(partial(encode, path, picture, frames), 1, runs=1)
    frame = max(whole - brief, whole / 4) / (len(frames) - _BRIEF)
    units = _megapixels(picture.size, len(frames))
    return {
        picture.encoder: frame / _megapixels(picture.size, 1),
        f"open-{picture.encoder}": max(whole - len(frames) * frame, 1e-3),
        f"decode-{picture.encoder}": cost_of(partial(decode_all, probe(path)), units, runs=2),
    }


def _write_pictures(clip: SyntheticClip) -> Costs:
    picture = clip.picture("auto", container="sequence")
    frames = _planes(clip, picture)[:3]
    work = partial(encode, clip.folder / "pictures.zip", picture, frames)
    return {"png": cost_of(work, _megapixels(picture.size, len(frames)), runs=1)}


def _small_jobs(clip: SyntheticClip) -> Costs:
    """Costs of a job and of a frame of any size, then of verifying a larger result."""
    source = clip.folder / "small.mp4"
    make_clip(source, _SMALL, _MANY)
    media = probe(source)
    whole = plan_on_cpu(media, JobSettings(model="none"), clip.folder / "small_result.mp4")
    few = replace(whole, span=FrameSpan(0, _FEW), stop=_FEW / whole.picture.frame_rate)
    run_once(media, few, clip.folder)  # modules and codecs are loaded
    short, long = (_fastest(media, plan, clip.folder) for plan in (few, whole))
    each = {
        name: max(long[name] - short[name], 1e-3) / (_MANY - _FEW) for name in ("run", "verify")
    }
    start = max(sum(short.values()) - _FEW * sum(each.values()), 0.02)
    settings = JobSettings(model="none", height=2 * SIZE.height)
    large = plan_on_cpu(clip.media, settings, clip.folder / "checked.mp4")
    verified = _fastest(clip.media, large, clip.folder)["verify"] - _FRAMES * each["verify"]
    units = _megapixels(large.picture.size, _FRAMES)
    return {
        "start": start,
        "frame": each["run"],
        "check": each["verify"],
        "verify": max(verified / units, 1e-3),
    }


def _fastest(media: MediaInfo, plan: Plan, folder: Path) -> dict[str, float]:
    """CPU seconds of the steps of a job, from the faster of two runs."""
    jobs = [run_once(media, plan, folder) for _ in range(2)]
    best = min(jobs, key=lambda job: job.cpu_s)
    return {name: step.cpu_s for name, step in best.steps.items()}


def _rgb(clip: SyntheticClip, most: int | None = None) -> torch.Tensor:
    """First frames of the video: [T, 3, H, W] in [0, 1]."""
    rgb, _ = SourceColours(clip.media.video, "cpu").rgb(clip.frames(most))
    return rgb


def _enlarged(rgb: torch.Tensor) -> torch.Tensor:
    """Smooth frames of 2x the size, like the results of a model."""
    size = (2 * SIZE.height, 2 * SIZE.width)
    return torch.nn.functional.interpolate(rgb, size=size, mode="bicubic").clamp_(0, 1)


def _planes(clip: SyntheticClip, picture: PicturePlan) -> Sequence[Sequence[Any]]:
    """Code values of all results."""
    rgb = _enlarged(_rgb(clip))
    planes = [plane.numpy() for plane in from_rgb(rgb, colour_spec(picture))]
    return [tuple(plane[t] for plane in planes) for t in range(len(rgb))]


def _megapixels(size: Size, frames: int) -> float:
    return size.pixels * frames / 1e6
