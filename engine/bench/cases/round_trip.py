"""Case `round-trip`: a real clip, encoded and decoded by a VAE, compared with itself."""

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

from engine.bench.accuracy import Picture, psnr, ssim
from engine.bench.cases.runs import build_vae, capability_of, vae_run, vae_work
from engine.bench.cases.vae_models import VaeRun
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import measure
from engine.bench.timing.process_memory import memory_of
from engine.core.errors import SettingsError, WeightsMissing
from engine.core.geometry import Size
from engine.core.messages import message
from engine.files.model_files import Store, named, planned
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import ALL, EXACT, VaeSwitches

if TYPE_CHECKING:
    from engine.models.video_vae.slicing import SlicedVae

_FRAMES, _QUICK_FRAMES = 17, 5
_QUICK_SIZE = Size(256, 256)
_MIB = 2**20


def round_trip_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for the plain variant, the fast one, and the fast one with each switch changed.

    PSNR and SSIM are means over the frames, of luma in 8 bits; results of 2x the size are averaged
    down first. `error` is the largest difference from the first row, over the range.

    Raises:
        SettingsError: No clip is named.
        InputError: It cannot be read, or is too small.
        WeightsError: The model's file is missing or wrong.
    """
    path = options.clip
    if path is None:
        raise SettingsError("no-clip")
    weights = None if options.random_weights else weights_of(options)
    if weights is not None:
        options = replace(options, config=options.vae_model.config_of(weights))
    base, clip = clip_run(options, path)
    first: Tensor | None = None
    for title, run in variants(options, base):
        result, figures = _round_trip(options, run, clip, weights)
        first = result if first is None else first
        row: Row = {"form": title, "frames": run.frames, "size": str(run.size), "dtype": run.dtype}
        row |= similarity(clip, result) | {"error": float((result - first).abs().max() / 2)}
        note = {"note": message("bench.random-weights")} if weights is None else {}
        yield row | figures | note


def weights_of(options: BenchOptions) -> WeightsPlan:
    """The file of the model: the user's own, else the published one, with its hash checked.

    Raises:
        WeightsMissing, HashMismatch: It is missing, or another file.
    """
    if options.vae is not None:
        return named(options.vae)
    store = Store()
    weights = planned(store.best_vae(options.vae_model.published), store)
    if not weights.is_here:
        raise WeightsMissing("to-measure", model=options.vae_model.title, file=weights.published)
    if weights.published:
        store.ready(weights.published)
    return weights


def variants(options: BenchOptions, base: VaeRun) -> Iterator[tuple[str, VaeRun]]:
    """Title and run of everything that is compared.

    Named switches are changed one by one; where none is named, all that work on this device,
    except with --quick or for a single variant.
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
        is_measured = takes_all or entry.name in chosen
        if is_measured and entry.works_on(base.device, capability):
            title = f"{'without' if entry.default else 'with'} {entry.name}"
            yield title, replace(fast, switches=usual.changed(entry.name, not entry.default))
    if ALL in chosen or EXACT in chosen:
        yield f"without {ALL}", replace(fast, switches=VaeSwitches.all_off())


def similarity(clip: Tensor, result: Tensor) -> Row:
    """Means over the frames of [1, 3, T, H, W], both nominally in [-1, 1]."""
    factor = result.shape[-1] // clip.shape[-1]
    reduced = F.avg_pool3d(result.clamp(-1, 1), (1, factor, factor))
    frames = zip(clip[0].unbind(1), reduced[0].unbind(1), strict=True)
    pairs = [(_picture(before), _picture(after)) for before, after in frames]
    return {
        "psnr_db": float(np.mean([psnr(*pair) for pair in pairs])),
        "ssim": float(np.mean([ssim(*pair) for pair in pairs])),
    }


def clip_run(options: BenchOptions, path: Path) -> tuple[VaeRun, Tensor]:
    """The plain run, and the clip [1, 3, T, H, W] float32 in [-1, 1]."""
    from engine.bench.clips import centre_crop, first_frames

    base, config = vae_run(options, "encode"), options.vae_config
    frames = max(options.frames or (_QUICK_FRAMES if options.quick else _FRAMES,))
    most = options.size or (_QUICK_SIZE if options.quick else None)
    found = first_frames(path, frames, config.temporal_factor)
    clip = centre_crop(found, most, config.spatial_factor).transpose(0, 1)[None].contiguous()
    return replace(base, frames=clip.shape[2], size=Size(clip.shape[4], clip.shape[3])), clip


def _round_trip(
    options: BenchOptions, run: VaeRun, clip: Tensor, weights: WeightsPlan | None
) -> tuple[Tensor, Row]:
    """The result [1, 3, T, H, W] float32 in main memory, and figures of both sides."""
    vae = build_vae(run) if weights is None else run.loaded(weights.path)
    vae.enable_slicing(run.slice_frames)
    frames = clip.to(run.device, run.torch_dtype)
    latent, encoding = _measured(options, replace(run, side="encode"), vae, frames)
    result, decoding = _measured(options, replace(run, side="decode"), vae, latent)
    del vae
    gc.collect()
    return result.float().cpu(), encoding | decoding


def _measured(
    options: BenchOptions, run: VaeRun, vae: SlicedVae, given: Tensor
) -> tuple[Tensor, Row]:
    """One side, run once; on a GPU after one run that does not count."""
    on_gpu = run.device == "cuda"
    work = vae_work(run, vae, given)
    results: list[Tensor] = []

    def keep() -> None:
        results[:] = [work()]

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else 0
    timing = measure(keep, run.device, runs=1, warm_ups=int(on_gpu))
    row: Row = {f"{run.side}_s": timing.seconds}
    if on_gpu:
        row[f"{run.side}_peak_mib"] = (torch.cuda.max_memory_allocated() - before) / _MIB
    elif options.memory:
        row[f"{run.side}_peak_mib"] = memory_of(run).peak_bytes / _MIB
    return results[0], row


def _picture(frame: Tensor) -> Picture:
    """[3, H, W] in [-1, 1] to uint8 [H, W, 3]."""
    codes = frame.float().add(1).mul(127.5).round_().to(torch.uint8)
    return np.ascontiguousarray(codes.permute(1, 2, 0).numpy())
