"""Case `models`: a row for each model, as fast as it is here; large ones have random weights."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

import torch

from engine.bench.cases.runs import (
    TEXT_LENGTH,
    Kind,
    build_dit,
    build_vae,
    device_of,
    dit_run,
    dit_work,
    vae_run,
    vae_work,
)
from engine.bench.cases.vae_models import MODELS, Side, VaeRun
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.bench.timing.peak_rates import matrix_ceiling
from engine.bench.timing.profiler import peak_bytes
from engine.core.geometry import Size
from engine.core.messages import message
from engine.hardware import devices
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_multiplications
from engine.models.seedvr2.dit.cost import forward_flops
from engine.protocol.plan import ModelPlan

if TYPE_CHECKING:
    from engine.bench.cases.vae_models import Vae

_MIB = 2**20
_FRAMES = 5
_LITE_FRAMES = 2
_SIDES: tuple[Side, ...] = ("encode", "decode")
_VAE_PX = {"cpu": 64, "cuda": 512}
_LITE_SIZE = {"cpu": Size(480, 272), "cuda": Size(1920, 1080)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelWork:
    """One model's work: `flops` operations for `megapixels` of frames."""

    compute: Callable[[], object]
    dtype: str
    megapixels: float
    flops: float


def model_rows(options: BenchOptions) -> Iterator[Row]:
    """Speed, share of what a large product of matrices reaches, and peak, for each model.

    `megapixels_per_second` are those of the result (of the source when encoding, of the frames a
    latent stands for in a transformer), for a second that passes; `ceiling_percent` compares
    operations a CPU second, on a card a second of the card. `peak_mib` is what tensors take above
    the loaded model. The VAEs are the published sizes; the transformers too on a card, narrower
    ones on a processor.
    """
    for title, make in _models(options):
        try:
            row = _measured(options, make())
        except torch.OutOfMemoryError:
            row = {"note": message("bench.out-of-memory")}
        yield {"model": title, **row}
        gc.collect()
    _built.cache_clear()


def _measured(options: BenchOptions, work: _ModelWork) -> Row:
    device = device_of(options)
    peak = peak_bytes(work.compute, device)
    runs = options.runs or (1 if options.quick else 3)
    timing = measure(work.compute, device, runs=runs, warm_ups=1 if device == "cuda" else 0)
    rate = work.flops / timing.seconds
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


def _models(options: BenchOptions) -> Iterator[tuple[str, Callable[[], _ModelWork]]]:
    for scale in registry.LITE.scales:
        yield f"Lite {scale}x", partial(_lite, options, scale)
    for model, about in MODELS.items():
        for side in _SIDES if model != "wan-2x" else _SIDES[1:]:  # it encodes as Wan 2.1 does
            yield f"{about.title}, {side}", partial(_vae, replace(options, model=model), side)
    kinds: tuple[Kind, ...] = ("3b", "7b")
    for kind in kinds:
        yield f"SeedVR2 transformer, {kind} kind", partial(_dit, options, kind)


def _lite(options: BenchOptions, scale: int) -> _ModelWork:
    device = device_of(options)
    half = "float16" if device == "cuda" else "bfloat16" if devices.cpu_has_bf16() else "float32"
    weights = registry.LITE.weights_name(scale, "faithful")
    plan = ModelPlan(
        model="lite", scale=scale, weights=weights, device=device, dtype=options.dtype or half
    )
    model, config = registry.lite(plan), config_from_shapes(registry.weights_shapes(weights))
    size = options.size or _LITE_SIZE[device]
    frames = torch.rand(_LITE_FRAMES, 3, size.height, size.width, device=device)
    return _ModelWork(
        compute=partial(model.upscale, frames),
        dtype=plan.dtype,
        megapixels=_LITE_FRAMES * size.pixels * scale**2 / 1e6,
        flops=2 * lite_multiplications(config, size, _LITE_FRAMES),
    )


def _vae(options: BenchOptions, side: Side) -> _ModelWork:
    px = _VAE_PX[device_of(options)] // (2 if options.quick else 1)
    base = vae_run(options, side)
    size = options.size or Size(px, px)
    run = replace(base, form="fast", frames=_FRAMES, size=size)
    larger = run.config.upscale if options.model == "wan-2x" else 1
    return _ModelWork(
        compute=vae_work(run, _built(replace(run, side="decode"))),
        dtype=run.dtype,
        megapixels=_FRAMES * size.pixels * larger**2 / 1e6,
        flops=run.flops,
    )


@lru_cache(maxsize=1)
def _built(run: VaeRun) -> Vae:
    """Both sides of a VAE, made once."""
    return build_vae(run)


def _dit(options: BenchOptions, kind: Kind) -> _ModelWork:
    small = replace(options, quick=device_of(options) == "cpu" or options.quick)
    run = replace(dit_run(small, kind), form="fast", frames=_FRAMES)
    return _ModelWork(
        compute=dit_work(run, build_dit(run)),
        dtype=run.dtype,
        megapixels=_FRAMES * run.size.pixels / 1e6,
        flops=forward_flops(run.config, run.latent_shape, TEXT_LENGTH).total,
    )
