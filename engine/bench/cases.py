"""What can be measured: each case gives rows of figures."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from engine.bench.clip import make_clip
from engine.bench.measure import measure
from engine.bench.pipeline_case import run_pipeline
from engine.bench.report import Row, machine_row, speed
from engine.errors import SettingsError
from engine.geometry import Size
from engine.hardware import devices, features
from engine.media import MediaInfo
from engine.models import registry
from engine.plan import ModelPlan, PicturePlan
from engine.settings.schema import JobSettings
from engine.video import codecs
from engine.video.colour import from_rgb, spec_of_picture, spec_of_source, to_rgb
from engine.video.decode import FrameReader
from engine.video.encode import SegmentWriter
from engine.video.frames import PlanarFrame
from engine.video.probe import probe

SOURCE = Size(480, 270)
FRAMES = 240
QUICK_FRAMES = 96
CLIP = 2  # frames in one call, as the planner gives the model at this size


@dataclass(kw_only=True)
class Bench:
    """What the cases share: a folder, a film in it, and how thorough to be."""

    folder: Path
    quick: bool = False
    runs: int = field(init=False)

    def __post_init__(self) -> None:
        self.runs = 3 if self.quick else 7

    @cached_property
    def media(self) -> MediaInfo:
        """A film of 480x270 in H.264."""
        path = self.folder / "bench.mp4"
        make_clip(path, SOURCE, QUICK_FRAMES if self.quick else FRAMES)
        return probe(path)

    @cached_property
    def frames(self) -> list[PlanarFrame]:
        """The first frames of the film."""
        found = []
        with FrameReader(self.media) as reader:
            for frame in reader:
                found.append(frame)
                if len(found) == 48:
                    break
        return found

    def picture(self, codec: str, bit_depth: int = 0) -> PicturePlan:
        """How the planner would have the doubled film written."""
        settings = JobSettings(codec=codec, bit_depth=bit_depth)
        return codecs.plan_picture(self.media, settings, SOURCE.scaled(2), "mkv")


def run(
    cases: Sequence[str], *, quick: bool = False, tell: Callable[[str], None] = lambda _: None
) -> list[Row]:
    """Measure the named cases, all of them when none is named.

    Args:
        cases: Names out of CASES.
        quick: Fewer runs and sizes; all cases together take less than a minute.
        tell: Gets a line after each case.

    Raises:
        SettingsError: There is no such case.
    """
    unknown = [name for name in cases if name not in CASES]
    if unknown:
        raise SettingsError(
            f"There is no case {unknown[0]!r}.", hint=f"Choose among: {', '.join(CASES)}."
        )
    torch.set_num_threads(devices.cpu_threads())
    rows = [machine_row()]
    with tempfile.TemporaryDirectory(prefix="upreel-bench-") as folder:
        bench = Bench(folder=Path(folder), quick=quick)
        for name in dict.fromkeys(cases or CASES):
            with torch.inference_mode():
                rows += [{"case": name, **row} for row in CASES[name](bench)]
            tell(f"{name} measured")
    return rows


def _lite(bench: Bench) -> Iterator[Row]:
    """The model alone."""
    dtypes = ["float32", *(["bfloat16"] if features.cpu_has_bf16() else [])]
    devices_here = {"cpu": dtypes}
    if torch.cuda.is_available():
        devices_here["cuda"] = ["float32", "float16"]
    sizes = [SOURCE] if bench.quick else [SOURCE, Size(640, 360), Size(960, 540)]
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
    model = registry.build(plan)
    if model is None:
        raise TypeError("Lite is a model")
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
        "lite": JobSettings(scale=2, form="faithful"),
        "none": JobSettings(model="none", height=2 * SOURCE.height),
    }
    runs = 1 if bench.quick else 3
    for name, settings in wanted.items():
        found = [run_pipeline(bench.media, settings, bench.folder) for _ in range(runs)]
        found.sort(key=lambda row: float(row["cpu_ms_a_frame"]))
        yield {"model": name, "size": str(SOURCE.scaled(2)), **found[len(found) // 2]}


def _colour(bench: Bench) -> Iterator[Row]:
    """Code values to RGB and back."""
    source = spec_of_source(bench.media.video)
    planes = [torch.from_numpy(plane)[None] for plane in bench.frames[0].planes]
    back = measure(lambda: to_rgb(planes, source, "cpu"), runs=10 * bench.runs)
    yield {"what": f"to RGB, {SOURCE}, 8 bit 4:2:0"} | speed(back, 1)
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
    yield {"codec": bench.media.video.codec, "size": str(SOURCE)} | speed(
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
