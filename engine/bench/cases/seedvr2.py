"""Case `seedvr2`: a shot through encoder, transformer, decoder and colour, with random weights.

Everything but files: no PyAV, no Qt, no downloaded model. On a card the models have their published
size; on a processor the transformer is a middle-sized one, so that it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from engine.bench.cases import dit_runs, vae_runs
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import matrix_ceiling
from engine.core.geometry import Size
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.cost import forward_flops
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.models.seedvr2.frame_layout import FrameLayout, layout_of
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.upscaler import SeedVr2
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.flops import Work, decode_flops, encode_flops
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import VaeSwitches

_STAGES = ("encode", "transformer", "decode", "colour")
_FRAMES = 21
_SIZE_ON_CARD = Size(1920, 1080)
_SIZE_ON_CPU = Size(128, 80)
_SCALE = 2
_GIB = 2**30


@dataclass(slots=True)
class _Clock:
    """Seconds of each stage; waits for the card before and behind."""

    device: str
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_STAGES, 0.0))

    def around(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, timed."""

        def timed(*args: Any, **options: Any) -> Any:
            begin = self._now()
            found = work(*args, **options)
            self.seconds[stage] += self._now() - begin
            return found

        return timed

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()


def seedvr2_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each stage and one for the whole, for each length of shot."""
    options = replace(options, model="seedvr2-vae")
    for frames in options.frames or (5 if options.quick else _FRAMES,):
        yield from _rows(options, frames)


def _rows(options: BenchOptions, frames: int) -> Iterator[Row]:
    dit_run = dit_runs.base_run(replace(options, size=None), "3b")
    device = dit_run.device
    usual = _SIZE_ON_CARD if device == "cuda" else _SIZE_ON_CPU
    layout = layout_of(options.size or usual)
    clock = _Clock(device)
    model = _model(options, dit_run, layout, frames, clock)
    _shot(model, clock, layout.picture, frames)  # kernels are built, shapes tried out
    clock.seconds = dict.fromkeys(_STAGES, 0.0)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    _shot(model, clock, layout.picture, frames)
    wall = time.perf_counter() - begin
    ceiling = matrix_ceiling(device, dit_run.torch_dtype, quick=options.quick)
    flops = _flops(options, dit_run, layout.padded, frames)
    for stage in _STAGES:
        seconds = clock.seconds[stage]
        row: Row = {"stage": stage, "frames": frames, "size": str(layout.picture)}
        row |= {"s_per_frame": seconds / frames}
        if stage in flops and seconds:
            speed = flops[stage] / seconds
            row |= {"tflops": speed / 1e12, "of_ceiling": speed / ceiling}
        yield row
    yield _whole(device, layout.picture, frames, wall)


def _whole(device: str, size: Size, frames: int, wall: float) -> Row:
    row: Row = {"stage": "all", "frames": frames, "size": str(size)}
    row |= {"s_per_frame": wall / frames, "frames_per_s": frames / wall}
    if device == "cuda":
        row["allocated_gib"] = torch.cuda.max_memory_allocated() / _GIB
        row["reserved_gib"] = torch.cuda.max_memory_reserved() / _GIB
    return row


def _model(
    options: BenchOptions, run: DitRun, layout: FrameLayout, frames: int, clock: _Clock
) -> SeedVr2:
    vae_run = replace(vae_runs.base_run(options, "decode"), form="fast", device=run.device)
    vae = vae_runs.build(vae_run)
    assert isinstance(vae, FastVae)
    for name, stage in (("encode_slice", "encode"), ("decode_slice", "decode")):
        setattr(vae, name, clock.around(stage, getattr(vae, name)))
    dit = random_dit.build(replace(run, form="fast"))
    _, text = random_dit.inputs_of(run)
    plan = _plan(run, layout, frames, vae_run.dtype)
    dit.forward = clock.around("transformer", dit.forward)  # type: ignore[method-assign]
    return SeedVr2(plan, vae, dit, text)


def _plan(run: DitRun, layout: FrameLayout, frames: int, vae_dtype: str) -> SeedVr2Plan:
    nowhere = WeightsPlan(path=Path())
    return SeedVr2Plan(
        model="seedvr2-3b",
        device=run.device,
        dtype=run.dtype,
        threads=run.threads,
        dit=nowhere,
        vae=nowhere,
        text=nowhere,
        size=layout.picture,
        padded=layout.padded,
        reflected=layout.reflected,
        clip=1 + -(-(frames - 1) // 4),
        shared=0,
        vae_dtype=vae_dtype,
    )


def _shot(model: SeedVr2, clock: _Clock, size: Size, frames: int) -> None:
    """One shot of noise from the first frame to the last."""
    generator = torch.Generator().manual_seed(1)
    shot = model.shot(0, 0, lambda _: None)
    finished = clock.around("colour", model.finished)
    with torch.inference_mode():
        fed = 0
        while fed < frames:
            count = min(frames - fed, model.slice_frames + (fed == 0))
            shape = (count, 3, size.height // _SCALE, size.width // _SCALE)
            fed += count
            for part in shot.push(torch.rand(shape, generator=generator), last=fed == frames):
                finished(part.frames, torch.zeros((len(part.frames), *shape[1:])))


def _flops(options: BenchOptions, run: DitRun, padded: Size, frames: int) -> dict[str, float]:
    work = Work(frames=frames, size=padded, switches=VaeSwitches(), slice_frames=4)
    grid = (1 + -(-(frames - 1) // 4), padded.height // 8, padded.width // 8)
    return {
        "encode": float(encode_flops(options.vae_config, work).total),
        "transformer": float(forward_flops(run.config, grid, random_dit.TEXT_LENGTH).total),
        "decode": float(decode_flops(options.vae_config, work).total),
    }
