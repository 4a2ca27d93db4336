"""Cases of the video VAEs: `vae-encode`, `vae-decode`, `vae-parts` and `round-trip`.

`vae-encode` and `vae-decode` measure both variants with random weights, `vae-parts` the memory
while each part of a decoder works: which of them makes the peak, and so what a smaller tile or a
shorter slice can save. `round-trip` encodes and decodes a real clip and compares it with itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import record_function

from engine.bench.accuracy import picture_of, psnr, ssim
from engine.bench.memory import (
    AllocationLog,
    MemoryTraffic,
    gpu_bytes,
    gpu_row,
    main_memory_row,
    memory_of,
)
from engine.bench.report import Row
from engine.bench.run import BenchOptions, vae_models
from engine.bench.timing import (
    CALIBRATION_FLOPS,
    REFERENCE_CALIBRATION,
    Timing,
    calibration,
    matrix_ceiling,
    measure,
)
from engine.bench.workload import VaeRun, capability_of, vae_run, variants
from engine.core.errors import SettingsError, WeightsMissing
from engine.core.geometry import Size
from engine.core.messages import message
from engine.files.model_files import Store, named, planned
from engine.hardware.stage_meter import StageMeter
from engine.models.video_vae.layers import Mark
from engine.models.video_vae.runner import FastSlicedVae
from engine.models.video_vae.slicing import SlicedVae
from engine.models.video_vae.vae_use import Side
from engine.protocol.plan import WeightsPlan
from engine.settings.optimisations import ALL, EXACT, VaeSwitches

# CPU s of the public reference programs: 256x256, float32, on a computer whose calibration is
# REFERENCE_CALIBRATION; by model, side and frames. The computer of Wan's figures was not
# calibrated; its description is the same, so it is taken for the same.
REFERENCE_SECONDS: dict[tuple[str, Side, int], float] = {
    ("seedvr2-vae", "decode", 5): 95.3,
    ("seedvr2-vae", "decode", 1): 23.0,
    ("seedvr2-vae", "encode", 5): 37.0,
    ("seedvr2-vae", "encode", 1): 9.6,
    ("wan21-vae", "decode", 5): 38.8,
    ("wan22-vae", "decode", 5): 71.6,
}
_REFERENCE_SIZE = Size(256, 256)
_FRAMES = (5, 1)
_MIB = 2**20
_PARTS_FRAMES = 5
_CLIP_FRAMES, _QUICK_CLIP_FRAMES = 17, 5
_QUICK_CLIP = Size(256, 256)


@dataclass(frozen=True, slots=True)
class PeakRates:
    """Rates that figures are compared with; 0 where not measured."""

    ceiling: float = 0.0  # floating-point operations a second of the device
    calibration: float = 0.0  # CPU s of the calibrating convolution


def vae_rows(options: BenchOptions, side: Side) -> Iterator[Row]:
    """A row of peak rates, then one for each variant and each length of clip."""
    base = vae_run(options, side)
    rates = _peak_rates(options, base)
    if options.calibrate:
        yield _rates_row(base, rates)
    weights = base.weights()
    plain: dict[int, float] = {}
    for title, run in variants(options, base):
        for row in _variant_rows(options, run, weights, rates):
            frames = row["frames"]
            if "seconds" in row and run.form == "plain":
                plain[frames] = row["seconds"]
            elif "seconds" in row and frames in plain:
                row["of_plain"] = row["seconds"] / plain[frames]
            yield {"form": title, **row}


def _peak_rates(options: BenchOptions, base: VaeRun) -> PeakRates:
    if not options.calibrate:
        return PeakRates()
    ceiling = matrix_ceiling(base.device, base.torch_dtype, quick=options.quick)
    if base.device == "cuda":
        return PeakRates(ceiling)
    seconds = calibration(quick=options.quick)
    if base.dtype == "float32":  # there convolutions are faster than matrix products
        ceiling = max(ceiling, CALIBRATION_FLOPS / seconds)
    return PeakRates(ceiling, seconds)


def _rates_row(base: VaeRun, rates: PeakRates) -> Row:
    row: Row = {
        "case": "yardsticks",
        "beside": f"vae-{base.side}",
        "dtype": base.dtype,
        "device": base.device,
        "threads": base.threads,
        "tflop_per_s": rates.ceiling / 1e12,
    }
    return row | ({"calibration_cpu_s": rates.calibration} if rates.calibration else {})


def _variant_rows(
    options: BenchOptions, run: VaeRun, weights: Mapping[str, Tensor], rates: PeakRates
) -> Iterator[Row]:
    """One model and all lengths of clips; a lack of memory is a row too."""
    before = gpu_bytes(run.device)
    vae = run.built(weights)
    loaded = gpu_bytes(run.device)
    for frames in options.frames or _FRAMES:
        one = replace(run, frames=frames)
        row: Row = {"frames": frames, "size": str(run.size), "dtype": run.dtype}
        try:
            row |= _timing_row(options, one, vae, rates)
            if run.device == "cuda":
                with MemoryTraffic() as traffic:
                    memory = gpu_row(one.work_of(vae), loaded)
                row |= {"weights_mib": (loaded - before) / _MIB, **memory}
                row["traffic_mib"] = traffic.bytes / _MIB
            elif options.memory:
                row |= main_memory_row(one, with_result=True)
            if "peak_mib" in row and run.form == "fast":
                row["planned_mib"] = one.planned_bytes / _MIB
        except torch.OutOfMemoryError:
            row["note"] = message("bench.out-of-memory")
        yield row
    del vae
    gc.collect()
    if run.device == "cuda":
        torch.cuda.empty_cache()


def _timing_row(options: BenchOptions, run: VaeRun, vae: SlicedVae, rates: PeakRates) -> Row:
    """Figures of a timing, calibrated before and after: the CPU's clock rate changes."""
    start = _calibration(options, run, rates)
    timing, is_finite = _timed(options, run, vae)
    rates = replace(rates, calibration=(start + _calibration(options, run, rates)) / 2)
    return _figures(run, timing, rates) | {"finite": "yes" if is_finite else "NO"}


def _calibration(options: BenchOptions, run: VaeRun, rates: PeakRates) -> float:
    if reference_seconds(run, rates.calibration) is None:
        return 0.0
    return calibration(quick=options.quick)


def _timed(options: BenchOptions, run: VaeRun, vae: SlicedVae) -> tuple[Timing, bool]:
    """Seconds, and whether the last result is free of NaN and infinite values."""
    compute = run.work_of(vae)
    results: list[Tensor] = []

    def work() -> None:
        results.clear()  # the last result is no part of the next one's peak
        results.append(compute())

    runs = options.rounds(3, 5, device=run.device)
    timing = measure(work, run.device, runs=runs, warm_ups=2 if run.device == "cuda" else 0)
    return timing, bool(results[0].isfinite().all())


def _figures(run: VaeRun, timing: Timing, rates: PeakRates) -> Row:
    rate = run.operations / timing.seconds
    megapixels = run.frames * run.size.pixels / 1e6
    row: Row = {
        "seconds": timing.seconds,
        "clock": "card" if run.device == "cuda" else "cpu",
        "wall_s": timing.wall_s,
        "ms_a_megapixel": 1000 * timing.seconds / megapixels,
        "tflop": run.operations / 1e12,
        "tflop_per_s": rate / 1e12,
    }
    if rates.ceiling:
        row["ceiling_percent"] = 100 * rate / rates.ceiling
    reference = reference_seconds(run, rates.calibration)
    if reference:
        row["calibration_cpu_s"] = rates.calibration
        row["of_reference"] = timing.seconds / reference
    return row


def reference_seconds(run: VaeRun, calibration_s: float) -> float | None:
    """CPU seconds of the public reference on this computer; None where they are not known.

    Args:
        run: Run to measure.
        calibration_s: CPU s of the calibrating convolution here; 0 when it was not measured.
    """
    known = REFERENCE_SECONDS.get((run.model, run.side, run.frames))
    is_same = (run.size, run.dtype, run.device) == (_REFERENCE_SIZE, "float32", "cpu")
    is_published = run.config == vae_models()[run.model].config
    if known is None or not calibration_s or not is_same or not is_published:
        return None
    return known * calibration_s / REFERENCE_CALIBRATION


# --- parts


def part_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each part of the fast decoder, in order, for the first length of clip."""
    if not options.memory:
        return
    frames = (options.frames or (_PARTS_FRAMES,))[0]
    run = replace(vae_run(options, "decode"), form="fast", frames=frames)
    vae: Any = run.built()
    about = {"frames": frames, "size": str(run.size), "dtype": run.dtype}
    for name, peak in part_peaks(vae, run.work_of(vae), run.device).items():
        yield {"layers": name, **about, "peak_mib": peak / _MIB}


def part_peaks(
    vae: FastSlicedVae[Any, Any], work: Callable[[], object], device: str
) -> dict[str, int]:
    """Peak bytes of tensors while each part of the decoder works, above those before `work`.

    Buffers that are allocated once and stay count from the first part that uses them, in a model
    that has not run yet. Of a part that runs for several slices the largest counts.

    Args:
        vae: VAE of the decoder.
        work: Decodes with it; runs once.
        device: "cpu" or "cuda".
    """
    if device == "cuda":
        meter = StageMeter()
        meter.restart()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        work()
        meter.end("decode")
        return {name: peak - before for name, peak in meter.parts["decode"].items()}
    parts = vae.parts["decode"]
    usual = list(parts)
    try:
        parts[:] = [one if isinstance(one, Mark) else _Watched(one) for one in parts]
        names = {part.name for part in parts}
        with AllocationLog() as log:
            result = work()
        del result
        return _peaks(log, names)
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


# --- a clip, there and back


def round_trip_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for the plain variant, the fast one, and the fast one with each switch changed.

    PSNR and SSIM are means over the frames, of luma in 8 bits; results of 2x the size are averaged
    down first. `error` is the largest difference from the first row, over the range.
    """
    path = options.clip
    if path is None:
        raise SettingsError("no-clip")
    weights = None if options.random_weights else weights_of(options)
    if weights is not None:
        options = replace(options, config=options.vae_model.config_of(weights))
    base, clip = clip_run(options, path)
    first: Tensor | None = None
    for title, run in changed_variants(options, base):
        result, figures = _round_trip(options, run, clip, weights)
        first = result if first is None else first
        row: Row = {"form": title, "frames": run.frames, "size": str(run.size), "dtype": run.dtype}
        row |= similarity(clip, result) | {"error": float((result - first).abs().max() / 2)}
        note = {"note": message("bench.random-weights")} if weights is None else {}
        yield row | figures | note


def weights_of(options: BenchOptions) -> WeightsPlan:
    """The file of the model: the user's own, else the published one, with its hash checked."""
    if options.vae is not None:
        return named(options.vae)
    store = Store()
    weights = planned(store.best_vae(options.vae_model.published), store)
    if not weights.is_here:
        raise WeightsMissing("to-measure", model=options.vae_model.title, file=weights.published)
    if weights.published:
        store.ready(weights.published)
    return weights


def changed_variants(options: BenchOptions, base: VaeRun) -> Iterator[tuple[str, VaeRun]]:
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
    pairs = [[picture_of((one + 1) / 2) for one in pair] for pair in frames]
    return {
        "psnr_db": float(np.mean([psnr(*pair) for pair in pairs])),
        "ssim": float(np.mean([ssim(*pair) for pair in pairs])),
    }


def clip_run(options: BenchOptions, path: Path) -> tuple[VaeRun, Tensor]:
    """The plain run, and the clip [1, 3, T, H, W] float32 in [-1, 1]."""
    from engine.bench.jobs import centre_crop, first_frames  # PyAV

    base, config = vae_run(options, "encode"), options.vae_config
    frames = max(options.frames or (_QUICK_CLIP_FRAMES if options.quick else _CLIP_FRAMES,))
    most = options.size or (_QUICK_CLIP if options.quick else None)
    found = first_frames(path, frames, config.temporal_factor)
    clip = centre_crop(found, most, config.spatial_factor).transpose(0, 1)[None].contiguous()
    return replace(base, frames=clip.shape[2], size=Size(clip.shape[4], clip.shape[3])), clip


def _round_trip(
    options: BenchOptions, run: VaeRun, clip: Tensor, weights: WeightsPlan | None
) -> tuple[Tensor, Row]:
    """The result [1, 3, T, H, W] float32 in main memory, and figures of both sides."""
    vae = run.built() if weights is None else run.loaded(weights.path)
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
    work = run.work_of(vae, given)
    results: list[Tensor] = []

    def keep() -> None:
        results[:] = [work()]

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    before = gpu_bytes(run.device)
    timing = measure(keep, run.device, runs=1, warm_ups=int(on_gpu))
    row: Row = {f"{run.side}_s": timing.seconds}
    if on_gpu:
        row[f"{run.side}_peak_mib"] = (torch.cuda.max_memory_allocated() - before) / _MIB
    elif options.memory:
        row[f"{run.side}_peak_mib"] = memory_of(run).peak_bytes / _MIB
    return results[0], row
