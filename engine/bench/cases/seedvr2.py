"""Case `seedvr2`: a shot through encoder, transformer, decoder and colour, with random weights.

No files: neither PyAV nor downloaded models. On a GPU the models have their published size, and
tiles and blocks of the transformer are those that the planner chooses for it; on a CPU the
transformer is a narrower one, so that the case ends within minutes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine.bench.report import Row
from engine.bench.run import BenchOptions
from engine.bench.timing import matrix_ceiling
from engine.bench.workload import VaeRun, dit_run, job_budget, vae_run
from engine.core.geometry import Size
from engine.hardware.budget import PROGRAM_BYTES
from engine.hardware.stage_meter import StageMeter
from engine.models.planning.memory import PhaseMemory, Room
from engine.models.seedvr2 import requirements
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.cost import forward_flops
from engine.models.seedvr2.dit.load import LoadOptions
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.models.seedvr2.family import FAMILY
from engine.models.seedvr2.plan import FrameLayout, SeedVr2Plan, layout_of
from engine.models.seedvr2.upscaler import SeedVr2
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae_memory import VAES
from engine.models.video_vae.measuring import clip_use
from engine.models.video_vae.vae_use import VaeUse
from engine.planner.rates import load_rates
from engine.planner.times import model_seconds
from engine.protocol.plan import WeightsPlan
from engine.protocol.report import MemoryPeak

_STAGES = ("encode", "transformer", "decode", "colour")
_OF_VAE = {  # what it calls: the last two where the decoder works in tiles
    "encode_slice": "encode",
    "decode_slice": "decode",
    "decode_low": "decode",
    "decode_high": "decode",
}
_FRAMES = 21
_SIZES = {"cpu": Size(128, 80), "cuda": Size(1920, 1080)}
_SCALE = 2
_GIB = 2**30


class _StageClock:
    """Seconds of each stage and its peak on the GPU; on a CPU CPU seconds."""

    def __init__(self, device: str) -> None:
        self._device = device
        self.restart()

    def restart(self) -> None:
        """Count from zero."""
        self.meter = StageMeter(time.process_time if self._device == "cpu" else time.monotonic)
        self.meter.restart()

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Work that counts for a stage."""

        def run(*args: Any, **options: Any) -> Any:
            self.meter.end("")  # between stages
            found = work(*args, **options)
            self.meter.end(stage)
            return found

        return run


def seedvr2_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each stage and one for the whole, for each length of shot."""
    options = replace(options, model="seedvr2-vae")
    for frames in options.frames or (5 if options.quick else _FRAMES,):
        yield from _rows(options, frames)


def _rows(options: BenchOptions, frames: int) -> Iterator[Row]:
    run = dit_run(replace(options, size=None), "3b")
    device = run.device
    layout = layout_of(options.size or _SIZES[device])
    of_vae = replace(vae_run(options, "decode"), form="fast", device=device)
    plan, planned = _plan(run, layout, frames, of_vae.dtype), dict[str, int]()
    if device == "cuda" and options.dit is None and options.config is None:
        plan = _fitted(plan, frames)
        needs = FAMILY.needs(plan)
        planned = needs.stages | {"colour": needs.weights + needs.finishing, "all": needs.device}
    clock = _StageClock(device)
    model = _model(run, of_vae, plan, clock)
    _run_shot(model, clock, layout.picture, frames)  # compiles kernels, tries convolutions out
    clock.restart()
    begin = time.perf_counter()
    _run_shot(model, clock, layout.picture, frames)
    wall = time.perf_counter() - begin
    clock.meter.end("")
    taken = clock.meter.seconds(wait=True)
    model.close()
    ceiling = matrix_ceiling(device, run.torch_dtype, quick=options.quick)
    flops = _flops(options, run, layout.padded, frames)
    common: Row = {"frames": frames, "size": str(layout.picture)}
    for stage in _STAGES:
        seconds = taken[stage]
        row: Row = {"stage": stage, **common, "s_per_frame": seconds / frames}
        if stage in flops and seconds:
            speed = flops[stage] / seconds
            row |= {"tflops": speed / 1e12, "of_ceiling": speed / ceiling}
        yield row | _memory(clock.meter.peaks.get(stage), planned.get(stage))
    row = {"stage": "all", **common, "s_per_frame": wall / frames, "frames_per_s": frames / wall}
    row |= _memory(clock.meter.largest, planned.get("all"))
    if device == "cuda":
        row["note"] = plan.line
    yield row


def _memory(peak: MemoryPeak | None, planned: int | None) -> Row:
    """Memory that was taken, with the weights, and that the planner counts; {} on a CPU."""
    row: Row = {}
    if peak is not None:
        row = {
            "requested_gib": peak.requested / _GIB,
            "allocated_gib": peak.allocated / _GIB,
            "reserved_gib": peak.reserved / _GIB,
        }
    return row if planned is None else row | {"planned_gib": planned / _GIB}


def _fitted(plan: SeedVr2Plan, frames: int) -> SeedVr2Plan:
    """The plan as the planner fits it into GPU and main memory, streamed weights included."""
    budget, rates = job_budget(), load_rates()

    def peak(work: Any) -> PhaseMemory:
        host = FAMILY.needs(work).host + requirements.streamed_bytes(work)
        return PhaseMemory(FAMILY.needs(work).device, PROGRAM_BYTES + host)

    def seconds(work: Any) -> float:
        return model_seconds(work, frames, budget, rates)

    room = Room(budget=budget, frames=frames, peak=peak, seconds=seconds)
    return FAMILY.fitted(plan, room)


def _model(run: DitRun, of_vae: VaeRun, plan: SeedVr2Plan, clock: _StageClock) -> SeedVr2:
    vae = of_vae.built()
    assert isinstance(vae, FastVae)
    for name, stage in _OF_VAE.items():
        setattr(vae, name, clock.timed(stage, getattr(vae, name)))
    load = LoadOptions(blocks_on_device=plan.blocks_on_device, pin_bytes=plan.pin_bytes)
    dit = replace(run, form="fast").loaded(load)
    dit.forward = clock.timed("transformer", dit.forward)  # type: ignore[method-assign]
    _, text = run.input()
    return SeedVr2(plan, vae, dit, text)


def _plan(run: DitRun, layout: FrameLayout, frames: int, vae_dtype: str) -> SeedVr2Plan:
    no_file = WeightsPlan(path=Path())
    return SeedVr2Plan(
        model="seedvr2-3b",
        device=run.device,
        dtype=run.dtype,
        threads=run.threads,
        dit=no_file,
        vae=no_file,
        text=no_file,
        size=layout.picture,
        padded=layout.padded,
        reflected=layout.reflected,
        clip=1 + -(-(frames - 1) // 4),
        shared=0,
        vae_dtype=vae_dtype,
    )


def _run_shot(model: SeedVr2, clock: _StageClock, size: Size, frames: int) -> None:
    """One shot of noise from the first frame to the last."""
    generator = torch.Generator().manual_seed(1)
    shot = model.shot(0, 0, lambda _: None)
    finish = clock.timed("colour", model.finished)
    with torch.inference_mode():
        pushed = 0
        while pushed < frames:
            count = min(frames - pushed, model.slice_frames + (pushed == 0))
            shape = (count, 3, size.height // _SCALE, size.width // _SCALE)
            pushed += count
            noise = torch.rand(shape, generator=generator)
            for part in shot.push(noise, last=pushed == frames):
                finish(part.frames, torch.zeros((len(part.frames), *shape[1:])))


def _flops(options: BenchOptions, run: DitRun, padded: Size, frames: int) -> dict[str, float]:
    encode, decode = (
        clip_use(VAES, options.vae_config, VaeUse(), side, padded, frames).operations
        for side in ("encode", "decode")
    )
    grid = (1 + -(-(frames - 1) // 4), padded.height // 8, padded.width // 8)
    return {
        "encode": float(encode),
        "transformer": float(forward_flops(run.config, grid, random_dit.TEXT_LENGTH).total),
        "decode": float(decode),
    }
