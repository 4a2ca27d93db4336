"""Case `round-trip`: what is left of a real clip after a VAE encoded and decoded it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.cases.vae_models import VaeRun, config_of
from engine.bench.cases.vae_runs import (
    base_run,
    build,
    capability_of,
    work_of,
)
from engine.bench.options import BenchOptions
from engine.bench.psnr import Picture, psnr, ssim
from engine.bench.report.machine import Row
from engine.bench.timing.peak_rates import clocked
from engine.bench.timing.process_memory import memory_of
from engine.core.errors import SettingsError, WeightsMissing
from engine.core.geometry import Size
from engine.model_files.store import Store
from engine.models.planned_files import named, planned
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import ALL, EXACT, VaeSwitches

if TYPE_CHECKING:
    from engine.bench.cases.vae_models import Vae

_FRAMES, _QUICK_FRAMES = 17, 5
_QUICK_SIZE = Size(256, 256)
_MIB = 2**20
_MEANINGLESS = "random numbers: psnr_db and ssim mean nothing"


def round_trip_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for the plain form, the fast one, and the fast one with each switch turned over.

    PSNR and SSIM are means over the frames, of luma in 8 bits; pictures that come out larger are
    averaged down first. `error` is the largest difference from the pictures of the first row, in
    units of their range.

    Raises:
        SettingsError: No clip is named.
        InputError: It cannot be read, or is too small.
        WeightsError: The model's file is not here, or not right.
    """
    path = options.clip
    if path is None:
        raise SettingsError("There is no clip to measure on.", hint="Name one with --clip FILE.")
    weights = None if options.random_weights else weights_of(options)
    if weights is not None:
        options = replace(options, config=config_of(options.model, weights))
    base, clip = _base(options, path)
    first: Tensor | None = None
    for title, run in variants(options, base):
        pictures, figures = _trip(options, run, clip, weights)
        first = pictures if first is None else first
        row: Row = {"form": title, "frames": run.frames, "size": str(run.size), "dtype": run.dtype}
        row |= likeness(clip, pictures) | {"error": float((pictures - first).abs().max() / 2)}
        yield row | figures | ({} if weights is not None else {"note": _MEANINGLESS})


def weights_of(options: BenchOptions) -> WeightsPlan:
    """The file of the model: the user's own, else the published one, read and found right.

    Raises:
        WeightsMissing, HashMismatch: It is not here, or another one.
    """
    if options.vae is not None:
        return named(options.vae)
    store = Store()
    weights = planned(store.best_vae(options.vae_model.published), store)
    if not weights.is_here:
        raise WeightsMissing(
            f"The file of the {options.vae_model.title} is not on this machine.",
            hint=f"Get it with `python -m engine models download {weights.published}`, or name "
            "your own with --vae; --random-weights measures time and memory alone.",
            file=weights.published,
        )
    if weights.published:
        store.ready(weights.published)
    return weights


def variants(options: BenchOptions, base: VaeRun) -> Iterator[tuple[str, VaeRun]]:
    """Name and run of everything that is compared.

    Switches that are named are turned over one by one; where none is, all that do something here,
    unless it shall be quick or one form is asked for.
    """
    fast = replace(base, form="fast")
    if options.form in ("plain", "both"):
        yield "plain", base
    if options.form in ("fast", "both"):
        yield "fast", fast
    chosen = VaeSwitches.known((*options.without, *options.only))
    takes_all = not chosen and not options.quick and options.form == "both"
    usual, capability = VaeSwitches(), capability_of(base.device)
    for entry in usual.optimisations():
        wanted = takes_all or entry.name in chosen
        if wanted and entry.works_on(base.device, capability):
            title = f"{'without' if entry.default else 'with'} {entry.name}"
            yield title, replace(fast, switches=usual.changed(entry.name, not entry.default))
    if ALL in chosen or EXACT in chosen:
        yield f"without {ALL}", replace(fast, switches=VaeSwitches.all_off())


def likeness(clip: Tensor, pictures: Tensor) -> Row:
    """Means over the frames of [1, 3, T, H, W], both nominally in [-1, 1]."""
    factor = pictures.shape[-1] // clip.shape[-1]
    reduced = F.avg_pool3d(pictures.clamp(-1, 1), (1, factor, factor))
    pairs = [
        (_picture(a), _picture(b)) for a, b in zip(_frames(clip), _frames(reduced), strict=True)
    ]
    return {
        "psnr_db": float(np.mean([psnr(*pair) for pair in pairs])),
        "ssim": float(np.mean([ssim(*pair) for pair in pairs])),
    }


def _base(options: BenchOptions, path: Path) -> tuple[VaeRun, Tensor]:
    """The plain run, and the clip [1, 3, T, H, W] float32 in [-1, 1]."""
    from engine.bench.cases.film_clip import film_clip, middle

    base, config = base_run(options, "encode"), options.vae_config
    frames = max(options.frames or (_QUICK_FRAMES if options.quick else _FRAMES,))
    most = options.size or (_QUICK_SIZE if options.quick else None)
    found = film_clip(path, frames, config.temporal_factor)
    clip = middle(found, most, config.spatial_factor).transpose(0, 1)[None].contiguous()
    return replace(base, frames=clip.shape[2], size=Size(clip.shape[4], clip.shape[3])), clip


def _trip(
    options: BenchOptions, run: VaeRun, clip: Tensor, weights: WeightsPlan | None
) -> tuple[Tensor, Row]:
    """There and back: pictures [1, 3, T, H, W] float32 on the processor, and what it took."""
    vae = build(run) if weights is None else run.loaded(weights.path)
    vae.enable_slicing(run.slice_frames)
    given = clip.to(run.device, run.torch_dtype)
    latent, encoding = _way(options, replace(run, side="encode"), vae, given)
    pictures, decoding = _way(options, replace(run, side="decode"), vae, latent)
    del vae
    gc.collect()
    return pictures.float().cpu(), encoding | decoding


def _way(options: BenchOptions, run: VaeRun, vae: Vae, given: Tensor) -> tuple[Tensor, Row]:
    """One way, run once, on a card after one run that does not count."""
    on_card = run.device == "cuda"
    work = work_of(run, vae, given)
    results: list[Tensor] = []

    def keep() -> None:
        results[:] = [work()]

    if on_card:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_card else 0
    timing = clocked(keep, run.device, runs=1, warm_ups=int(on_card))
    row: Row = {f"{run.side}_s": timing.seconds}
    if on_card:
        row[f"{run.side}_peak_mib"] = (torch.cuda.max_memory_allocated() - before) / _MIB
    elif options.memory:
        row[f"{run.side}_peak_mib"] = memory_of(run).peak_bytes / _MIB
    return results[0], row


def _frames(clip: Tensor) -> list[Tensor]:
    return list(clip[0].unbind(1))


def _picture(frame: Tensor) -> Picture:
    """[3, H, W] in [-1, 1] to uint8 [H, W, 3]."""
    codes = frame.float().add(1).mul(127.5).round_().to(torch.uint8)
    return np.ascontiguousarray(codes.permute(1, 2, 0).numpy())
