"""Cases `models` and `community`: a row with the speed of each model on this computer.

Large models have random weights. `community` compares community models with spandrel's plain call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.bench.memory import peak_bytes
from engine.bench.report import Row
from engine.bench.run import BenchOptions, vae_models
from engine.bench.timing import Effort, compare, matrix_ceiling, measure
from engine.bench.workload import VaeRun, device_of, vae_run
from engine.core.geometry import Size
from engine.core.messages import message
from engine.files.model_files import named
from engine.models import registry
from engine.models.community.family import FAMILY
from engine.models.community.library import spandrel, warnings_ignored
from engine.models.community.network import load
from engine.models.community.plan import LEAST_OVERLAP, CommunityPlan, NetworkCost
from engine.models.community.upscaler import CommunityUpscaler, called, with_cost
from engine.models.contracts import BenchWork
from engine.models.video_vae.slicing import SlicedVae
from engine.models.video_vae.vae_use import Side
from engine.tiling.blend import Blender
from engine.tiling.grid import tile_grid

_MIB = 2**20
_FRAMES = 5
_VAE_PX = {"cpu": 64, "cuda": 512}
_SEED = 20260101
_TILE = 6 * LEAST_OVERLAP  # px; smaller ones, down to two thirds of it, are planned in need only
_FRAME = Size(2 * _TILE - LEAST_OVERLAP, _TILE)  # two of them


def model_rows(options: BenchOptions) -> Iterator[Row]:
    """Speed, share of what a large product of matrices reaches, and peak, for each model.

    `megapixels_per_second` are those of the result (of the source when encoding, of the frames a
    latent stands for in a transformer), for a second that passes; `ceiling_percent` compares
    operations a CPU second, on a GPU a second of the GPU. `peak_mib` is what tensors take above
    the loaded model. The VAEs have the published sizes; transformers are narrower on a CPU.
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
    warm_ups = 1 if device == "cuda" else 0
    timing = measure(work.compute, device, runs=options.rounds(3), warm_ups=warm_ups)
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
    request, families = options.request(device_of(options)), registry.families()
    for family in families:
        if family.is_built_in:
            yield from family.benchmarks(request)
    for model, about in vae_models().items():
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
        compute=run.work_of(_built(replace(run, side="decode"))),
        dtype=run.dtype,
        megapixels=_FRAMES * size.pixels * larger**2 / 1e6,
        operations=run.operations,
    )


@lru_cache(maxsize=1)
def _built(run: VaeRun) -> SlicedVae:
    """Both sides of a VAE, made once."""
    return run.built()


# --- community models


@dataclass(frozen=True, slots=True)
class Network:
    """A network of spandrel's in a published size; the result is four times as wide and high."""

    architecture: str  # spandrel's id
    made_by: str  # name of its class
    arguments: dict[str, Any]  # arguments of the class

    def write(self, path: Path) -> None:
        """A model file with random weights."""
        spandrel()
        module = import_module(f"spandrel.architectures.{self.architecture}")
        with torch.inference_mode(False), torch.random.fork_rng(), warnings_ignored():
            torch.manual_seed(_SEED)
            made = getattr(module, self.made_by)(**self.arguments)
            save_file({name: value.contiguous() for name, value in made.state_dict().items()}, path)


NETWORKS = {
    "Compact, 16 convolutions of 64": Network(
        "Compact", "Compact", {"num_feat": 64, "num_conv": 16, "upscale": 4}
    ),
    "ESRGAN, 6 blocks of 64": Network(
        "ESRGAN", "ESRGAN", {"num_filters": 64, "num_blocks": 6, "scale": 4}
    ),
    "SPAN, 48 channels": Network(
        "SPAN",
        "SPAN",
        {"num_in_ch": 3, "num_out_ch": 3, "feature_channels": 48, "upscale": 4},
    ),
    "SwinIR, lightweight": Network(
        "SwinIR",
        "SwinIR",
        {
            "embed_dim": 60,
            "depths": [6] * 4,
            "num_heads": [6] * 4,
            "window_size": 8,
            "mlp_ratio": 2.0,
            "upscale": 4,
            "upsampler": "pixelshuffledirect",
        },
    ),
    "RealPLKSR, 28 blocks of 64": Network(
        "PLKSR", "RealPLKSR", {"dim": 64, "n_blocks": 28, "upscaling_factor": 4, "kernel_size": 17}
    ),
}


def community_rows(options: BenchOptions) -> Iterator[Row]:
    """Two rows for each network: one frame whole, and the same frame in tiles.

    `speed` is seconds of spandrel's plain call on the whole frame over ours, above 1 ours is
    faster: both in turns, each first as often. Tiles compute what they share twice: `operations`
    is theirs over those of the whole frame, and `speed_per_operation` their product. `planned` is
    the planned peak over the peak of all tensors above the loaded network.
    """
    size = options.size or _FRAME
    for title, network in NETWORKS.items():
        with TemporaryDirectory() as folder:
            path = Path(folder) / "network.safetensors"
            network.write(path)
            yield from ({"model": title, **row} for row in _compared(path, size, options))
        gc.collect()


def _compared(path: Path, frame_size: Size, options: BenchOptions) -> Iterator[Row]:
    device, weights = device_of(options), named(path)
    facts, call = called(weights, half=False)
    upscaler = CommunityUpscaler(load(weights), facts, call, device)
    with warnings_ignored():
        plain = spandrel().ModelLoader(device).load_from_file(path)
    frame = torch.rand(1, 3, frame_size.height, frame_size.width).to(device)
    whole = CommunityPlan(
        device="cuda" if device == "cuda" else "cpu",
        frame=frame_size,
        tile=frame_size,
        overlap=LEAST_OVERLAP,
        weights=weights,
        network=facts,
        call=call,
        cost=NetworkCost(),
    )
    edge = Size(min(_TILE, frame_size.width), min(_TILE, frame_size.height))
    whole = with_cost(whole)
    for plan in (whole, with_cost(replace(whole, tile=edge))):
        yield _community_row(
            plan, _work(plan, upscaler, frame), lambda: plain(frame), whole, options
        )


def _community_row(
    plan: CommunityPlan,
    ours: Callable[[], Tensor],
    plain: Callable[[], object],
    whole: CommunityPlan,
    options: BenchOptions,
) -> Row:
    effort = Effort.exactly(options.runs) if options.runs else Effort(seconds=30.0)
    peak = peak_bytes(ours, plan.device)  # the first calls
    plain()
    ratio = compare(plain, ours, plan.device, effort)
    operations = plan.cost.operations * plan.tiles / whole.cost.operations
    return {
        "frame": str(plan.frame),
        "tiles": plan.tiles,
        "seconds": measure(ours, plan.device, runs=1).seconds,
        "speed": ratio.value,
        "scatter": ratio.scatter or 0.0,
        "operations": operations,
        "speed_per_operation": ratio.value * operations,
        "peak_mib": peak / _MIB,
        "planned": FAMILY.needs(plan).working["upscale"] / peak,
    }


def _work(plan: CommunityPlan, upscaler: CommunityUpscaler, frame: Tensor) -> Callable[[], Tensor]:
    """A frame as a job enlarges it."""

    def work() -> Tensor:
        canvas, overlap = plan.canvas, plan.overlap * plan.scale
        blender = Blender(canvas, margin=upscaler.halo * plan.scale)
        for box in tile_grid(plan.frame, plan.tile, plan.overlap):
            tile = upscaler.upscale(frame[..., box.y : box.bottom, box.x : box.right])
            blender.add(tile, box.scaled(plan.scale), overlap)
        return blender.result()

    return work
