"""Cases `lite`, `pipeline`, `colour`, `read`, `write` and `seedvr2-job`: jobs and their parts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine.bench.cases.runs import device_of
from engine.bench.clips import SyntheticClip, decode_all, encode
from engine.bench.options import BenchOptions
from engine.bench.random_model_files import write_seedvr2
from engine.bench.report.machine import Row
from engine.bench.timing.clock import Timing, measure
from engine.bench.timing.one_job import ThreadTimes, run_once
from engine.core.geometry import Size
from engine.core.messages import message
from engine.hardware import devices
from engine.models.lite import files
from engine.models.lite.upscaler import upscaler
from engine.pipeline.prepare import Machine, make_plan
from engine.protocol.media import MediaInfo
from engine.settings.schema import EngineSettings, JobSettings
from engine.video.colour.convert import colour_spec, from_rgb, to_rgb
from engine.video.read.frames import PlanarFrame

SOURCE = Size(480, 270)
FRAMES, QUICK_FRAMES = 240, 96
_SEEDVR2_CLIPS = {"cpu": (Size(64, 48), 5), "cuda": (SOURCE, 21)}
_WRITTEN_FRAMES = 48
_CLIP = 2  # frames in one call of Lite, as the planner has it at this size
_THREADS = {"MainThread": "device", "read": "read", "write": "write", "native": "codecs and torch"}


def lite_rows(options: BenchOptions) -> Iterator[Row]:
    """Lite alone."""
    dtypes = {"cpu": ["float32", *(["bfloat16"] if devices.cpu_has_bf16() else [])]}
    if torch.cuda.is_available():
        dtypes["cuda"] = ["float32", "float16"]
    for device, names in dtypes.items():
        for size in [SOURCE] if options.quick else [SOURCE, Size(640, 360), Size(960, 540)]:
            for scale in files.SCALES:
                for dtype in names:
                    yield _lite_row(options, size, scale, (device, dtype))


def _lite_row(options: BenchOptions, size: Size, scale: int, on: tuple[str, str]) -> Row:
    device, dtype = on
    model = upscaler(scale, device, dtype)
    frames = torch.rand(_CLIP, 3, size.height, size.width, device=device)

    def work() -> None:
        model.upscale(frames)
        if device == "cuda":
            torch.cuda.synchronize()

    row: Row = {"size": str(size), "scale": scale, "device": device, "dtype": dtype}
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

    `planned_s` is the time that the plan predicted for `wall_s`.
    """
    device = device_of(options)
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as name:
        clip = SyntheticClip(Path(name), *_SEEDVR2_CLIPS[device])
        settings = write_seedvr2(clip.folder, device=device)
        row = run_pipeline(clip.media, settings, clip.folder)
        note = message("bench.random-job")
        yield {"model": settings.model, "size": str(clip.size.scaled(2)), **row, "note": note}


def run_pipeline(media: MediaInfo, settings: JobSettings, folder: Path) -> Row:
    """Run one job as the command line does, without previews.

    Returns:
        Frames a second and CPU time a frame of everything, the time that was planned, then times
        of each step ("run_", "mux_", "verify_") and of each kind of thread.
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
    """Encoding alone, with the settings that a plan has."""
    with _clip(options) as clip:
        large = _enlarged(clip.frames(_WRITTEN_FRAMES))
        for codec in ("h264",) if options.quick else ("h264", "hevc", "av1", "ffv1"):
            picture = clip.picture(codec)
            frames = [[_deepened(plane, picture.bit_depth) for plane in frame] for frame in large]
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


def _deepened(plane: Any, bit_depth: int) -> Any:
    """Code values of 8 bits at another depth."""
    return plane if bit_depth == 8 else plane.astype("uint16") << (bit_depth - 8)
