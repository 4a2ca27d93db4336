"""A page of the predicted gain from several GPUs in one PC.

`python -m tools.reports.several_gpus > docs/several-gpus.md` writes it. Nothing is measured for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.hardware.budget import pretended_budget
from engine.hardware.gpu_table import GIB, named
from engine.planner.plan_job import Request, bare_plan
from engine.planner.rates import Rates
from engine.protocol.plan import Plan
from engine.settings.schema import JobSettings
from tools.reports.plan_table import SHARE, nothing_here, source_of, write_page

RAM_GIB, _THREADS = 64, 16
TEAMS = (
    ("RTX 4090", "RTX 4090"),
    ("RTX 4090", "RTX 4090", "RTX 4090", "RTX 4090"),
    ("RTX 3060", "RTX 3060"),
    ("RTX 5070 Ti", "RTX 5070 Ti"),
    ("RTX 4090", "RTX 4080"),
    ("RTX 4090", "RTX 3090"),
    ("RTX 4090", "RTX 3060"),
    ("RTX 5090", "RTX 4060 Ti"),
)
FILMS = (("seedvr2-3b", 360), ("seedvr2-3b", 1080), ("seedvr2-7b-sharp", 1080))

_HEAD = f"""# Several GPUs

This page is written by `python -m tools.reports.several_gpus > docs/several-gpus.md`, and a test
compares it. Every figure is **predicted, not measured**: no PC with two GPUs has run Upreel yet.
The times of single GPUs are those of [presets.md](presets.md); the distribution of the video among
the GPUs comes from `engine/planner/sharing.py`.

With "All GPUs" (`--set device=all`) each GPU has a process of its own. A process receives a span of
the video, at most as long as the table says, and the next span when it has finished that one. A
slow GPU therefore receives fewer spans. Towards the end of the video spans become shorter, so that
all GPUs finish together. All of them follow one plan, so the result does not depend on which GPU
rendered which part:

- sizes of tiles and clips, and the part of the model that stays on the GPU, are chosen for the GPU
  with the least memory;
- precision and optimisations are those that the oldest GPU supports;
- the model file is the one that suits the fastest GPU.

On GPUs of different kinds rounding differs, as it does between two PCs. A GPU is left out, and the
plan says so, if the video would take longer with it, or if it would save hardly any time but
require other clips or tiles.

RAM is planned for all processes together. They map the same model file, which is in RAM only once.
Each process needs RAM of its own for a pinned copy of the streamed blocks and for data between its
stages. With less RAM per process a plan may have shorter spans or other tiles, so two GPUs are not
exactly twice as fast as one. The GPU that drives the screen has less free memory and is therefore
often the one with the least.

The table is for a PC with {RAM_GIB} GB of RAM, of which a job may use {SHARE:.0%}, and {_THREADS}
threads. The video has ten minutes at 25 fps and half the width and height of the result. Spans
overlap where a model uses neighbouring frames; shots of four seconds are assumed. This overlap, the
start of the processes and the last spans explain why the speed does not grow in full proportion.

| GPUs | model, result height | fastest alone | together | speed-up | span: share of each GPU |
|---|---|---|---|---|---|"""


def plan_of(names: tuple[str, ...], model: str, height: int, device: str = "all") -> Plan:
    """The plan of one video of the page."""
    first, *others = map(named, names)
    ram = round(SHARE * RAM_GIB * GIB)
    budget = pretended_budget(first, *others, ram_bytes=ram, threads=_THREADS)
    settings = JobSettings(model=model, height=height, device=device)
    return bare_plan(Request(media=source_of(height), settings=settings), budget, Rates())


def page(some: Sequence[tuple[str, ...]] = ()) -> Iterator[str]:
    """The page line by line.

    Args:
        some: Teams of TEAMS whose rows are written; empty for the whole page.
    """
    if not some:
        yield from _HEAD.splitlines()
    with nothing_here():
        for names in some or TEAMS:
            for model, height in FILMS:
                yield _row(names, model, height)


def _row(names: tuple[str, ...], model: str, height: int) -> str:
    together = plan_of(names, model, height)
    alone = plan_of(names[:1], model, height, "auto")
    cells = [
        " + ".join(names),
        f"{model}, {height} px",
        _minutes(alone),
        _minutes(together),
        f"{alone.seconds / together.seconds:.2f}",
        _shares(together),
    ]
    return f"| {' | '.join(cells)} |"


def _minutes(plan: Plan) -> str:
    return f"{plan.seconds / 60:.0f} min"


def _shares(plan: Plan) -> str:
    if not plan.workers:
        return "only the fastest is used"
    seconds = plan.span_segments * plan.segment_frames / 25
    shares = " + ".join(f"{worker.share:.0%}".replace("%", " %") for worker in plan.workers)
    return f"{seconds:.0f} s: {shares}"


if __name__ == "__main__":
    write_page(page())
