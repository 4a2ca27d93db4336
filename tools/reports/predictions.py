"""A page of measurements with other programs next to predictions for the same work.

`python -m tools.reports.predictions > docs/predictions.md` writes it. This machine has no
influence on it: neither its GPU nor its model files nor measured rates.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

from engine.core.geometry import Size
from engine.core.serialization import from_plain
from engine.core.units import range_text
from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import GIB, Generation, GpuSpec
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.cost import forward_flops
from engine.models.seedvr2.files import TEXT_TOKENS
from engine.models.seedvr2.plan import SeedVr2Plan, latents_of
from engine.models.seedvr2.planning.requirements import stage_work
from engine.models.seedvr2.planning.vae_memory import VAES
from engine.models.seedvr2.vae.config import VAE
from engine.models.video_vae.vae_use import VaeUse
from engine.planner import times
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import Plan
from engine.settings.optimisations import VaeSwitches
from engine.settings.schema import JobSettings
from tools.reports.plan_table import RAM_GIB, SHARE, nothing_here, write_page

_HEAD = f"""# Predicted times compared with measurements by users of other programs

This page is written by `python -m tools.reports.predictions > docs/predictions.md` from
`tools/reports/user_measurements.toml`, and a test compares it. Reported times are those of **other
programs** with SeedVR2, published by their users. Predicted times come from Upreel's plan for the
same video, model, GPU and RAM ({RAM_GIB} GB if the source does not state it, of which a job may use
{SHARE:.0%}), without installed model files and without measurements. **Upreel has not run on any of
these GPUs yet.**

- **predicted / reported**: below 1 if Upreel is expected to be faster.
- **operations**: operations of our plan, divided by those of the reported run (the published data
  flow without folds, in the batches of that run, overlaps of tiles computed twice).
- **scaled**: predicted / reported, divided by operations. 1 means that the prediction is shorter
  only by the work that is saved; below 1 it is optimistic.
- **pace**: operations of the reported run, divided by the theoretical maximum of the GPU's matrix
  units in that time (half precision, sums in float32).
- **use**: runs with an odd row number are used for the fit, runs with an even one check it. The
  other runs do not show how fast a GPU computes; they were excluded before the fit because of what
  their sources say:
"""
LIMIT = 0.35  # that the median of the checked runs may be off, as a share
HELD = 0.8  # of all runs that have to lie in the range of a GPU that was not measured
_ALIGN = 16  # px: the model takes multiples of it
_RATE = 25
_OUTLIERS = {
    "first version": "the first version of the node, of June 2025, which its authors fixed later",
    "power": "the power of the GPU was limited, the source does not say to which value",
    "still": "a single frame: most of the time is spent on loading and moving the model",
}
_FIT = """## Fit

For each GPU generation the planner assumes a share of the theoretical maximum of the matrix units
(`GENERATION_SHARE` in `engine/planner/times.py`): the median pace of the runs used for the fit. A
generation without such runs gets the geometric mean of its neighbours, or the value of its only
neighbour. Reports cover whole runs, so they do not separate VAE and transformer. Each generation
has few runs, on one or two GPUs; those of Ampere all come from one GPU with 8 GB, with swapped
blocks and small tiles.
"""
_LEFT_OUT = """Row numbers refer to a list of 35 reports. The missing ones do not state the GPU,
the size or the number of frames (5, 16, 22, 24 to 27, 29 to 31, 33), concern a GPU generation for
which Upreel has no figures (15, 28), or concern other models (34, 35)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measurement by a user.

    Attributes:
        row: Number of the report; an odd one is fitted to, an even one checked.
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
        more = latents_of(self.batch) - 2  # slices after the first one
        coders = (VAES.operations(VAE, f"{side}_slice", use, size) for side in ("encode", "decode"))
        vae = sum(one.first + more * one.later for one in coders)
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
        return sum(stage_work(self.plan.work, self.plan.frames).values()) / self.run.operations

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
        """Purpose of the run: fit, check, or the reason why it is excluded."""
        return self.run.outlier or ("fit" if self.run.row % 2 else "check")


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


def fitted_shares(some: Sequence[Comparison]) -> dict[Generation, float]:
    """Share of each generation: the median pace of its runs, else the mean of its neighbours'."""
    names = list(times.GENERATION_SHARE)
    paces = {name: _fitted_paces(some, name) for name in names}
    known = [statistics.median(paces[name]) if paces[name] else None for name in names]

    def share(at: int) -> float:
        if (own := known[at]) is not None:
            return own
        near = (filter(None, side) for side in (reversed(known[:at]), known[at:]))
        return statistics.geometric_mean(filter(None, (next(side, None) for side in near)))

    return {name: share(at) for at, name in enumerate(names)}


def _fitted_paces(some: Sequence[Comparison], generation: Generation) -> list[float]:
    """Paces of the runs on GPUs of a generation that are used for the fit."""
    return [one.pace for one in some if one.use == "fit" and one.gpu.generation == generation]


def checked_median(some: Sequence[Comparison]) -> float:
    """Median of predicted over reported time, operations scaled, of the runs that are checked."""
    return statistics.median(one.scaled for one in some if one.use == "check")


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


def page() -> Iterator[str]:
    """The page line by line."""
    some = comparisons()
    yield from _HEAD.splitlines()
    yield from (f"  - *{name}*: {why}." for name, why in _OUTLIERS.items())
    yield ""
    yield from _runs_table(some)
    yield ""
    yield from _fit_section(some)
    yield from _range_section(some)
    yield from _sources_section(some)


def _runs_table(some: Sequence[Comparison]) -> Iterator[str]:
    yield (
        "| row | GPU | model | result | frames | reported, s | predicted, s | range "
        "| predicted / reported | operations | scaled | pace | use |"
    )
    yield f"|---|---|---|---|{'---:|' * 8}---|"
    for one in some:
        run, plan = one.run, one.plan
        times_s = (_seconds(seconds) for seconds in (run.seconds, plan.seconds - one.before))
        cells = (
            *(str(run.row), one.gpu.title, run.model.removeprefix("seedvr2-"), str(run.size)),
            *(str(run.frames), *times_s),
            range_text(plan.seconds_low - one.before, plan.seconds_high - one.before),
            *(f"{value:.2f}" for value in (one.ratio, one.work, one.scaled, one.pace)),
            one.use,
        )
        yield f"| {' | '.join(cells)} |"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _fit_section(some: Sequence[Comparison]) -> Iterator[str]:
    checked = [one.scaled for one in some if one.use == "check"]
    yield from _FIT.splitlines()
    yield ""
    yield "| generation | runs | fitted | share in plans |"
    yield "|---|---:|---:|---:|"
    for name, fitted in fitted_shares(some).items():
        runs, share = len(_fitted_paces(some, name)), times.GENERATION_SHARE[name]
        yield f"| {name.capitalize()} | {runs} | {fitted:.2f} | {share:.2f} |"
    yield ""
    yield (
        f"Check: the scaled ratios of the {len(checked)} runs with an even row number range from "
        f"{min(checked):.2f} to {max(checked):.2f}; their median is **{checked_median(some):.2f}** "
        f"(allowed deviation: {LIMIT:.0%})."
    )
    yield ""


def _range_section(some: Sequence[Comparison]) -> Iterator[str]:
    spread, plain = times.GUESSED_GPU, [one for one in some if not one.run.outlier]
    outside = [str(one.run.row) for one in some if not one.is_held]
    yield "## Ranges"
    yield ""
    yield (
        "As long as nothing was measured on a GPU, its time is shown as a range from "
        f"{spread.low:g} to {spread.high:g} times the predicted time. The upper part is wider, "
        "because a GPU may be throttled or short of memory. Both factors were chosen with "
        "all of these runs in view, including the excluded ones. The reported times, scaled by "
        f"operations, lie in this range for {held(plain)} of {len(plain)} runs used for the fit "
        f"or its check, and for **{held(some)} of all {len(some)}** runs; those of rows "
        f"{', '.join(outside)} do not."
    )
    yield ""


def _sources_section(some: Sequence[Comparison]) -> Iterator[str]:
    yield "## Sources"
    yield ""
    yield _LEFT_OUT
    yield ""
    yield "| row | source | settings | assumed |"
    yield "|---|---|---|---|"
    for run in (one.run for one in some):
        tiles = f", tiles of {run.tile} px sharing {run.overlap}" if run.tile else ""
        settings = f"{run.precision}, batches of {run.batch}{tiles}, from {run.source_size}"
        yield f"| {run.row} | {run.source} | {settings} | {run.assumed} |"


if __name__ == "__main__":
    write_page(page())
