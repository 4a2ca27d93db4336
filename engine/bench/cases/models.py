"""Case `models`: a row for each model, as fast as it is here; large ones have random weights."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import torch

from engine.bench.cases.runs import (
    build_vae,
    device_of,
    vae_run,
    vae_work,
)
from engine.bench.cases.vae_models import VaeRun, models
from engine.bench.options import BenchOptions, request_of
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.bench.timing.peak_rates import matrix_ceiling
from engine.bench.timing.profiler import peak_bytes
from engine.core.geometry import Size
from engine.core.messages import message
from engine.models import registry
from engine.models.contracts import BenchWork
from engine.models.video_vae.measured import Side

if TYPE_CHECKING:
    from engine.models.video_vae.slicing import SlicedVae

_MIB = 2**20
_FRAMES = 5
_VAE_PX = {"cpu": 64, "cuda": 512}


def model_rows(options: BenchOptions) -> Iterator[Row]:
    """Speed, share of what a large product of matrices reaches, and peak, for each model.

    `megapixels_per_second` are those of the result (of the source when encoding, of the frames a
    latent stands for in a transformer), for a second that passes; `ceiling_percent` compares
    operations a CPU second, on a GPU a second of the GPU. `peak_mib` is what tensors take above
    the loaded model. The VAEs have the published sizes; transformers are narrower on a processor.
    """
    for title, make in _models(options):
        try:
            row = _measured(options, make())
        except torch.OutOfMemoryError:
            row = {"note": message("bench.out-of-memory")}
        yield {"model": title, **row}
        gc.collect()
    _built.cache_clear()


def _measured(options: BenchOptions, work: BenchWork) -> Row:
    device = device_of(options)
    peak = peak_bytes(work.compute, device)
    runs = options.runs or (1 if options.quick else 3)
    timing = measure(work.compute, device, runs=runs, warm_ups=1 if device == "cuda" else 0)
    rate = work.operations / timing.seconds
    return {
        "dtype": work.dtype,
        "megapixels_per_second": work.megapixels / timing.wall_s,
        "seconds": timing.seconds,
        "tflop_per_s": rate / 1e12,
        "ceiling_percent": 100 * rate / _ceiling(device, work.dtype),
        "peak_mib": peak / _MIB,
    }


@cache
def _ceiling(device: str, dtype: str) -> float:
    return matrix_ceiling(device, getattr(torch, dtype))


def _models(options: BenchOptions) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
    """Built-in models, VAEs of all families, then what else the families have."""
    request, families = request_of(options, device_of(options)), registry.families()
    for family in families:
        if family.is_built_in:
            yield from family.benchmarks(request)
    for model, about in models().items():
        for side in about.sides:
            yield f"{about.title}, {side}", partial(_vae, replace(options, model=model), side)
    for family in families:
        if not family.is_built_in:
            yield from family.benchmarks(request)


def _vae(options: BenchOptions, side: Side) -> BenchWork:
    px = _VAE_PX[device_of(options)] // (2 if options.quick else 1)
    base = vae_run(options, side)
    size = options.size or Size(px, px)
    run = replace(base, form="fast", frames=_FRAMES, size=size)
    larger = run.config.upscale if side == "decode" else 1
    return BenchWork(
        compute=vae_work(run, _built(replace(run, side="decode"))),
        dtype=run.dtype,
        megapixels=_FRAMES * size.pixels * larger**2 / 1e6,
        operations=run.flops,
    )


@lru_cache(maxsize=1)
def _built(run: VaeRun) -> SlicedVae:
    """Both sides of a VAE, made once."""
    return build_vae(run)
