"""Plans for every GPU of the table, as a page.

`python -m tools.reports.plan_table > docs/presets.md` writes it. This machine has no
influence on it: neither its GPU nor its model files nor measured rates.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from engine.core.geometry import Size
from engine.core.units import memory_text
from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import GIB, GpuSpec, gpu_specs
from engine.models import registry
from engine.models.frame_family import FramePlan
from engine.models.seedvr2.candidates import PRICES
from engine.models.seedvr2.plan import STEP, SeedVr2Plan
from engine.models.seedvr2.requirements import vae_work
from engine.models.swiftvr.plan import GRID, SwiftVrPlan
from engine.planner import preset_choice
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import Plan
from engine.settings.presets import Preset, applied
from engine.settings.schema import JobSettings

# What is planned for every GPU, by what a column is called: four models, then the presets of GPUs
# on which SeedVR2 fits, with what "auto" stands for where the GPU has bfloat16 or not.
CHOICES: dict[str, dict[str, Any]] = {
    "Lite": {"model": "lite"},
    "Lite Plus": {"model": "lite-plus"},
    "3B": {"model": "seedvr2-3b"},
    "SwiftVR": {"model": "swiftvr"},
    **{
        preset.name.capitalize(): preset.changes
        for preset in preset_choice.presets_of("", 24 * GIB)
    },
}
_AUTOMATIC = {
    has_bf16: preset_choice.presets_of("", 24 * GIB, has_bf16)[0].automatic
    for has_bf16 in (True, False)
}
HEIGHTS = (720, 1080, 2160)  # px, of the result
RAM_GIB = 32  # RAM of the PC
SHARE = 0.7  # share of the RAM that a job may use, as in EngineSettings
_MINUTES, _RATE = 10, 25  # length and frame rate of the video
_FILE = re.compile(
    r"^seedvr2_(ema_)?\d+b(_sharp)?[-_]"
)  # start of a published transformer's file name
_ELSEWHERE = ("UPREEL_MODELS", "HF_HUB_CACHE")  # variables that name folders of model files

_SIZES = ", ".join(str(one["working_size"]) for one in CHOICES.values() if "working_size" in one)

_HEAD = f"""# Plans for every GPU

This page is written by `python -m tools.reports.plan_table > docs/presets.md`, and a test compares
it. Every figure is **predicted, not measured on a GPU**: memory comes from the networks' code,
which runs without values, speed from the GPUs' specified rates and assumed shares of them
(`engine/planner/gpu_speed.py`).

The plans are for each GPU of `resources/gpus.toml` in a PC with {RAM_GIB} GB of RAM, of which a
job may use {SHARE:.0%}, and 8 threads. The video has 25 fps and half the width and height of the
result. No model file is installed, so the plan uses the file that suits the GPU. Of the GPU's
memory 1.9 GB are reserved for Windows, the driver and other programs, and 4 % of the rest for gaps
between tensors. The presets Fast, Balanced and Best use SeedVR2 7B sharp at a working size of
{_SIZES} %, on RTX 20 SeedVR2 3B; the rows and columns 3B and SwiftVR work at 100 %. For a 1080p
result each preset takes at least 1.4 times as long as the one before it, which a test asserts.

Without a GPU on which SeedVR2 fits, Fast is Lite and Best is Lite Plus. Balanced is automatic
there: Lite Plus for jobs that take a minute at most, else Lite.

Fast is SwiftVR where its files are installed; the same test asserts 1.4 between it and Balanced.
The published prompt of SwiftVR has not been read yet, so plans assume that all of its 512 rows
differ: a converted file may take 1.3 GB less. Its transformer is assumed to reach the same share of
the matrix units as that of SeedVR2, 0.95; no GPU has run it.

RTX 20 does not compute bfloat16: there the transformer computes in float16, with its residual
stream in float32. No user has reported 7B in float16, so 3B is the automatic model.

All else in a preset depends on the memory of a GPU, not on its generation: an RTX 50 gets the same
preset as an RTX 40 with the same memory, because everything exact runs on both. Only FP4 is new on
RTX 50. It costs accuracy and stays off in every preset until a measurement on a GPU shows its gain
(`--set switches=fp4`). [claims.md](claims.md) has the recommended set of each generation and the
reason for everything that is off.

The columns:

- **clips**: frames per clip; in brackets the frames shared with the next clip.
- **encoded, decoded**: size of the tiles in pixels, or "whole" for whole frames. "all in" means
  that the entire decoder works in tiles. The number after "for" is how many frames of a shot a tile
  processes before the next tile starts; "early" means that a tile starts some frames
  earlier, which are computed and dropped.
- **blocks**: number of transformer blocks that stay on the GPU.
- **GPU, RAM**: peak of GPU memory and of the program's RAM.

Each plan is the fastest one of its quality class. The classes, best first: clips of at least 33
frames or of the whole video; clips of at least 17 frames; shorter clips that still share frames
with their neighbours; clips that share none. Within a class, a decoder whose low-resolution part
processes whole frames is preferred to one that works entirely in tiles. A class is given up only if
it takes {PRICES["clips"]:g} times as long as one with shorter clips, or
{PRICES["tile-statistics"]:g} times as long as one entirely in tiles; the plan then says so.

The last table shows the work of the VAE.
"""

_WORK_FRAMES = 240
_WORK_MEMORY = (6, 8, 12, 16, 24, 32)  # GB
_WORK_CASES = ((720, 16), (720, 32), (1080, 16), (1080, 32), (2160, 32), (2160, 64))
_WORK_HEAD = f"""## Work of the VAE

Operations for encoding and decoding a video of {_WORK_FRAMES} frames, divided by those for whole
frames without repeated work. The excess comes from overlapping tiles and from stretches that start
early. Figures in brackets: the entire decoder works in tiles. SeedVR2 3B; each column names the
result and the RAM.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One plan of the page."""

    gpu: GpuSpec
    height: int
    choice: str  # a key of CHOICES
    plan: Plan

    @property
    def speed(self) -> str:
        """Frames per second, as text."""
        if not self.fits:
            return "-"
        rate = self.plan.frames / self.plan.seconds
        return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"

    @property
    def fits(self) -> bool:
        """Whether the plan fits the GPU; its files may still be missing."""
        return "plan-does-not-fit" not in {notice.code for notice in self.plan.notices}


def source_of(height: int) -> MediaInfo:
    """A 16:9 video of ten minutes with half the width and height of a result."""
    video = VideoInfo(
        index=0,
        codec="h264",
        size=Size(height * 8 // 9, height // 2),
        pixel_format="yuv420p",
        chroma="420",
        bit_depth=8,
        frame_rate=Fraction(_RATE),
        frame_count=_MINUTES * 60 * _RATE,
        duration=Fraction(_MINUTES * 60),
        bit_rate=8_000_000,
    )
    return MediaInfo(
        path=Path("film.mkv"),
        kind="video",
        container="matroska,webm",
        bytes=600_000_000,
        video=video,
    )


def settings_of(gpu: GpuSpec, choice: str, height: int) -> JobSettings:
    """Settings of one of CHOICES; the encoder does not depend on the computer."""
    changes = dict(CHOICES[choice])
    if changes["model"] == "auto":
        changes["model"] = _AUTOMATIC[_has_bf16(gpu)]
    return JobSettings(height=height, codec="h264", encoder="cpu", **changes)


def _has_bf16(gpu: GpuSpec) -> bool:
    return pretended_budget(gpu, ram_bytes=0).gpu_has_bf16


def case_of(gpu: GpuSpec, height: int, choice: str, ram_gib: float = RAM_GIB) -> Case:
    """One plan."""
    plan = plan_of(gpu, height, settings_of(gpu, choice, height), ram_gib)
    return Case(gpu, height, choice, plan)


def page(some: Sequence[GpuSpec] = ()) -> Iterator[str]:
    """The page line by line.

    Args:
        some: GPUs of the table; none stands for all of them.
    """
    chosen = some or gpu_specs()
    if not some:
        yield from _HEAD.splitlines()
        yield ""
    with nothing_here():
        for memory in sorted({gpu.memory_bytes for gpu in chosen}):
            yield from _tier([gpu for gpu in chosen if gpu.memory_bytes == memory])
        if not some:
            yield from _work_table()


@contextmanager
def nothing_here() -> Iterator[None]:
    """Context in which no model files are installed."""
    before = {name: os.environ.get(name) for name in (*_ELSEWHERE, "UPREEL_COMFYUI")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({name: folder for name in _ELSEWHERE})
        os.environ["UPREEL_COMFYUI"] = ""
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


@cache
def plan_of(gpu: GpuSpec, height: int, settings: JobSettings, ram_gib: float = RAM_GIB) -> Plan:
    """The plan of the video of this page."""
    budget = pretended_budget(gpu, ram_bytes=round(SHARE * ram_gib * GIB))
    return bare_plan(Request(media=source_of(height), settings=settings), budget, Rates())


def _tier(some: Sequence[GpuSpec]) -> Iterator[str]:
    """GPUs with the same memory."""
    size = some[0].memory_bytes
    budget = pretended_budget(some[0], ram_bytes=0).vram_bytes
    yield f"## {size // GIB} GB"
    yield ""
    yield f"{memory_text(budget)} can be used. {_presets(some)}."
    yield ""
    yield "| result | model | clips | encoded | decoded | blocks | GPU | RAM |"
    yield "|---|---|---|---|---|---|---|---|"
    cases = [_cases(gpu) for gpu in some]
    for of_gpus in zip(*cases, strict=True):
        yield from _lines(of_gpus)
    yield ""
    yield from _speeds(some, cases)
    yield ""


def _cases(gpu: GpuSpec) -> list[Case]:
    """Every choice of each size."""
    return [case_of(gpu, height, choice) for height in HEIGHTS for choice in CHOICES]


def _lines(of_gpus: Sequence[Case]) -> Iterator[str]:
    """Lines for the plans of a size and choice, with the GPUs where plans differ."""
    groups: dict[str, list[Case]] = {}
    for case in of_gpus:
        groups.setdefault(_figures(case), []).append(case)
    for figures, same in groups.items():
        names = list(dict.fromkeys(case.gpu.title.split(",")[0] for case in same))
        every = {case.gpu.title.split(",")[0] for case in of_gpus}
        note = "" if len(names) == len(every) else f" ({', '.join(names)})"
        yield f"| {_result(same[0].height)} | {_title(same[0])}{note} | {figures} |"


def _speeds(some: Sequence[GpuSpec], cases: Sequence[Sequence[Case]]) -> Iterator[str]:
    """Speed of every GPU in frames per second."""
    heads = [f"{_result(height)} {choice}" for height in HEIGHTS for choice in CHOICES]
    yield f"| fps | {' | '.join(heads)} |"
    yield f"|---|{'---|' * len(heads)}"
    for gpu, of_gpu in zip(some, cases, strict=True):
        form = "" if gpu.form_factor == "desktop" or "Laptop" in gpu.name else " (laptop)"
        cells = (case.speed for case in of_gpu)
        yield f"| {gpu.title.split(',')[0]}{form} | {' | '.join(cells)} |"


def _figures(case: Case) -> str:
    """The plan in five cells, or the reason why there is none."""
    plan, work = case.plan, case.plan.work
    if not case.fits:
        refusal = next(n for n in plan.notices if n.code == "plan-does-not-fit")
        return f"does not fit: {refusal.message} | | | | |"
    memory = f"{memory_text(plan.device_bytes)} | {memory_text(plan.peak_bytes)}"
    if isinstance(work, SeedVr2Plan):
        return f"{_seedvr2(work)} | {memory}"
    if isinstance(work, SwiftVrPlan):
        blocks = "all" if work.blocks_on_device is None else f"{work.blocks_on_device}"
        return f"{STEP * GRID.length} | whole | whole | {blocks} | {memory}"
    assert isinstance(work, FramePlan)
    whole = "whole" if work.tiles == 1 else f"{work.tiles} x {work.tile}"
    return f"{work.clip_frames} | | {whole} | | {memory}"


def _seedvr2(plan: SeedVr2Plan) -> str:
    clips = f"{plan.frames} ({plan.shared_frames})" if plan.shared_frames else f"{plan.frames}"
    decode = _tiled(plan.decode_tile, plan.decode_span, plan.warm_up)
    decode = f"all in {decode}" if plan.decodes_whole_tiles else decode
    encode = _tiled(plan.encode_tile, plan.encode_span, plan.warm_up)
    blocks = "all" if plan.blocks_on_device is None else f"{plan.blocks_on_device}"
    return f"{clips} | {encode} | {decode} | {blocks}"


def _tiled(tile: Size | None, span: int, warm_up: int) -> str:
    if tile is None:
        return "whole"
    return f"{tile} for {STEP * span}{', early' if warm_up else ''}"


def _work_table() -> Iterator[str]:
    yield from _WORK_HEAD.splitlines()
    yield ""
    titles = (f"{_result(height)}, {ram} GB" for height, ram in _WORK_CASES)
    yield f"| GPU | {' | '.join(titles)} |"
    yield f"|---|{'---:|' * len(_WORK_CASES)}"
    for memory in _WORK_MEMORY:
        gpu = next(gpu for gpu in gpu_specs() if gpu.memory_bytes == memory * GIB)
        cells = (_work_cell(gpu, height, ram) for height, ram in _WORK_CASES)
        yield f"| {memory} GB | {' | '.join(cells)} |"
    yield ""


def _work_cell(gpu: GpuSpec, height: int, ram_gib: float) -> str:
    plan = work_plan(gpu, height, ram_gib)
    if "plan-does-not-fit" in {notice.code for notice in plan.notices}:
        return "-"
    assert isinstance(plan.work, SeedVr2Plan)
    text = f"{extra_work(plan.work, plan.frames):.2f}"
    return f"({text})" if plan.work.decodes_whole_tiles else text


def work_plan(gpu: GpuSpec, height: int, ram_gib: float, model: str = "seedvr2-3b") -> Plan:
    """The plan for a short video."""
    source = source_of(height)
    video = replace(source.video, duration=Fraction(_WORK_FRAMES, _RATE))
    video = replace(video, frame_count=_WORK_FRAMES, frame_count_is_exact=True)
    budget = pretended_budget(gpu, ram_bytes=round(SHARE * ram_gib * GIB))
    settings = JobSettings(model=model, height=height)
    request = Request(media=replace(source, video=video), settings=settings)
    return bare_plan(request, budget, Rates())


def extra_work(plan: SeedVr2Plan, frames: int) -> float:
    """Operations of the VAE, divided by those for whole frames."""
    whole = replace(plan, encode_tile=None, decode_tile=None)
    encode, decode = vae_work(plan, frames)
    of_whole = vae_work(whole, frames)
    return (encode + decode).operations / (of_whole[0] + of_whole[1]).operations


def _result(height: int) -> str:
    return {2160: "4K"}.get(height, f"{height}p")


def _title(case: Case) -> str:
    work = case.plan.work
    files = work.weights_files
    name = registry.title_of(work.model)
    if not files or isinstance(work, SwiftVrPlan):
        return name
    name = f"{name} {_FILE.sub('', files[0].path.stem)}"
    return f"{case.choice}: {name}" if case.choice.lower() in preset_choice.GOALS else name


def _presets(some: Sequence[GpuSpec]) -> str:
    """Presets of GPUs with the same memory; those of RTX 20 apart where there are others."""
    each = {_has_bf16(gpu): gpu for gpu in reversed(some)}
    found = {
        has_bf16: ", ".join(_preset(one, gpu) for one in preset_choice.presets_for(gpu))
        for has_bf16, gpu in sorted(each.items(), reverse=True)
    }
    texts = list(dict.fromkeys(found.values()))
    return texts[0] if len(texts) == 1 else f"{texts[0]}. RTX 20: {texts[1]}"


def _preset(preset: Preset, gpu: GpuSpec) -> str:
    """Model and working size of a preset for a result of 1080p."""
    work = plan_of(gpu, 1080, applied(preset, JobSettings(height=1080))).work
    name = preset.title.rpartition(": ")[2]
    share = f" at {work.share} %" if isinstance(work, SeedVr2Plan) else ""
    return f"{name}: {registry.title_of(work.model)}{share}"


def write_page(lines: Iterable[str]) -> None:
    """Write a page to standard output."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # another kind where the page is captured
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    write_page(page())
