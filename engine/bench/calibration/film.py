"""What reading, Lite, colours, encoders and checking cost on this processor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from engine.bench.synthetic_clip import make_clip
from engine.bench.timing.one_job import run_once
from engine.bench.timing.unit_costs import Costs, cost_of
from engine.core.geometry import FrameSpan, Size
from engine.hardware import devices
from engine.hardware.budget import Budget
from engine.models import registry
from engine.pipeline.stages.restore import Restore
from engine.pipeline.stages.source import SourceColours
from engine.planner.plan_job import plan_job
from engine.planner.rates import Rates
from engine.planner.request import Request
from engine.protocol.media import MediaInfo
from engine.protocol.plan import ModelPlan, PicturePlan, Plan
from engine.settings.schema import JobSettings
from engine.video.colour.convert import from_rgb, spec_of_picture
from engine.video.read.decode import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe
from engine.video.write import codecs
from engine.video.write.encode import SegmentWriter

SIZE = Size(480, 270)  # of the film; results are twice as large
_FRAMES = 24
_SMALL = Size(96, 64)
_FEW, _MANY = 8, 104  # frames of the two small jobs
_BRIEF = 3  # frames of a segment that costs hardly more than its beginning
_CLIP = 2  # frames in one call of Lite, as the planner has it at this size
_CODECS = ("h264", "hevc", "av1", "prores", "ffv1")


@dataclass(frozen=True)
class Film:
    """A film of our own making in a folder, and how its results would be written."""

    folder: Path

    @cached_property
    def media(self) -> MediaInfo:
        """The film, H.264."""
        path = self.folder / "film.mp4"
        make_clip(path, SIZE, _FRAMES)
        return probe(path)

    @cached_property
    def frames(self) -> list[PlanarFrame]:
        """All of its frames."""
        with FrameReader(self.media) as reader:
            return list(reader)

    @cached_property
    def large(self) -> torch.Tensor:
        """Smooth results, as a model would make them: [T, 3, H, W]."""
        rgb, _ = SourceColours(self.media.video, "cpu").rgb(self.frames)
        size = (2 * SIZE.height, 2 * SIZE.width)
        return torch.nn.functional.interpolate(rgb, size=size, mode="bicubic").clamp_(0, 1)

    def plan(self, settings: JobSettings, output: Path, media: MediaInfo | None = None) -> Plan:
        """The plan of a job on the processor, whatever else this machine has."""
        return plan_on_processor(media or self.media, settings, output)

    def picture(self, codec: str) -> PicturePlan:
        """How a result twice as large would be written."""
        settings = JobSettings(codec=codec)
        return codecs.plan_picture(self.media, settings, SIZE.scaled(2), "mkv")


def plan_on_processor(
    media: MediaInfo, settings: JobSettings, output: Path, rates: Rates | None = None
) -> Plan:
    """A plan as the program makes it where no card is."""
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


Step = tuple[str, Callable[[], Costs]]


def steps(film: Film) -> Iterator[Step]:
    """What is done, in words, and the work that gives costs by their names in `rates.COSTS`."""
    yield "reading", lambda: _reading(film)
    for scale in registry.LITE.scales:
        yield f"Lite, {scale} times", partial(_lite, film, scale)
    yield "sizes and colours", lambda: _restoring(film)
    for codec in _CODECS:
        yield f"writing {codec}", partial(_writing, film, codec)
    yield "writing pictures", lambda: _pictures(film)
    yield "small jobs", lambda: _small_jobs(film)


def _reading(film: Film) -> Costs:
    colours = SourceColours(film.media.video, "cpu")

    def work() -> None:
        with FrameReader(film.media) as reader:
            for frame in reader:
                colours.rgb([frame])

    return {"read": cost_of(work, _megapixels(SIZE, _FRAMES))}


def _lite(film: Film, scale: int) -> Costs:
    dtype = "bfloat16" if devices.cpu_has_bf16() else "float32"
    plan = ModelPlan(
        model="lite",
        scale=scale,
        weights=registry.LITE.weights_name(scale, "faithful"),
        dtype=dtype,
    )
    model = registry.lite(plan)
    frames, _ = SourceColours(film.media.video, "cpu").rgb(film.frames[:_CLIP])
    cost = cost_of(lambda: model.upscale(frames), _megapixels(SIZE, _CLIP))
    return {f"lite-{scale}-{dtype}": cost}


def _restoring(film: Film) -> Costs:
    """Code values alone, then what another size costs more."""
    plan = film.plan(JobSettings(scale=2), film.folder / "result.mp4")
    restore = Restore(film.media.video, plan)
    small, _ = SourceColours(film.media.video, "cpu").rgb(film.frames[:_CLIP])
    units = _megapixels(SIZE.scaled(2), _CLIP)
    same = cost_of(lambda: restore.run(film.large[:_CLIP], None), units)
    other = cost_of(lambda: restore.run(small, None), units)
    return {"restore": same, "resize": max(other - same, same / 100)}


def _writing(film: Film, codec: str) -> Costs:
    """Opening a segment, encoding, and decoding the result again, which checking it does."""
    picture = film.picture(codec)
    frames, path = _planes(film, picture), film.folder / f"{codec}.mkv"
    brief = min(cost_of(partial(_encode, path, picture, frames[:_BRIEF]), 1, runs=1) for _ in "ab")
    whole = cost_of(partial(_encode, path, picture, frames), 1, runs=1)
    frame = max(whole - brief, whole / 4) / (len(frames) - _BRIEF)
    costs = {
        picture.encoder: frame / _megapixels(picture.size, 1),
        f"open-{picture.encoder}": max(whole - len(frames) * frame, 1e-3),
    }
    units = _megapixels(picture.size, len(frames))
    result = probe(path)

    def decode() -> None:
        with FrameReader(result) as reader:
            for _ in reader:
                pass

    return costs | {f"decode-{picture.encoder}": cost_of(decode, units, runs=2)}


def _pictures(film: Film) -> Costs:
    picture = codecs.plan_picture(film.media, JobSettings(), SIZE.scaled(2), "sequence")
    frames = _planes(film, picture)[:3]
    work = partial(_encode, film.folder / "pictures.zip", picture, frames)
    return {"png": cost_of(work, _megapixels(picture.size, len(frames)), runs=1)}


def _planes(film: Film, picture: PicturePlan) -> list[Any]:
    planes = [plane.numpy() for plane in from_rgb(film.large, spec_of_picture(picture))]
    return [tuple(plane[t] for plane in planes) for t in range(len(film.large))]


def _encode(path: Path, picture: PicturePlan, frames: list[Any]) -> None:
    path.unlink(missing_ok=True)
    writer = SegmentWriter(path, picture)
    for number, planes in enumerate(frames):
        writer.write(planes, number)
    writer.close()


def _small_jobs(film: Film) -> Costs:
    """What every job and every frame takes whatever its size, then checking a larger result."""
    source = film.folder / "small.mp4"
    make_clip(source, _SMALL, _MANY)
    media = probe(source)
    whole = film.plan(JobSettings(model="none"), film.folder / "small_result.mp4", media)
    few = replace(whole, span=FrameSpan(0, _FEW), stop=_FEW / whole.picture.frame_rate)
    run_once(media, few, film.folder)  # loads what is loaded once
    short, long = (_quickest(media, plan, film.folder) for plan in (few, whole))
    each = {
        name: max(long[name] - short[name], 1e-3) / (_MANY - _FEW) for name in ("run", "verify")
    }
    start = max(sum(short.values()) - _FEW * sum(each.values()), 0.02)
    settings = JobSettings(model="none", height=2 * SIZE.height)
    large = film.plan(settings, film.folder / "checked.mp4")
    spent = _quickest(film.media, large, film.folder)["verify"] - _FRAMES * each["verify"]
    units = _megapixels(large.picture.size, _FRAMES)
    return {
        "start": start,
        "frame": each["run"],
        "check": each["verify"],
        "verify": max(spent / units, 1e-3),
    }


def _quickest(media: MediaInfo, plan: Plan, folder: Path) -> dict[str, float]:
    """CPU seconds of the steps of a job, the less disturbed of two runs."""
    found = [run_once(media, plan, folder) for _ in range(2)]
    best = min(found, key=lambda ran: ran.cpu_s)
    return {name: step.cpu_s for name, step in best.steps.items()}


def _megapixels(size: Size, frames: int) -> float:
    return size.pixels * frames / 1e6
