"""Measurements by users of other programs with plans for the same work, and those of an H100.

`user_measurements.toml` has the reports.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from engine.core.geometry import Size
from engine.core.serialization import from_plain
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import GIB, GpuSpec
from engine.models import registry
from engine.models.contracts import StageWork
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.cost import DitUse, forward_flops, forward_passes
from engine.models.seedvr2.files import TEXT_TOKENS
from engine.models.seedvr2.plan import STEP, SeedVr2Plan, latents_of
from engine.models.seedvr2.requirements import stage_work
from engine.models.seedvr2.vae.config import VAE
from engine.models.seedvr2.vae_memory import VAES
from engine.models.video_vae.vae_use import VaeUse
from engine.planner import gpu_speed, times
from engine.planner.gpu_speed import Shares
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import Plan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings
from tools.reports.plan_table import RAM_GIB, SHARE, nothing_here

_ALIGN = 16  # px: the model takes multiples of it
_RATE = 25
# Predicted over reported time of each run in the version whose shares were fitted to such reports.
BEFORE = (
    *(1.15, 1.23, 0.93, 0.92, 0.61, 0.59, 0.79, 0.96, 0.73, 0.31),
    *(0.28, 0.22, 0.52, 0.49, 0.09, 0.19, 2.76, 0.10, 0.11, 0.70, 1.05),
)
# Seconds that an H100 took, docs/benchmarks/h100.md, with random weights of the published sizes.
H100_TIMES = (
    ("encode", 5, Size(848, 480), 0.0436),
    ("encode", 5, Size(1280, 720), 0.0973),
    ("encode", 5, Size(1920, 1080), 0.236),
    ("encode", 9, Size(1920, 1088), 0.433),
    ("decode", 5, Size(848, 480), 0.0803),
    ("decode", 5, Size(1280, 720), 0.173),
    ("decode", 5, Size(1920, 1080), 0.411),
    ("decode", 9, Size(1920, 1088), 0.785),
    ("3B", 5, Size(1280, 720), 0.0731),
    ("3B", 9, Size(1920, 1088), 0.244),
)
# Seconds of a forward of the 3B there by the format of its products: 5 frames of 1280x720.
H100_FORMATS = {"none": 0.0731, "fp8": 0.152, "int8": 0.142}
_H100_SHARES = Shares(convolutions=0.67, products=0.67, single_head=0.11, bandwidth=0.7)
_H100 = {"form_factor": "server", "half_flops": 989e12, "bandwidth": 3.35e12}


def h100_seconds(part: str, frames: int, size: Size) -> float:
    """Seconds counted for a clip in whole frames on an H100, nothing added to its parts."""
    gpu = replace(gpu_table.gpu_specs()[-1], **_H100)
    if part == "3B":
        stage = replace(_forward(frames, size, "none"), launches=0.0)
    else:
        use = VaeUse(device="cuda", dtype="float16")
        made = VAES.work(VAE, f"{part}_slice", use, size).total(frames, STEP)
        stage = StageWork(
            kind="vae",
            dtype="float16",
            operations=made.operations,
            products=made.products,
            passed_bytes=made.passed,
        )
    return gpu_speed.compute_seconds(gpu, stage, _H100_SHARES) / gpu_speed.UNCOUNTED


def h100_forward(products: str) -> float:
    """Seconds that are predicted for a forward with a format of products on an H100."""
    stage = _forward(5, Size(1280, 720), products)
    gpu = replace(gpu_table.named("RTX 4090"), **_H100)  # of a generation that has fp8
    return gpu_speed.compute_seconds(gpu, stage, _H100_SHARES)


def _forward(frames: int, size: Size, products: str) -> StageWork:
    """A clip through the 3B in bfloat16, or with products in another format."""
    grid = (latents_of(frames), size.height // 8, size.width // 8)
    flops = forward_flops(DIT_3B, grid, TEXT_TOKENS)
    passes = forward_passes(DIT_3B, grid, DitUse(dtype="bfloat16", products=products))
    return StageWork(
        kind="transformer",
        dtype="bfloat16",
        operations=flops.total,
        products=flops.total,
        narrow=flops.linear - flops.ends if products != "none" else 0.0,
        narrow_format=products,
        attended=flops.attention,
        is_counted=True,
        passed_bytes=passes.moved,
        launches=passes.launches,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measurement by a user.

    Attributes:
        row: Number of the report.
        source: Place of its publication.
        size: Size of the result.
        batch: Frames that the model took at a time.
        seconds: Measured time.
        ram_gib: RAM; an assumption if the source does not state it.
        tile: px of the VAE's tiles; 0 for whole frames.
        overlap: px that tiles share.
        is_loaded: A service had loaded the model before.
        assumed: Values that the source does not state.
        outlier: Reason why it does not show the speed of the GPU, a key of _OUTLIERS; or "".
    """

    row: int
    source: str
    gpu: str
    model: str
    source_size: Size
    size: Size
    frames: int
    batch: int
    seconds: float
    ram_gib: int = RAM_GIB
    precision: str = "auto"
    tile: int = 0
    overlap: int = 0
    is_loaded: bool = False
    assumed: str = ""
    outlier: str = ""

    @property
    def operations(self) -> float:
        """Operations of the published data flow without folds; overlaps are computed twice."""
        width, height = (
            -(-side // _ALIGN) * _ALIGN for side in (self.size.width, self.size.height)
        )
        size, use = Size(width, height), VaeUse(switches=VaeSwitches.all_off())
        padded = STEP * (latents_of(self.batch) - 1) + 1
        coders = (VAES.work(VAE, f"{side}_slice", use, size) for side in ("encode", "decode"))
        vae = sum(one.total(padded, STEP).operations for one in coders)
        in_tiles = self._covered(width) * self._covered(height) / size.pixels
        dit = DIT_3B if self.model == "seedvr2-3b" else DIT_7B
        grid = (latents_of(self.batch), height // VAE.spatial_factor, width // VAE.spatial_factor)
        of_batch = in_tiles * vae + forward_flops(dit, grid, TEXT_TOKENS).total
        return of_batch * self.frames / self.batch

    def _covered(self, side: int) -> int:
        """Sum of the lengths of all tiles along a side."""
        if not self.tile:
            return side
        starts = range(0, max(1, side - self.overlap), self.tile - self.overlap)
        return sum(min(self.tile, side - start) for start in starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A run, and our plan for the same work."""

    run: Run
    gpu: GpuSpec
    plan: Plan

    @property
    def before(self) -> float:
        """Seconds before the work that the reported time has no part of."""
        return times.fixed_seconds(self.plan, Rates()) if self.run.is_loaded else 0.0

    @property
    def ratio(self) -> float:
        """Predicted over reported time."""
        return (self.plan.seconds - self.before) / self.run.seconds

    @property
    def work(self) -> float:
        """Operations of our plan over those of the run."""
        assert isinstance(self.plan.work, SeedVr2Plan)
        found = stage_work(self.plan.work, self.plan.frames).values()
        return sum(one.operations for one in found) / self.run.operations

    @property
    def kernel_seconds(self) -> float | None:
        """Predicted seconds with our convolution kernel; None where it gains nothing.

        The GPU takes longest in all of these jobs, so all that it saves is saved.
        """
        if not self.gpu.is_geforce:
            return None
        family, saved = registry.family_of(self.plan.work), 0.0
        for stage in family.stage_work(self.plan.work, self.plan.frames).values():
            saved += gpu_speed.compute_seconds(self.gpu, stage)
            saved -= gpu_speed.compute_seconds(self.gpu, stage, case="best")
        return self.plan.seconds - self.before - saved

    @property
    def scaled(self) -> float:
        """Predicted time over the reported one for as many operations."""
        return self.ratio / self.work

    @property
    def is_held(self) -> bool:
        """Whether the reported time for as many operations lies in the predicted range."""
        aim = self.before + self.run.seconds * self.work
        return self.plan.seconds_low <= aim <= self.plan.seconds_high

    @property
    def pace(self) -> float:
        """Share of what the GPU's matrix units do at most, that the run reached."""
        return self.run.operations / self.run.seconds / self.gpu.half_flops

    @property
    def use(self) -> str:
        """Purpose of the run: check, or the reason why it is excluded."""
        return self.run.outlier or "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measurements:
    run: tuple[Run, ...]
    gpu: tuple[Mapping[str, str | int | float], ...]


@cache
def comparisons() -> tuple[Comparison, ...]:
    """All runs with the plans of this program."""
    text = Path(__file__).with_name("user_measurements.toml").read_text(encoding="utf-8")
    found = from_plain(_Measurements, tomllib.loads(text))
    others = {gpu.name: gpu for gpu in map(_other_gpu, found.gpu)}
    with nothing_here():
        return tuple(
            _comparison(run, others.get(f"NVIDIA {run.gpu}") or gpu_table.named(run.gpu))
            for run in found.run
        )


def held(some: Sequence[Comparison]) -> int:
    """Runs whose reported time, scaled by operations, lies in the predicted range."""
    return sum(one.is_held for one in some)


def _other_gpu(row: Mapping[str, str | int | float]) -> GpuSpec:
    """A GPU that the program has no plans for."""
    return replace(gpu_table.spec_of(row), half_flops=float(row["half_tflops"]) * 1e12)


def _comparison(run: Run, gpu: GpuSpec) -> Comparison:
    budget = pretended_budget(gpu, ram_bytes=round(SHARE * run.ram_gib * GIB))
    settings = JobSettings(
        model=run.model, precision=run.precision, width=run.size.width, height=run.size.height
    )
    request = Request(media=_media(run), settings=settings)
    return Comparison(run=run, gpu=gpu, plan=bare_plan(request, budget, Rates()))


def _media(run: Run) -> MediaInfo:
    video = VideoInfo(
        index=0,
        codec="h264",
        size=run.source_size,
        pixel_format="yuv420p",
        chroma="420",
        bit_depth=8,
        frame_rate=Fraction(_RATE),
        frame_count=run.frames,
        frame_count_is_exact=True,
        duration=Fraction(run.frames, _RATE),
    )
    return MediaInfo(
        path=Path("film.mkv"),
        kind="video",
        container="matroska,webm",
        bytes=10**9,
        video=video,
    )
