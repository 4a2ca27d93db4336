"""Costs of video VAEs, transformers and Lite, with random weights. Loads no PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from engine.bench.cases.runs import dit_run, vae_run
from engine.bench.options import BenchOptions
from engine.bench.timing.clock import Costs, cost_of
from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.hardware import devices
from engine.models.lite.upscaler import multiplications, upscaler
from engine.models.seedvr2.dit import random_dit

_VAE_SIZE = {"cpu": Size(128, 128), "cuda": Size(768, 768)}
_DIT_SIZE = {"cpu": Size(320, 192), "cuda": Size(1280, 720)}
_LITE_SIZE = Size(640, 360)
_FRAMES = 5
_TERA = 1e12

Step = tuple[Message, Callable[[], Costs]]


def steps(device: str, capability: tuple[int, int] | None = None) -> Iterator[Step]:
    """Names of the steps, and work that returns costs by their names in `rates.COSTS`.

    Args:
        device: "cpu" or "cuda".
        capability: Compute capability of the GPU.
    """
    vae, transformer = message("bench.step.vae"), message("bench.step.transformer")
    if device == "cuda":
        has_bf16 = (capability or (8, 0)) >= (8, 0)
        yield vae, partial(_vae, device, "float16")
        yield transformer, partial(_transformer, device, "bfloat16" if has_bf16 else "float16")
        yield message("bench.step.lite"), partial(_lite, device, "float16")
    else:
        dtype = "bfloat16" if devices.cpu_has_bf16() else "float32"
        yield vae, partial(_vae, device, "float32")
        yield transformer, partial(_transformer, device, dtype)


def _vae(device: str, dtype: str) -> Costs:
    """The fast variant of the smallest published decoder; the others have the same layers."""
    options = BenchOptions(model="wan-2x", device=device, dtype=dtype, size=_VAE_SIZE[device])
    run = replace(vae_run(options, "decode"), form="fast", frames=_FRAMES)
    runs = 5 if device == "cuda" else 2
    return {f"vae-{dtype}": cost_of(run.ready(), run.flops / _TERA, device=device, runs=runs)}


def _transformer(device: str, dtype: str) -> Costs:
    """The fast variant of a narrower one, that a processor can run in seconds."""
    dit = random_dit.MIDDLE["3b"]
    options = BenchOptions(device=device, dtype=dtype, size=_DIT_SIZE[device], dit=dit)
    run = replace(dit_run(options, "3b"), form="fast", frames=_FRAMES)
    cost = cost_of(run.ready(), run.operations / _TERA, device=device, runs=3)
    return {f"transformer-{dtype}": cost}


def _lite(device: str, dtype: str) -> Costs:
    """Lite on a GPU, per operation like the other models."""
    model = upscaler(2, device, dtype)
    frames = torch.rand(2, 3, _LITE_SIZE.height, _LITE_SIZE.width, device=device)
    flops = 2 * multiplications(2, _LITE_SIZE, len(frames))

    def work() -> None:
        with torch.inference_mode():
            model.upscale(frames)

    return {f"lite-{dtype}": cost_of(work, flops / _TERA, device=device)}
