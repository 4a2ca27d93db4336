"""Cases `dit-3b` and `dit-7b`: the SeedVR2 transformer with random weights, plain and fast.

Beside them runs what the fast form cannot do without: its own products of matrices and its own
attention, noted once and run again alone. All take turns, so that whatever else the machine does
hits each of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from engine.bench.cases.dit_runs import (
    DitRun,
    Kind,
    base_run,
    build,
    work_of,
)
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.matmul_replay import Replay
from engine.bench.timing.peak_rates import clocked
from engine.bench.timing.process_memory import memory_of
from engine.ops.attention.windows import windows
from engine.settings.optimisations import DitSwitches

_FRAMES = (5,)
_MIB = 2**20
_CEILING = "products and attention"


@dataclass(slots=True, eq=False)
class Entry:
    """Something that takes its turn.

    Attributes:
        title: What the row is called.
        work: Runs it once.
        run: What is measured; None for the products alone.
        facts: Figures that are known without timing.
        seconds: Of each turn.
        wall_s: Of each turn.
    """

    title: str
    work: Callable[[], object]
    run: DitRun | None = None
    facts: Row = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def turn(self, device: str) -> None:
        """Run and time it once."""
        timing = clocked(self.work, device, runs=1, warm_ups=0)
        self.seconds.append(timing.seconds)
        self.wall_s.append(timing.wall_s)

    def over(self, other: Entry) -> float:
        """Median of the ratios of both in each turn."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return statistics.median(mine / theirs for mine, theirs in pairs)


def dit_rows(options: BenchOptions, kind: Kind) -> Iterator[Row]:
    """A row for each form and length of clip, and one for the products and attention alone."""
    base = base_run(options, kind)
    for frames in options.frames or _FRAMES:
        try:
            yield from _rows(options, replace(base, frames=frames))
        except torch.OutOfMemoryError:
            yield {"form": "all", "frames": frames, "note": "not enough memory"}


def variants(options: BenchOptions, base: DitRun) -> Iterator[tuple[str, DitRun]]:
    """Name and run of everything that is compared: plain, fast, fast with other switches."""
    if options.form in ("plain", "both"):
        yield "plain", base
    fast = replace(base, form="fast")
    if options.form in ("fast", "both"):
        yield "fast", fast
    for name in DitSwitches.known(options.without):
        yield f"without {name}", replace(fast, switches=DitSwitches().changed(name, False))
    for name in DitSwitches.known(options.only):
        yield f"only {name}", replace(fast, switches=DitSwitches.only(name))


def _rows(options: BenchOptions, base: DitRun) -> Iterator[Row]:
    entries = list(_entries(options, base))
    for _ in range(_turns(options, base)):
        for entry in entries:
            entry.turn(base.device)
    by_title = {entry.title: entry for entry in entries}
    for entry in entries:
        row: Row = {"form": entry.title, **_about(base), **_speed(entry, base)}
        for title, name in (("plain", "of_plain"), (_CEILING, "of_products")):
            if title in by_title and entry.title not in ("plain", _CEILING):
                row[name] = entry.over(by_title[title])
        if options.memory and entry.run is not None:
            row |= _memory(entry)
        yield row


def _entries(options: BenchOptions, base: DitRun) -> Iterator[Entry]:
    """Everything that takes turns, warmed up; weights are shared."""
    plain = build(base)
    for title, run in variants(options, base):
        dit = build(run, plain)
        work = work_of(run, dit)
        work()
        before = _card_bytes(base)
        finite = "yes" if bool(work().isfinite().all()) else "NO"
        facts: Row = {"finite": finite} | _card_memory(base, before)
        yield Entry(title, work, run, facts)
        if title == "fast":
            yield _ceiling(run, list(dit.parameters()), work)


def _ceiling(run: DitRun, weights: list[Tensor], work: Callable[[], Tensor]) -> Entry:
    """The products of a form, and how many calls its attention takes for how many shapes."""
    with Replay(weights) as replay:
        work()
    replay.run()
    facts: Row = {
        "tflop": replay.flops / 1e12,
        "attention_calls": replay.attention_calls,
        "window_shapes": _window_shapes(run),
    }
    return Entry(_CEILING, replay.run, facts=facts)


def _window_shapes(run: DitRun) -> int:
    """Different shapes of windows in each layer, summed over the layers."""
    grid = tuple(
        side // size for side, size in zip(run.latent_shape, run.config.patch, strict=True)
    )
    time, height, width = grid
    found = (
        windows((time, height, width), run.config.window, shifted=layer % 2 == 1)
        for layer in range(run.config.layers)
    )
    return sum(len({window.shape for window in layer}) for layer in found)


def _turns(options: BenchOptions, base: DitRun) -> int:
    return options.runs or (1 if options.quick else 5 if base.device == "cuda" else 3)


def _about(base: DitRun) -> Row:
    return {
        "frames": base.frames,
        "size": str(base.size),
        "tokens": base.tokens,
        "dtype": base.dtype,
        "threads": base.threads,
    }


def _speed(entry: Entry, base: DitRun) -> Row:
    """Medians; `seconds` are those of all threads, or of the card."""
    seconds = statistics.median(entry.seconds)
    row: Row = {
        "seconds": seconds,
        "clock": "card" if base.device == "cuda" else "cpu",
        "wall_s": statistics.median(entry.wall_s),
        **entry.facts,
    }
    if "tflop" in row:
        row["tflop_per_s"] = row["tflop"] / seconds
    return row


def _memory(entry: Entry) -> Row:
    if entry.run is None or entry.run.device == "cuda":
        return {}
    memory = memory_of(entry.run)
    row: Row = {
        "loaded_mib": memory.loaded_bytes / _MIB,
        "peak_mib": memory.peak_bytes / _MIB,
        "traffic_mib": memory.traffic_bytes / _MIB,
    }
    return row if memory.is_alone else row | {"note": "memory measured beside other work"}


def _card_bytes(base: DitRun) -> int:
    """Bytes in use before a run whose peak is looked at."""
    if base.device != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _card_memory(base: DitRun, before: int) -> Row:
    """What torch handed out above that; buffers that stay from the warm-up are not counted."""
    if base.device != "cuda":
        return {}
    torch.cuda.synchronize()
    return {"peak_mib": (torch.cuda.max_memory_allocated() - before) / _MIB}
