"""Cases `vae-encode` and `vae-decode`: a video VAE with random weights, plain and fast."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.bench.cases.runs import build_vae, random_weights, vae_run, vae_work, variants
from engine.bench.cases.vae_models import VaeRun, models
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.clock import Timing, measure
from engine.bench.timing.peak_rates import (
    CALIBRATION_FLOPS,
    REFERENCE_CALIBRATION,
    calibration,
    matrix_ceiling,
)
from engine.bench.timing.process_memory import MemoryTraffic, main_memory_row
from engine.core.geometry import Size
from engine.core.messages import message
from engine.models.video_vae.measured import Side

if TYPE_CHECKING:
    from engine.models.video_vae.slicing import SlicedVae

# CPU s of the public reference programs: 256x256, float32, on a machine whose calibration is
# REFERENCE_CALIBRATION; by model, side and frames. The machine of Wan's figures was not calibrated;
# its description is the same, so it is taken for the same.
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


@dataclass(frozen=True, slots=True)
class PeakRates:
    """What figures are compared with; 0 where it was not measured."""

    ceiling: float = 0.0  # floating-point operations a second of the device
    calibration: float = 0.0  # CPU s of the calibrating convolution


def vae_rows(options: BenchOptions, side: Side) -> Iterator[Row]:
    """A row of peak rates, then one for each variant and each length of clip."""
    base = vae_run(options, side)
    rates = _peak_rates(options, base)
    if options.calibrate:
        yield _rates_row(base, rates)
    weights = random_weights(base)
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
    before = _allocated(run)
    vae = build_vae(run, weights)
    loaded = _allocated(run)
    for frames in options.frames or _FRAMES:
        one = replace(run, frames=frames)
        row: Row = {"frames": frames, "size": str(run.size), "dtype": run.dtype}
        try:
            row |= _timing_row(options, one, vae, rates)
            if run.device == "cuda":
                row |= {"weights_mib": (loaded - before) / _MIB} | _gpu_memory(one, vae, loaded)
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
    """Figures of a timing, calibrated before and after: a processor's clock rate changes."""
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
    compute = vae_work(run, vae)
    results: list[Tensor] = []

    def work() -> None:
        results.clear()  # the last result is no part of the next one's peak
        results.append(compute())

    on_gpu = run.device == "cuda"
    runs = options.runs or (1 if options.quick else 5 if on_gpu else 3)
    timing = measure(work, run.device, runs=runs, warm_ups=2 if on_gpu else 0)
    return timing, bool(results[0].isfinite().all())


def _figures(run: VaeRun, timing: Timing, rates: PeakRates) -> Row:
    rate = run.flops / timing.seconds
    megapixels = run.frames * run.size.pixels / 1e6
    row: Row = {
        "seconds": timing.seconds,
        "clock": "card" if run.device == "cuda" else "cpu",
        "wall_s": timing.wall_s,
        "ms_a_megapixel": 1000 * timing.seconds / megapixels,
        "tflop": run.flops / 1e12,
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
    """CPU seconds of the public reference on this machine; None where they are not known.

    Args:
        run: What is measured.
        calibration_s: CPU s of the calibrating convolution here; 0 when it was not measured.
    """
    known = REFERENCE_SECONDS.get((run.model, run.side, run.frames))
    is_same = (run.size, run.dtype, run.device) == (_REFERENCE_SIZE, "float32", "cpu")
    is_published = run.config == models()[run.model].config
    if known is None or not calibration_s or not is_same or not is_published:
        return None
    return known * calibration_s / REFERENCE_CALIBRATION


def _gpu_memory(run: VaeRun, vae: SlicedVae, loaded: int) -> Row:
    """Memory of one more run, counted by torch: buffers that stay are part of the peak."""
    work = vae_work(run, vae)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with MemoryTraffic() as traffic:
        work()
    torch.cuda.synchronize()
    return {
        "peak_mib": (torch.cuda.max_memory_allocated() - loaded) / _MIB,
        "reserved_mib": torch.cuda.max_memory_reserved() / _MIB,
        "traffic_mib": traffic.bytes / _MIB,
    }


def _allocated(run: VaeRun) -> int:
    return torch.cuda.memory_allocated() if run.device == "cuda" else 0
