"""Case `vae-parts`: peak of the memory while each part of a decoder works.

Start, middle, each residual block and upsampler, output: which of them makes the peak of a decoder,
and so what a smaller tile or a shorter slice can save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import record_function

from engine.bench.cases.runs import build_vae, random_weights, vae_run, vae_work
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.profiler import AllocationLog
from engine.hardware.stage_meter import StageMeter
from engine.models.video_vae.layers import Mark
from engine.models.video_vae.runner import FastSlicedVae

_FRAMES = 5
_MIB = 2**20


def part_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each part of the fast decoder, in order, for the first length of clip."""
    if not options.memory:
        return
    frames = (options.frames or (_FRAMES,))[0]
    run = replace(vae_run(options, "decode"), form="fast", frames=frames)
    vae: Any = build_vae(run, random_weights(run))
    about = {"frames": frames, "size": str(run.size), "dtype": run.dtype}
    for name, peak in part_peaks(vae, vae_work(run, vae), run.device).items():
        yield {"layers": name, **about, "peak_mib": peak / _MIB}


def part_peaks(
    vae: FastSlicedVae[Any, Any], work: Callable[[], object], device: str
) -> dict[str, int]:
    """Most bytes of tensors while each part of the decoder works, above those before `work`.

    Buffers that are allocated once and stay count from the first part that uses them, in a model
    that has not run yet. Of a part that runs for several slices the largest counts.

    Args:
        vae: Whose decoder it is.
        work: Decodes with it; runs once.
        device: "cpu" or "cuda".
    """
    if device == "cuda":
        return _on_gpu(work)
    parts = vae.parts["decode"]
    usual = list(parts)
    try:
        return _on_processor(parts, work)
    finally:
        parts[:] = usual


class _Watched:
    """A part whose begin and end the profiler sees."""

    def __init__(self, part: Any) -> None:
        self.name = part.name
        self._part = part

    def run(self, context: Any) -> None:
        with record_function(self.name):
            self._part.run(context)


def _on_processor(parts: list[Any], work: Callable[[], object]) -> dict[str, int]:
    parts[:] = [one if isinstance(one, Mark) else _Watched(one) for one in parts]
    names = {part.name for part in parts}
    with AllocationLog() as log:
        result = work()
    del result
    return _peaks(log, names)


def _peaks(log: AllocationLog, names: set[str]) -> dict[str, int]:
    """The highest level inside the scopes of each name; scopes follow one another."""
    found: dict[str, int] = {}
    changes, level = iter([*log.changes, (2**63, 0)]), 0
    at, change = next(changes)
    for begin, end, name in (scope for scope in log.scopes if scope[2] in names):
        while at < begin:
            level += change
            at, change = next(changes)
        peak = level
        while at <= end:
            level += change
            peak = max(peak, level)
            at, change = next(changes)
        found[name] = max(found.get(name, 0), peak)
    return found


def _on_gpu(work: Callable[[], object]) -> dict[str, int]:
    meter = StageMeter()
    meter.restart()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    work()
    meter.end("decode")
    return {name: peak - before for name, peak in meter.parts["decode"].items()}
