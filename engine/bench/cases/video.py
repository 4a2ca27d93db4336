"""Cases with frames of videos: whole jobs, their parts, and flicker.

`lite`, `colour`, `read` and `write` measure parts of jobs, `pipeline`, `seedvr2-job` and `streams`
whole jobs. `streams` compares SeedVR2 in tiles with the same job on whole frames, with random
weights on the CPU; copies of carries to a GPU and back are not measured.
`flicker` measures the change from frame to frame where the source stands still.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.accuracy import Flicker, picture_of, psnr
from engine.bench.jobs import RATE, SyntheticClip, ThreadTimes, decode_all, encode, run_once
from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import Timing, measure
from engine.bench.workload import device_of, write_seedvr2
from engine.core import paths
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.messages import message
from engine.hardware import devices
from engine.models.lite import files
from engine.models.lite.upscaler import upscaler
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.requirements import stage_work
from engine.pipeline.prepare import Machine, make_plan
from engine.pipeline.stages.restore import SourceColours
from engine.pipeline.stages.steady import EnlargedClip, Steadying
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.colour import colour_spec, from_rgb, to_rgb
from engine.video.read.frame_reader import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.read.probe import probe

SOURCE = Size(480, 270)
FRAMES, QUICK_FRAMES = 240, 96
_SEEDVR2_CLIPS = {"cpu": (Size(64, 48), 5), "cuda": (SOURCE, 21)}
# Sources of ten seconds for a GPU, the largest first; the first one
# whose job is predicted to take no longer than `_MOST_JOB_S` is measured.
_TEN_SECONDS = tuple(Size(width, width * 9 // 16) for width in (960, 640, 480, 320, 256))
_MOST_JOB_S = 50.0
_WRITTEN_FRAMES = 48
_CLIP = 2  # frames in one call of Lite, as the planner has it at this size
_THREADS = {"MainThread": "device", "read": "read", "write": "write", "native": "codecs and torch"}
_STREAM_SIZE, _STREAM_FRAMES, _QUICK_STREAM_FRAMES = Size(240, 128), 29, 21
_STREAM_CLIP = 3  # latents
_STREAM_PARTS = 8  # the VAE has 1 / 8 of the published channels
_TILE = {"encode_tile": Size(256, 288), "decode_tile": Size(296, 288)}
_SPAN = {"encode_span": 4, "decode_span": 4}
_WHOLE = "whole frames"
_STREAMS: dict[str, dict[str, Any]] = {
    _WHOLE: {"encode_tile": None, "decode_tile": None},
    "tiles, one span": {**_TILE, "encode_span": 100, "decode_span": 100},
    "tiles, spans of 4, carries stay": {**_TILE, **_SPAN},
    "tiles, spans of 4, early": {**_TILE, **_SPAN, "warm_up": 2},
    "all in tiles, spans of 4": {**_TILE, **_SPAN, "decodes_whole_tiles": True},
}
_SCALE = 2
_FLICKER_FRAMES, _QUICK_FLICKER_FRAMES = 24, 6
_NOISE, _QUICK_NOISE = (2.0, 5.0), (5.0,)  # standard deviation, 8-bit levels
_SEED = 20260101


def lite_rows(options: BenchOptions) -> Iterator[Row]:
    """Lite and Lite Plus alone."""
    dtypes = {"cpu": ["float32", *(["bfloat16"] if devices.cpu_has_bf16() else [])]}
    if torch.cuda.is_available():
        dtypes["cuda"] = ["float32", "float16"]
    for device, names in dtypes.items():
        sizes = [SOURCE] if options.quick else [SOURCE, Size(640, 360), Size(960, 540)]
        for file in (one for one in files.FILES if one.treatment == "faithful"):
            for size, dtype in product(sizes, names):
                yield _lite_row(options, size, file, (device, dtype))


def _lite_row(
    options: BenchOptions, size: Size, file: files.WeightsFile, on: tuple[str, str]
) -> Row:
    device, dtype = on
    model = upscaler(file, device, dtype)
    frames = torch.rand(_CLIP, 3, size.height, size.width, device=device)

    def work() -> None:
        model.upscale(frames)
        if device == "cuda":
            torch.cuda.synchronize()

    row: Row = {"model": file.model, "size": str(size), "scale": file.scale}
    row |= {"device": device, "dtype": dtype}
    return row | _speed(measure(work, runs=_runs(options), warm_ups=2), _CLIP)


def pipeline_rows(options: BenchOptions) -> Iterator[Row]:
    """Whole jobs from source to verified result, with Lite and without a model."""
    jobs: dict[str, Any] = {
        "lite": JobSettings(model="lite", scale=2, treatment="faithful"),
        "none": JobSettings(model="none", height=2 * SOURCE.height),
    }
    with _clip(options) as clip:
        for name, settings in jobs.items():
            runs = range(1 if options.quick else 3)
            found = [run_pipeline(clip.media, settings, clip.folder) for _ in runs]
            found.sort(key=lambda row: float(row["cpu_ms_a_frame"]))
            yield {"model": name, "size": str(SOURCE.scaled(2)), **found[len(found) // 2]}


def seedvr2_job_rows(options: BenchOptions) -> Iterator[Row]:
    """A whole job with SeedVR2 3B whose files have random weights; see `write_seedvr2`.

    On a GPU the video has ten seconds: a row for each size has the predicted time, the last one
    the real time of the largest size that takes less than a minute by its plan. `planned_s` is the
    time that the plan predicted for `wall_s`.
    """
    device = device_of(options)
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as name:
        clip = SyntheticClip(Path(name), *_SEEDVR2_CLIPS[device])
        settings = write_seedvr2(clip.folder, device=device)
        if device == "cuda" and not options.quick:
            planned = _ten_seconds(clip, settings)
            for size, seconds in planned.items():
                yield {"model": settings.model, "size": str(size.scaled(2)), "planned_s": seconds}
            short = [size for size, seconds in planned.items() if seconds <= _MOST_JOB_S]
            clip = replace(clip, size=(*short, _TEN_SECONDS[-1])[0], frame_count=FRAMES)
        row = run_pipeline(clip.media, settings, clip.folder)
        note = message("bench.random-job")
        about = {"size": str(clip.size.scaled(2)), "frames": clip.frame_count}
        yield {"model": settings.model, **about, **row, "note": note}


def _ten_seconds(clip: SyntheticClip, settings: JobSettings) -> dict[Size, float]:
    """Predicted seconds of ten seconds of video by the size of the source."""
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=clip.folder)
    found, video = dict[Size, float](), clip.media.video
    for size in _TEN_SECONDS:
        other = replace(video, size=size, frame_count=FRAMES, duration=Fraction(FRAMES, RATE))
        media = replace(clip.media, video=other)
        found[size] = make_plan(media, settings, clip.folder / "result.mp4", machine).seconds
    return found


def run_pipeline(media: MediaInfo, settings: JobSettings, folder: Path) -> Row:
    """Run one job as the command line does, without previews.

    Returns:
        Frames per second and CPU time per frame of the whole job, its predicted time, then times of
        each step ("run_", "mux_", "verify_") and of each kind of thread.
    """
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=folder)
    plan = make_plan(media, settings, folder / "result.mp4", machine)
    with ThreadTimes() as threads:
        job = run_once(media, plan, folder)
    frames = job.report.frames_out
    row: Row = {
        "dtype": job.plan.work.dtype,
        "frames_per_second": frames / job.wall_s,
        "cpu_ms_a_frame": 1000 * job.cpu_s / frames,
        "wall_s": job.wall_s,
        "planned_s": plan.seconds,
    }
    row |= {f"{name}_cpu_ms": 1000 * step.cpu_s / frames for name, step in job.steps.items()}
    row |= {f"{name}_wall_ms": 1000 * step.wall_s / frames for name, step in job.steps.items()}
    for name, title in _THREADS.items():
        row[f"thread {title} ms"] = 1000 * threads.seconds.get(name, 0.0) / frames
    failed = [check.code for check in job.report.checks if not check.passed]
    return row | {"verified": job.report.passed, "failed_checks": ", ".join(failed)}


def colour_rows(options: BenchOptions) -> Iterator[Row]:
    """Code values to RGB and back."""
    runs = 10 * _runs(options)
    with _clip(options) as clip:
        source = colour_spec(clip.media.video)
        planes = [torch.from_numpy(plane)[None] for plane in clip.frames(1)[0].planes]
        timing = measure(lambda: to_rgb(planes, source, "cpu"), runs=runs, warm_ups=1)
        yield {"what": f"to RGB, {SOURCE}, 8 bit 4:2:0"} | _speed(timing, 1)
        for codec, bit_depth in (("h264", 8), ("hevc", 10)):
            picture = clip.picture(codec, bit_depth)
            spec = colour_spec(picture)
            rgb = torch.rand(1, 3, picture.size.height, picture.size.width)
            timing = measure(partial(from_rgb, rgb, spec), runs=runs, warm_ups=1)
            name = f"from RGB, {picture.size}, {picture.bit_depth} bit {picture.chroma}"
            yield {"what": name} | _speed(timing, 1)


def read_rows(options: BenchOptions) -> Iterator[Row]:
    """Decoding alone."""
    with _clip(options) as clip:
        video = clip.media.video
        timing = measure(partial(decode_all, clip.media), runs=_runs(options), warm_ups=1)
        yield {"codec": video.codec, "size": str(SOURCE)} | _speed(timing, video.frame_count)


def write_rows(options: BenchOptions) -> Iterator[Row]:
    """Encoding alone, with the options of a plan."""
    with _clip(options) as clip:
        large = _enlarged(clip.frames(_WRITTEN_FRAMES))
        for codec in ("h264",) if options.quick else ("h264", "hevc", "av1", "ffv1"):
            picture = clip.picture(codec)
            shift = picture.bit_depth - 8
            frames = [
                [plane.astype("uint16") << shift if shift else plane for plane in frame]
                for frame in large
            ]
            work = partial(encode, clip.folder / "segment", picture, frames)
            timing = measure(work, runs=1 if options.quick else 3, warm_ups=1)
            row = {"encoder": picture.encoder, "size": str(picture.size), "bits": picture.bit_depth}
            yield row | _speed(timing, len(frames))


@contextmanager
def _clip(options: BenchOptions) -> Iterator[SyntheticClip]:
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as folder:
        yield SyntheticClip(Path(folder), SOURCE, QUICK_FRAMES if options.quick else FRAMES)


def _runs(options: BenchOptions) -> int:
    return 3 if options.quick else 7


def _speed(timing: Timing, frames: int) -> Row:
    return {
        "frames_per_second": frames / timing.wall_s,
        "cpu_ms_a_frame": 1000 * timing.seconds / frames,
    }


def _enlarged(frames: Sequence[PlanarFrame]) -> list[list[Any]]:
    """Planes at 2x the size and smooth, as the results of a model are."""
    found = []
    for frame in frames:
        planes = [torch.from_numpy(plane)[None, None].float() for plane in frame.planes]
        large = [
            torch.nn.functional.interpolate(plane, scale_factor=2, mode="bicubic")
            for plane in planes
        ]
        found.append([plane[0, 0].round().clamp(0, 255).byte().numpy() for plane in large])
    return found


# --- streams


def stream_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each stream.

    `time` and `operations` are ratios to whole frames, of CPU time of the whole job and of the
    operations of encoder, transformer and decoder; `time_of_operations` is the first over the
    second.
    """
    frames = _QUICK_STREAM_FRAMES if options.quick else _STREAM_FRAMES
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as name:
        clip = SyntheticClip(Path(name), _STREAM_SIZE, frames)
        plan, work = _stream_plan(clip, options)
        works = {title: replace(work, **changes) for title, changes in _STREAMS.items()}
        seconds: dict[str, list[float]] = {title: [] for title in works}

        def run(title: str) -> float:
            job = replace(plan, work=works[title])
            return run_once(clip.media, job, clip.folder).cpu_s

        run(_WHOLE)  # warm-up: torch selects convolutions, files get into the cache
        for _ in range(options.rounds(3)):
            for title, found in seconds.items():
                found.append(run(title))
        most = _operations(works[_WHOLE], frames)
        base = statistics.median(seconds[_WHOLE])
        for title, found in seconds.items():
            time = statistics.median(found) / base
            operations = _operations(works[title], frames) / most
            yield {
                "stream": title,
                "cpu_s": base * time,
                "time": time,
                "operations": operations,
                "time_of_operations": time / operations,
            }


def _stream_plan(clip: SyntheticClip, options: BenchOptions) -> tuple[Plan, SeedVr2Plan]:
    """The plan of the job, and its work plan, in which `_STREAMS` replaces tiles and spans."""
    settings = write_seedvr2(clip.folder, codec="ffv1", parts=_STREAM_PARTS)
    machine = Machine(settings=EngineSettings(tile_previews=False), jobs_folder=clip.folder)
    plan = make_plan(clip.media, settings, clip.folder / "result.mkv", machine)
    work, threads = plan.work, options.threads or torch.get_num_threads()
    assert isinstance(work, SeedVr2Plan)
    return plan, replace(work, threads=threads, clip=_STREAM_CLIP, shared=1, warm_up=0)


def _operations(work: SeedVr2Plan, frames: int) -> float:
    return sum(made.operations for made in stage_work(work, frames).values())


# --- flicker


def flicker_rows(options: BenchOptions) -> Iterator[Row]:
    """Flicker of a result next to its source; without one, of built-in models on the sample."""
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
    """Frames of a video as [3, H, W] float32, nominally 0 to 1, one by one."""
    media = probe(path)
    colours = SourceColours(media.video, "cpu")
    with FrameReader(media) as reader:
        for frame in reader:
            yield colours.rgb([frame])[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shot:
    """A shot, and the same at half the size with noise."""

    original: Tensor  # [T, 3, H, W] float32, 0 to 1
    source: Tensor  # [T, 3, H / 2, W / 2]
    frames: tuple[PlanarFrame, ...]  # frames in their order in the file


def _lite_rows(options: BenchOptions) -> Iterator[Row]:
    """Rows for each shot, noise level, model, treatment and steadiness; Lite alone if quick."""
    models = ["lite"] if options.quick else files.MODELS
    tried = [one for one in files.FILES if one.model in models and one.scale == _SCALE]
    for noise in _QUICK_NOISE if options.quick else _NOISE:
        for name, shot in _shots(
            noise, _QUICK_FLICKER_FRAMES if options.quick else _FLICKER_FRAMES
        ):
            source = _flicker(shot.source, shot.source)
            about: Row = {"shot": name, "noise": noise, "still": f"{source.still:.0%}"}
            about["source flicker"] = source.levels
            for file in tried:
                large = _shot_enlarged(file, shot.source)
                for steadiness in ("off", "mild"):
                    row: Row = {"model": file.model, "treatment": file.treatment}
                    row["steadiness"] = steadiness
                    yield about | row | _result(shot, large, steadiness)


def _shot_enlarged(file: files.WeightsFile, frames: Tensor) -> Tensor:
    """A shot [T, 3, H, W], in which each frame sees those beside it where the network does."""
    near = []
    if files.config_of(file.name).frames > 1:
        near = [torch.cat([frames[:1], frames[:-1]]), torch.cat([frames[1:], frames[-1:]])]
    parts = zip(*(torch.split(one, _CLIP) for one in (frames, *near)), strict=True)
    model = upscaler(file)
    return torch.cat([model.upscale(*part) for part in parts])


def _shots(noise: float, frames: int) -> Iterator[tuple[str, _Shot]]:
    """A still shot (the first frame of the sample video, repeated) and a moving one."""
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
    """Flicker and PSNR of a result, and the CPU time of its steadiness."""
    row: Row = {}
    if steadiness != "off":
        timing = measure(lambda: _steadied(shot, large), runs=3, warm_ups=1)
        row["cpu_ms_a_frame"] = 1000 * timing.seconds / len(large)
        large = _steadied(shot, large)
    pairs = zip(map(picture_of, shot.original), map(picture_of, large), strict=True)
    found: Row = {"flicker": _flicker(large, shot.source).levels}
    found["psnr_db"] = float(np.mean([psnr(*pair) for pair in pairs]))
    return found | row


def _steadied(shot: _Shot, large: Tensor) -> Tensor:
    """Frames blended with their neighbours."""
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
