"""Cases `dit-3b` and `dit-7b`: the SeedVR2 transformer with random weights, plain and fast.

A lower bound runs with them: the matrix products and the attention of the fast variant alone.
All are timed round by round, so that other load of the machine slows each of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from engine.bench.cases.runs import dit_run, variants
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.bench.timing.peak_rates import MatmulRecorder
from engine.bench.timing.process_memory import main_memory_row
from engine.core.messages import message
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.random_dit import DitRun, Kind
from engine.ops.attention.windows import windows

_FRAMES = (5,)
_MIB = 2**20
_BOUND = "products and attention"


@dataclass(slots=True, eq=False)
class TimedVariant:
    """One of those that are timed in rounds.

    Attributes:
        title: Of its row.
        work: Runs it once.
        run: What is measured; None for the lower bound.
        facts: Figures that are known without timing.
        seconds: Of each round.
        wall_s: Of each round.
    """

    title: str
    work: Callable[[], object]
    run: DitRun | None = None
    facts: Row = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)

    def time_once(self, device: str) -> None:
        """Add a round."""
        timing = measure(self.work, device, runs=1)
        self.seconds.append(timing.seconds)
        self.wall_s.append(timing.wall_s)

    def ratio_to(self, other: TimedVariant) -> float:
        """Median of the ratios of both in each round."""
        pairs = zip(self.seconds, other.seconds, strict=True)
        return statistics.median(own / theirs for own, theirs in pairs)


def dit_rows(options: BenchOptions, kind: Kind) -> Iterator[Row]:
    """A row for each variant and length of clip, and one for the lower bound."""
    base = dit_run(options, kind)
    for frames in options.frames or _FRAMES:
        try:
            yield from _rows(options, replace(base, frames=frames))
        except torch.OutOfMemoryError:
            yield {"form": "all", "frames": frames, "note": message("bench.out-of-memory")}


def _rows(options: BenchOptions, base: DitRun) -> Iterator[Row]:
    timed = list(_warmed_up(options, base))
    for _ in range(options.runs or (1 if options.quick else 5 if base.device == "cuda" else 3)):
        for one in timed:
            one.time_once(base.device)
    by_title = {one.title: one for one in timed}
    for one in timed:
        row: Row = {"form": one.title, **_run_facts(base), **_figures(one, base)}
        for title, name in (("plain", "of_plain"), (_BOUND, "of_products")):
            if title in by_title and one.title not in ("plain", _BOUND):
                row[name] = one.ratio_to(by_title[title])
        if options.memory and one.run is not None and base.device != "cuda":
            row |= main_memory_row(one.run)
        yield row


def _warmed_up(options: BenchOptions, base: DitRun) -> Iterator[TimedVariant]:
    """All variants after a first run, with shared weights."""
    plain = random_dit.build(base)
    for title, run in variants(options, base):
        dit = random_dit.build(run, plain)
        work = random_dit.work_of(run, dit)
        work()
        before = _reset_gpu_peak(base)
        is_finite = bool(work().isfinite().all())
        facts: Row = {"finite": "yes" if is_finite else "NO"} | _gpu_memory(base, before)
        yield TimedVariant(title, work, run, facts)
        if title == "fast":
            yield _lower_bound(run, list(dit.parameters()), work)


def _lower_bound(run: DitRun, weights: list[Tensor], work: Callable[[], Tensor]) -> TimedVariant:
    """Matrix products and attention alone, with the calls of attention and the window shapes."""
    with MatmulRecorder(weights) as replay:
        work()
    replay.run()
    facts: Row = {
        "tflop": replay.flops / 1e12,
        "attention_calls": replay.attention_calls,
        "window_shapes": _window_shapes(run),
    }
    return TimedVariant(_BOUND, replay.run, facts=facts)


def _window_shapes(run: DitRun) -> int:
    """Different shapes of windows in each layer, summed over the layers."""
    config = run.config
    time, height, width = (
        side // size for side, size in zip(run.latent_shape, config.patch, strict=True)
    )
    layers = (
        windows((time, height, width), config.window, shifted=layer % 2 == 1)
        for layer in range(config.layers)
    )
    return sum(len({window.shape for window in layer}) for layer in layers)


def _run_facts(base: DitRun) -> Row:
    return {
        "frames": base.frames,
        "size": str(base.size),
        "tokens": base.tokens,
        "dtype": base.dtype,
        "threads": base.threads,
    }


def _figures(one: TimedVariant, base: DitRun) -> Row:
    """Medians; `seconds` are CPU seconds of all threads, or those of the GPU."""
    seconds = statistics.median(one.seconds)
    row: Row = {
        "seconds": seconds,
        "clock": "card" if base.device == "cuda" else "cpu",
        "wall_s": statistics.median(one.wall_s),
        **one.facts,
    }
    if "tflop" in row:
        row["tflop_per_s"] = row["tflop"] / seconds
    return row


def _reset_gpu_peak(base: DitRun) -> int:
    """Begin to count the peak of the GPU's memory; the bytes in use now."""
    if base.device != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _gpu_memory(base: DitRun, before: int) -> Row:
    """Peak of what torch allocated above that; buffers that stay from the warm-up do not count."""
    if base.device != "cuda":
        return {}
    torch.cuda.synchronize()
    return {"peak_mib": (torch.cuda.max_memory_allocated() - before) / _MIB}
