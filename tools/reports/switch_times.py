"""A page of what switches and formats change in plans for five GPUs.

`python -m tools.reports.switch_times > docs/switches.md` writes it, and a test compares it. This
machine has no influence on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache

from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import GIB, GpuSpec, requested
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.assignments import with_text
from engine.settings.optimisations import choices
from engine.settings.schema import JobSettings
from engine.settings.switches import settings_of as chosen_by_switches
from tools.reports.plan_table import RAM_GIB, SHARE, nothing_here, source_of, write_page

GPUS = ("RTX 2080 Ti", "RTX 3060 12 GB", "RTX 4070 Ti SUPER", "RTX 5070 Ti", "RTX 5090")
FRAMES = 96
CHOICES = (
    "all=off",
    "vae.all=off",
    "vae.kernels=off",
    "vae.channels_last=off",
    "vae.upsampler_fold=off",
    "vae.temporal_winograd=on",
    "vae.fp16_sums=off",
    "dit.all=off",
    "dit.kernels=off",
    "dit.fused_steps=off",
    "dit.in_place_residual=off",
    "dit.fp16_sums=off",
    "matmul=int8",
    "matmul=fp8",
    "matmul=nvfp4",
    "attention=efficient",
    "attention=math",
    "switches=fp4",
)
_HEAD = f"""# What switches change on five GPUs

This page is written by `python -m tools.reports.switch_times > docs/switches.md`, and a test
compares it. Every figure is **predicted, not measured**: {FRAMES} frames to 1080p with SeedVR2 3B
on a PC with {RAM_GIB} GB of RAM, of which a job may use {SHARE:.0%}. The first row has the seconds
of the default plan, the others the difference to it; in brackets the range of the time, in seconds.
Each job is planned again with its switch and may get other tiles, clips or blocks.

Seconds follow from operations, from bytes and launches that the pretended GPU counts, and from the
shares in [predictions.md](predictions.md). The range is as wide as what is not known: with our
kernel for sums in float16 or without it, formats and packages with all of their rate or with no
gain. A difference of 0.0 means that a switch changes neither operations nor bytes, or only launches
for which the GPU does not wait. That of `fp16_sums` is 0.0 because no GPU has timed that kernel:
predictions are without it, and only the lower end of the range changes. "-" means that the GPU
cannot do it. On an H100, the only GPU that ran them, fp8 and int8 took longer than bfloat16
([benchmarks/h100.md](benchmarks/h100.md)). The effect of torch's compiler, cuDNN's trials, the
allocators and two tiles at a time cannot be counted without a GPU, and is left out.
"""


def settings_of(choice: str = "") -> JobSettings:
    """Settings of the page; the encoder does not depend on the computer."""
    base = JobSettings(model="seedvr2-3b", height=1080, codec="h264", encoder="cpu")
    return with_text(base, [choice]) if choice else base


@cache
def plan_with(gpu: GpuSpec, choice: str = "") -> Plan:
    """The plan of the page with a choice."""
    source = source_of(1080)
    video = replace(
        source.video,
        duration=Fraction(FRAMES, 25),
        frame_count=FRAMES,
        frame_count_is_exact=True,
    )
    request = Request(media=replace(source, video=video), settings=settings_of(choice))
    budget = pretended_budget(gpu, ram_bytes=round(SHARE * RAM_GIB * GIB))
    return bare_plan(request, budget, Rates())


def is_possible(gpu: GpuSpec, choice: str) -> bool:
    """Whether a GPU can do it, whatever packages it needs in addition."""
    settings = settings_of(choice)
    chosen = {"matmul": settings.matmul, "attention": settings.attention}
    chosen |= chosen_by_switches(settings.switches)
    needed = (entry.values[chosen[entry.setting]] for entry in choices() if entry.setting in chosen)
    return all((one.capability or (0, 0)) <= gpu.capability for one in needed)


def page() -> Iterator[str]:
    """The page line by line."""
    gpus = [requested(name) for name in GPUS]
    yield from _HEAD.splitlines()
    yield ""
    yield f"| switch | {' | '.join(gpu.title for gpu in gpus)} |"
    yield f"|---|{'---:|' * len(gpus)}"
    with nothing_here():
        usual = [plan_with(gpu) for gpu in gpus]
        cells = (f"{plan.seconds:.1f} ({_range(plan)})" for plan in usual)
        yield f"| default | {' | '.join(cells)} |"
        for choice in CHOICES:
            cells = (_cell(gpu, plan, choice) for gpu, plan in zip(gpus, usual, strict=True))
            yield f"| `{choice.removeprefix('switches=')}` | {' | '.join(cells)} |"


def _cell(gpu: GpuSpec, usual: Plan, choice: str) -> str:
    if not is_possible(gpu, choice):
        return "-"
    plan = plan_with(gpu, choice)
    return f"{plan.seconds - usual.seconds:+.1f} ({_range(plan)})"


def _range(plan: Plan) -> str:
    return f"{plan.seconds_low:.0f} to {plan.seconds_high:.0f}"


if __name__ == "__main__":
    write_page(page())
