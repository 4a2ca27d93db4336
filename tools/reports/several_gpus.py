"""What several GPUs of one PC are predicted to gain, as a page.

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

Made by `python -m tools.reports.several_gpus > docs/several-gpus.md`; a test compares. Every figure
is **predicted, not measured**: no PC with two GPUs has run Upreel yet. Times of a GPU are those of
[presets.md](presets.md); how a film is shared follows from a simulation of what is handed out when
(`engine/planner/sharing.py`).

With "All GPUs" (`--set device=all`) each GPU has a process of its own. A process gets a span of the
film, as long as the table says or shorter, and the next one when it has made that: a slow GPU gets
fewer, and at the end of the film spans get short, so that all end together.
A film has one plan for all of them, so its pictures do not depend on who made which part:

- sizes of tiles and clips are those that fit the GPU with the least memory, and so is which part of
  the model stays on the GPU;
- precision and optimisations are those that the oldest GPU has;
- the file of the model is the one that suits the fastest GPU.

On GPUs of different kinds rounding differs as it does between two PCs. A GPU with which the film
would take longer, or hardly less for other clips or tiles, is left out, and the plan says so.

Main memory is planned for all processes together. They map the same file of the model, which is in
main memory once; what is copied for each is its pinned copy of the blocks that visit the GPU, and
what waits between its stages. With less main memory for each process a plan may have shorter spans
or other tiles, so two GPUs are not exactly as fast as twice one. The GPU that drives the screen has
less memory free, so it often is the one with the least.

The table is for a machine with {RAM_GIB} GB of main memory of which a job may take {SHARE:.0%},
and {_THREADS} threads; a film of ten minutes and 25 frames/s, half as wide and high as the result.
Spans overlap where a model looks at neighbouring frames, for which shots of four seconds are
assumed: that, the start of the processes and the
last spans are what is missing to a full gain.

| GPUs | model, result | fastest alone | together | times as fast | spans: each GPU makes |
|---|---|---|---|---|---|"""


def plan_of(names: tuple[str, ...], model: str, height: int, device: str = "all") -> Plan:
    """The plan of a film of the page."""
    first, *others = map(named, names)
    ram = round(SHARE * RAM_GIB * GIB)
    budget = pretended_budget(first, *others, ram_bytes=ram, threads=_THREADS)
    settings = JobSettings(model=model, height=height, device=device)
    return bare_plan(Request(media=source_of(height), settings=settings), budget, Rates())


def page(some: Sequence[tuple[str, ...]] = ()) -> Iterator[str]:
    """The page line by line.

    Args:
        some: Of TEAMS, whose rows alone are made; none stands for the whole page.
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
        f"{model}, {height} lines",
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
        return "the others are left out"
    seconds = plan.span_segments * plan.segment_frames / 25
    shares = " + ".join(f"{worker.share:.0%}".replace("%", " %") for worker in plan.workers)
    return f"{seconds:.0f} s of the film: {shares}"


if __name__ == "__main__":
    write_page(page())
