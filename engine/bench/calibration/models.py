"""What the operations of video VAEs and transformers cost, with random weights. Loads no PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch

from engine.bench.cases import dit_runs, vae_runs
from engine.bench.options import BenchOptions
from engine.bench.timing.unit_costs import Costs, cost_of
from engine.core.geometry import Size
from engine.hardware import devices
from engine.models import registry
from engine.models.lite.config import config_from_shapes
from engine.models.lite.cost import lite_multiplications
from engine.models.seedvr2.dit.cost import forward_flops
from engine.protocol.plan import ModelPlan

_VAE_ON_CPU, _VAE_ON_CARD = Size(128, 128), Size(768, 768)
_DIT_ON_CPU, _DIT_ON_CARD = Size(320, 192), Size(1280, 720)
_LITE_SIZE = Size(640, 360)
_FRAMES = 5
_TERA = 1e12

Step = tuple[str, Callable[[], Costs]]


def steps(device: str, capability: tuple[int, int] | None = None) -> Iterator[Step]:
    """What is done, in words, and the work that gives costs by their names in `rates.COSTS`.

    Args:
        device: "cpu" or "cuda"; on a card the costs are device seconds. Not seen on a card.
        capability: Of that card.
    """
    on_card = device == "cuda"
    yield "video VAE", partial(_vae, device, "float16" if on_card else "float32")
    if on_card:
        wide = (capability or (8, 0)) >= (8, 0)
        yield "transformer", partial(_transformer, device, "bfloat16" if wide else "float16")
        yield "Lite", partial(_lite, device, "float16")
    else:
        has_bf16 = devices.cpu_has_bf16()
        yield "transformer", partial(_transformer, device, "bfloat16" if has_bf16 else "float32")


def _vae(device: str, dtype: str) -> Costs:
    """The fast form of the smallest published decoder; the others share its parts."""
    options = BenchOptions(model="wan-2x", device=device, dtype=dtype)
    run = replace(
        vae_runs.base_run(options, "decode"),
        form="fast",
        frames=_FRAMES,
        size=_VAE_ON_CARD if device == "cuda" else _VAE_ON_CPU,
    )
    work = vae_runs.work_of(run, vae_runs.build(run))
    runs = 5 if device == "cuda" else 2
    return {f"vae-{dtype}": cost_of(work, run.flops / _TERA, device=device, runs=runs)}


def _transformer(device: str, dtype: str) -> Costs:
    """The fast form of a middle-sized one, as wide as a processor can do in seconds."""
    options = BenchOptions(
        device=device,
        dtype=dtype,
        size=_DIT_ON_CARD if device == "cuda" else _DIT_ON_CPU,
        dit=dit_runs.MIDDLE["3b"],
    )
    run = replace(dit_runs.base_run(options, "3b"), form="fast", frames=_FRAMES)
    work = dit_runs.work_of(run, dit_runs.build(run))
    flops = forward_flops(run.config, run.latent_shape, dit_runs.TEXT_LENGTH).total
    return {f"transformer-{dtype}": cost_of(work, flops / _TERA, device=device, runs=3)}


def _lite(device: str, dtype: str) -> Costs:
    """Lite on a card, where it is counted in operations as the others are."""
    weights = registry.LITE.weights_name(2, "faithful")
    plan = ModelPlan(model="lite", scale=2, weights=weights, device=device, dtype=dtype)
    model = registry.lite(plan)
    frames = torch.rand(2, 3, _LITE_SIZE.height, _LITE_SIZE.width, device=device)
    config = config_from_shapes(registry.weights_shapes(weights))
    flops = 2 * lite_multiplications(config, _LITE_SIZE, frames=len(frames))

    def work() -> None:
        with torch.inference_mode():
            model.upscale(frames)

    return {f"lite-{dtype}": cost_of(work, flops / _TERA, device=device)}
