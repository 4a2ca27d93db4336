"""Cases that need a film: Lite, reading, colours, writing, and the whole way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from engine.bench.cases.pipeline import run_pipeline
from engine.bench.cases.shared import Bench
from engine.bench.report.machine import Row, speed
from engine.bench.timing.stopwatch import measure
from engine.core.geometry import Size
from engine.hardware import devices
from engine.models import registry
from engine.protocol.plan import ModelPlan, PicturePlan
from engine.settings.schema import JobSettings
from engine.video.colour.convert import (
    from_rgb,
    spec_of_picture,
    spec_of_source,
    to_rgb,
)
from engine.video.read.decode import FrameReader
from engine.video.read.frames import PlanarFrame
from engine.video.write.encode import SegmentWriter

CLIP = 2  # frames in one call, as the planner gives the model at this size


def _lite(bench: Bench) -> Iterator[Row]:
    """The model alone."""
    dtypes = ["float32", *(["bfloat16"] if devices.cpu_has_bf16() else [])]
    devices_here = {"cpu": dtypes}
    if torch.cuda.is_available():
        devices_here["cuda"] = ["float32", "float16"]
    sizes = [bench.source] if bench.quick else [bench.source, Size(640, 360), Size(960, 540)]
    for device, types in devices_here.items():
        for size in sizes:
            for scale in registry.LITE.scales:
                for dtype in types:
                    yield _lite_row(bench, size, scale, (device, dtype))


def _lite_row(bench: Bench, size: Size, scale: int, where: tuple[str, str]) -> Row:
    device, dtype = where
    plan = ModelPlan(
        model="lite",
        scale=scale,
        weights=registry.LITE.weights_name(scale, "faithful"),
        device=device,
        dtype=dtype,
    )
    model = registry.lite(plan)
    frames = torch.rand(CLIP, 3, size.height, size.width, device=device)

    def work() -> None:
        model.upscale(frames)
        if device == "cuda":
            torch.cuda.synchronize()

    row: Row = {"size": str(size), "scale": scale, "device": device, "dtype": dtype}
    return row | speed(measure(work, runs=bench.runs, warm_ups=2), CLIP)


def _pipeline(bench: Bench) -> Iterator[Row]:
    """The whole way from file to verified file, with the model and without."""
    wanted: dict[str, Any] = {
        "lite": JobSettings(scale=2, treatment="faithful"),
        "none": JobSettings(model="none", height=2 * bench.source.height),
    }
    runs = 1 if bench.quick else 3
    for name, settings in wanted.items():
        found = [run_pipeline(bench.media, settings, bench.folder) for _ in range(runs)]
        found.sort(key=lambda row: float(row["cpu_ms_a_frame"]))
        yield {"model": name, "size": str(bench.source.scaled(2)), **found[len(found) // 2]}


def _colour(bench: Bench) -> Iterator[Row]:
    """Code values to RGB and back."""
    source = spec_of_source(bench.media.video)
    planes = [torch.from_numpy(plane)[None] for plane in bench.frames[0].planes]
    back = measure(lambda: to_rgb(planes, source, "cpu"), runs=10 * bench.runs)
    yield {"what": f"to RGB, {bench.source}, 8 bit 4:2:0"} | speed(back, 1)
    for codec, bit_depth in (("h264", 8), ("hevc", 10)):
        picture = bench.picture(codec, bit_depth)
        spec = spec_of_picture(picture)
        rgb = torch.rand(1, 3, picture.size.height, picture.size.width)
        there = measure(partial(from_rgb, rgb, spec), runs=10 * bench.runs)
        name = f"from RGB, {picture.size}, {picture.bit_depth} bit {picture.chroma}"
        yield {"what": name} | speed(there, 1)


def _read(bench: Bench) -> Iterator[Row]:
    """Decoding alone."""

    def work() -> None:
        with FrameReader(bench.media) as reader:
            for _ in reader:
                pass

    timing = measure(work, runs=bench.runs)
    yield {"codec": bench.media.video.codec, "size": str(bench.source)} | speed(
        timing, bench.media.video.frame_count
    )


def _write(bench: Bench) -> Iterator[Row]:
    """Encoding alone, at the settings that the planner chooses."""
    large = _enlarged(bench.frames)
    for codec in ("h264",) if bench.quick else ("h264", "hevc", "av1", "ffv1"):
        picture = bench.picture(codec)
        up = 0 if picture.bit_depth == 8 else picture.bit_depth - 8
        frames = [[_deeper(plane, up) for plane in frame] for frame in large]
        timing = measure(
            partial(_encode, bench.folder, picture, frames), runs=1 if bench.quick else 3
        )
        yield {
            "encoder": picture.encoder,
            "size": str(picture.size),
            "bits": picture.bit_depth,
        } | speed(timing, len(frames))


def _enlarged(frames: Sequence[PlanarFrame]) -> list[list[Any]]:
    """Twice as large and smooth, as the results of a model are."""
    found = []
    for frame in frames:
        planes = [torch.from_numpy(plane)[None, None].float() for plane in frame.planes]
        large = [
            torch.nn.functional.interpolate(plane, scale_factor=2, mode="bicubic")
            for plane in planes
        ]
        found.append([plane[0, 0].round().clamp(0, 255).byte().numpy() for plane in large])
    return found


def _deeper(plane: Any, bits: int) -> Any:
    return plane if bits == 0 else plane.astype("uint16") << bits


def _encode(folder: Path, picture: PicturePlan, frames: Sequence[Sequence[Any]]) -> None:
    with SegmentWriter(folder / "segment", picture) as writer:
        for index, planes in enumerate(frames):
            writer.write(planes, index)


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "lite": _lite,
    "pipeline": _pipeline,
    "colour": _colour,
    "read": _read,
    "write": _write,
}
